"""An agent: what a launcher starts on each worker's machine. It calls the chief, starts processes on its order, and tells how they do.

It trains nothing and imports no torch. A line that breaks is mended: the processes work on meanwhile, and nothing that was said is lost
(post.py). When the chief cannot be reached for `PATIENCE` seconds, all is ended.
"""

from __future__ import annotations

import argparse
import math
import os
import queue
import secrets
import select
import shutil
import signal
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, final

import msgspec

from laminar.core.scratch import scratch
from laminar.launch import measure
from laminar.launch.facts import facts
from laminar.launch.messages import (
    Answer,
    Ended,
    File,
    Hello,
    Leave,
    Leaving,
    Look,
    Measure,
    Message,
    Order,
    Refused,
    Ship,
    Signal,
    Start,
    Started,
    Told,
    Wanted,
    Welcome,
    order,
)
from laminar.launch.post import Bytes, Post
from laminar.launch.workspace import BadPath, Workspace
from laminar.parallel.crew import OWN_ADDRESS, Crew, LocalMember, die_with
from laminar.parallel.wire.frames import Gone
from laminar.parallel.wire.link import Link

BEAT: Final = 0.5  # seconds between words of an agent that has nothing to say, and between looks at the run's folder
SILENCE: Final = 15.0  # after which a line is taken for broken
PATIENCE: Final = 60.0  # without a chief
PAUSE: Final = 0.25  # between calls
LEAVE: Final = 25.0  # seconds until it goes when it was told to end: Kubernetes and torchrun kill it after 30
UNSEEN: Final = 64 << 20  # bytes that the chief has not seen, after which it is waited for
TOKEN: Final = "LAMINAR_TOKEN"  # in the environment; never on a command line, which others can read
CLOSED: Final = 8  # times in a row after which it is no accident
SMALL: Final = 4096  # bytes of a file that is looked at


class TurnedAway(Exception):
    """The chief has no use for this agent."""


@final
class Agent:
    def __init__(self, address: str, token: str, slot: int, root: Path, *, life: str = "", warned: bool = False) -> None:
        """`life`: what the engine calls this agent, and no other. `warned`: whoever has started this process ends it by SIGTERM, and gives
        it time to end in order."""
        self._address, self._token, self._slot, self._warned = address, token, slot, warned
        self._life = life or secrets.token_hex(8)
        self._workspace = Workspace(root)
        self._post = Post()
        self._crew = Crew()
        self._link: Link | None = None
        self._members: dict[int, LocalMember] = {}
        self._measured: queue.Queue[Answer] = queue.Queue()
        self._closed: float = 0  # times that the chief closed the line at our first words
        self._shipping: int | None = None  # the question that is answered when all files are there
        self._heard = self._beaten = time.monotonic()
        self._over = self._warmed = self._asked = False
        self._leaves: float | None = None  # by then at the latest, once it was told to end

    def run(self) -> None:
        """Until the chief says that it is over, or is gone. TurnedAway if it wants no agent, or not this one."""
        try:
            with self._crew:
                self._connect()
                if self._warned:  # not before: nothing is lost by an end that comes sooner
                    signal.signal(signal.SIGTERM, self._on_sigterm)
                while not self._over:
                    try:
                        self._turn()
                    except Gone:
                        self._connect()
        finally:
            if self._link is not None:
                self._link.close()

    def _on_sigterm(self, *_: Any) -> None:
        if self._asked:
            sys.exit(128 + signal.SIGTERM)
        self._asked = True

    # The line

    def _connect(self) -> None:
        if self._link is not None:
            self._crew.no_more(self._link.fileno())
            self._link.close()
            self._link = None
        began = time.monotonic()
        while (called := self._call()) is None:
            if self._asked:
                raise TurnedAway("it was told to end")
            if time.monotonic() - began > PATIENCE:
                raise TurnedAway(f"the chief at {self._address} did not answer for {PATIENCE:g} s")
            time.sleep(PAUSE)
        link, header = called
        self._closed = -math.inf  # it knows us
        said = msgspec.convert(header, Welcome | Refused)
        if isinstance(said, Refused):
            link.close()
            raise TurnedAway(said.why)
        self._post.was_seen(said.seen)
        if said.warm and not self._warmed:
            self._warmed = True
            self._crew.warm(1)
        self._link = link
        self._crew.also(link.fileno())
        self._heard = time.monotonic()
        for header, payload in self._post.again():
            link.send(header, payload)

    def _call(self) -> tuple[Link, dict[str, Any]] | None:
        """None if nobody answers."""
        link = None
        try:
            link = Link(self._address, self._token, timeout=SILENCE)
            hello = Hello(slot=self._slot, life=self._life, seen=self._post.seen, address=link.own_host, facts=facts())
            return link, link.ask(hello)[0]
        except Gone:
            if link is not None:
                link.close()
                self._closed += 1
            if self._closed >= CLOSED:
                raise TurnedAway(
                    f"the chief at {self._address} closes the line at our first words: is {TOKEN} the same here and there?"
                ) from None
            return None

    def _say(self, said: Message, payload: Bytes = b"") -> None:
        header = self._post.out(msgspec.to_builtins(said), payload)
        assert self._link is not None
        self._link.send(header, payload)

    def _turn(self) -> None:
        while not self._measured.empty():
            self._say(self._measured.get())
        for said in list(self._crew.hear(BEAT)):
            number = next(number for number, member in self._members.items() if member is said.member)
            if said.event is None:
                self._ended(number, self._members.pop(number))
            else:
                self._say(Told(member=number, told=said.event))
        assert self._link is not None
        while readable(self._link.fileno()):
            header, payload = self._link.receive()
            self._heard = time.monotonic()
            if (taken := self._post.take(header)) is not None:
                self._do(order(taken), payload)
                if self._over:
                    return
        now = time.monotonic()
        if self._asked and self._leaves is None:
            self._leaves = now + LEAVE
            self._say(Leaving())
        if self._leaves is not None and now > self._leaves:
            raise TurnedAway(f"it was told to end, and the chief has not let it go within {LEAVE:g} s")
        if now - self._heard > SILENCE:
            raise Gone(f"the chief said nothing for {SILENCE:g} s")
        if now - self._beaten >= BEAT:
            self._beaten = now
            if self._post.unseen_bytes < UNSEEN:
                self._tell_changes()
            self._link.send(self._post.beat())

    def _ended(self, number: int, member: LocalMember) -> None:
        """What it wrote, its last word, and its end, in this order: the chief goes on when it hears the last."""
        self._tell_changes()
        if member.done is not None:
            self._say(Told(member=number, told={"done": member.done}))
        if member.error is not None:
            error = {"code": member.error.code, "message": member.error.message, "hint": member.error.hint}
            self._say(Told(member=number, told={"error": error}))
        self._say(Ended(member=number, code=member.code))

    def _tell_changes(self) -> None:
        for said, data in self._workspace.changes():
            self._say(said, data)

    # Orders

    def _do(self, told: Order, payload: memoryview) -> None:
        match told:
            case Look(question=question, files=files):
                self._say(Answer(question=question, answer=[_look(path) for path in files]))
            case Ship():
                self._ship(told)
            case File(path=path, at=at, last=last):
                self._receive(path, at, payload, last=last)
            case Start():
                self._start(told)
            case Signal(member=number, number=what):
                if number in self._members:
                    self._members[number].send(signal.Signals(what))
            case Measure():
                self._measure(told)
            case Leave():
                self._over = True

    def _ship(self, told: Ship) -> None:
        try:
            wanted = self._workspace.expect(told.files)
            self._workspace.borrow(told.lent)
        except (BadPath, OSError) as error:
            self._say(Answer(question=told.question, wrong=str(error)))
            return
        if wanted:
            self._shipping = told.question
            self._say(Wanted(paths=wanted))
        else:
            self._say(Answer(question=told.question))

    def _receive(self, path: str, at: int, payload: memoryview, *, last: bool) -> None:
        if self._shipping is None:
            return  # of a shipment that went wrong
        try:
            if self._workspace.receive(path, at, payload, last=last):
                self._say(Answer(question=self._shipping))
                self._shipping = None
        except (ValueError, KeyError, OSError) as error:
            if self._shipping is not None:
                self._say(Answer(question=self._shipping, wrong=f"{type(error).__name__}: {error}"))
            self._shipping = None
        assert self._link is not None
        self._link.send(self._post.beat())  # there may be more: it waits for what is on its way

    def _measure(self, told: Measure) -> None:
        """By a thread: over a slow line it takes longer than the chief waits for a word."""
        assert self._link is not None
        host = self._link.own_host

        def run() -> None:
            try:
                found: Any = measure.answer_one(host, told.key) if told.listen else measure.call(told.address, told.key, told.bytes)
                self._measured.put(Answer(question=told.question, answer=found))
            except OSError as error:
                self._measured.put(Answer(question=told.question, wrong=str(error)))

        threading.Thread(target=run, name="laminar-measure", daemon=True).start()

    def _start(self, told: Start) -> None:
        brief = localised(told.brief, {theirs: self._workspace.root / ours for theirs, ours in told.places.items()})
        if told.follow:
            self._workspace.follow(told.follow)
        assert self._link is not None
        own = {OWN_ADDRESS: self._link.own_host, "OMP_NUM_THREADS": str(told.threads)}
        given = {name: path for name, path in told.environment.items() if name not in os.environ and os.path.exists(path)}
        self._crew.nursery = told.nursery
        member = self._crew.start(told.module, told.role, told.rank, brief, environment={**given, **own})
        self._members[told.member] = member
        self._say(Started(member=told.member, pid=member.pid))


def localised(brief: Mapping[str, Any], places: Mapping[str, Path]) -> dict[str, Any]:
    """The brief with the chief's folders replaced by those of the workspace."""

    def moved(value: Any) -> Any:
        if isinstance(value, str):
            for theirs, ours in places.items():
                if value == theirs or value.startswith(theirs + "/"):
                    return str(ours) + value.removeprefix(theirs)
        return value

    found = {key: moved(value) for key, value in brief.items()}
    if "job" in found:
        found["job"] = {key: moved(value) for key, value in found["job"].items()}
    return found


def readable(file: int) -> bool:
    return bool(select.select([file], [], [], 0)[0])


def _look(path: str) -> str | None:
    try:
        with open(path, "rb") as file:
            return file.read(SMALL).decode(errors="replace")
    except OSError:
        return None


def serve(address: str, token: str, slot: int, *, life: str = "", warned: bool = False) -> str:
    """Be an agent. Returns why it is over, if something went wrong."""
    root = scratch("laminar-agent-")
    try:
        Agent(address, token, slot, root, life=life, warned=warned).run()
    except TurnedAway as error:
        return str(error)
    finally:
        shutil.rmtree(root, ignore_errors=True)
    return ""


def main() -> int:
    """`python -m laminar.launch.agent ADDRESS SLOT`, with the token in the environment."""
    parser = argparse.ArgumentParser(prog="laminar-agent")
    parser.add_argument("address")
    parser.add_argument("slot", type=int)
    given = parser.parse_args()
    die_with(os.getppid())
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    if why := serve(given.address, os.environ.pop(TOKEN), given.slot):
        print(f"laminar agent {given.slot}: {why}", file=sys.stderr)
        return 4
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""A crew: processes on this machine that work together, started, listened to and ended by one chief.

Each process reads its brief (JSON) from its standard input and tells what happens by lines of JSON on a pipe of its own. The pipe ends when
the process does, however it dies, so the chief hears of a death at once and never polls. When the chief dies, its crew is ended by
the system (Linux) or ends itself when it finds its parent gone.

    {"event": …}                        passed on to whoever listens
    {"done": …}                         the last word of a process that did its work
    {"error": {"code", "message", "hint"}}   the last word of one that could not
"""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import signal
import subprocess
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Final, final

from laminar.core.errors import LaminarError

CALLED_OFF: Final = 75  # exit code of a process that left because another died
GRACE: Final = 10.0  # seconds that processes have to leave when they are told to


@dataclass
class Member:
    """One process of a crew, and what is known of it."""

    role: str
    rank: int
    process: subprocess.Popen[bytes]
    pipe: int
    rest: bytes = b""
    done: Any = None
    error: LaminarError | None = None
    ended: bool = False

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def name(self) -> str:
        return f"{self.role} {self.rank} (process {self.pid})"

    def how_it_ended(self) -> str:
        code = self.process.returncode
        if code is not None and code < 0:
            return f"was ended by {signal.Signals(-code).name}"
        return f"left with exit code {code}"


@dataclass(frozen=True)
class Said:
    """An event of a member, or its end."""

    member: Member
    event: dict[str, Any] | None = None  # None: the process has ended


@final
class Crew:
    """A context: nothing that was started outlives it."""

    @staticmethod
    def before(role: str, rank: int) -> list[str]:  # noqa: ARG004 - for whoever puts processes elsewhere
        """Words before a process's own command: what puts it into another namespace, or limits it."""
        return []

    def __init__(self, *, threads: int = 1) -> None:
        self.members: list[Member] = []
        self._threads = threads
        self._selector = selectors.DefaultSelector()

    def start(self, module: str, role: str, rank: int, brief: dict[str, Any], *, files: Sequence[int] = ()) -> Member:
        """Run `python -m module`; `files` are open files that the process inherits under the same numbers."""
        read, write = os.pipe()
        environment = os.environ | {"OMP_NUM_THREADS": str(self._threads)}
        process = subprocess.Popen(
            [*self.before(role, rank), sys.executable, "-m", module],
            stdin=subprocess.PIPE,
            stdout=sys.stderr.fileno() if _has_file(sys.stderr) else None,  # what a model prints is no result
            pass_fds=[write, *files],
            env=environment,
            start_new_session=True,  # Ctrl-C goes to the chief, who says what is to be done
        )
        os.close(write)
        os.set_blocking(read, False)
        member = Member(role, rank, process, read)
        self.members.append(member)
        self._selector.register(read, selectors.EVENT_READ, member)
        assert process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            process.stdin.write(json.dumps({**brief, "role": role, "rank": rank, "pipe": write, "chief": os.getpid()}).encode())
            process.stdin.close()
        return member

    def hear(self, timeout: float | None = None) -> Iterator[Said]:
        """What members said, and which of them ended, since the last time; waits for something to be heard."""
        for key, _ in self._selector.select(timeout):
            member: Member = key.data
            yield from self._listen(member)

    def _listen(self, member: Member) -> Iterator[Said]:
        while True:
            try:
                data = os.read(member.pipe, 1 << 16)
            except BlockingIOError:
                return
            if not data:
                self._selector.unregister(member.pipe)
                os.close(member.pipe)
                member.process.wait()
                member.ended = True
                yield Said(member)
                return
            *lines, member.rest = (member.rest + data).split(b"\n")
            for line in lines:
                told = json.loads(line)
                if "done" in told:
                    member.done = told["done"]
                elif "error" in told:
                    member.error = LaminarError(told["error"]["code"], told["error"]["message"], hint=told["error"]["hint"])
                else:
                    yield Said(member, told)

    @property
    def alive(self) -> list[Member]:
        return [member for member in self.members if not member.ended]

    def tell_all(self, number: signal.Signals) -> None:
        for member in self.alive:
            with contextlib.suppress(ProcessLookupError):
                member.process.send_signal(number)

    def end(self, grace: float = GRACE) -> None:
        """End whoever is left: asked first, then made to."""
        self.tell_all(signal.SIGTERM)
        for member in self.alive:
            try:
                member.process.wait(grace)
            except subprocess.TimeoutExpired:
                member.process.kill()
                member.process.wait()

    def __enter__(self) -> Crew:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None) -> None:
        self.end()
        for member in self.members:
            if not member.ended:
                os.close(member.pipe)
        self._selector.close()


@dataclass
class Brief:
    """What a process was told when it was started."""

    told: dict[str, Any]
    say: Callable[[dict[str, Any]], None] = field(repr=False)


def read_brief() -> Brief:
    """In a member: what it is to do, and a way to speak to the chief."""
    told = json.loads(sys.stdin.buffer.read())
    _die_with(told["chief"])
    pipe = told["pipe"]

    def say(message: dict[str, Any]) -> None:
        line = json.dumps(message).encode() + b"\n"
        while line:
            line = line[os.write(pipe, line) :]

    return Brief(told, say)


def tell_error(brief: Brief, who: str, error: Exception) -> None:
    """The last word of a member that could not do its work."""
    if isinstance(error, LaminarError):
        told = {"code": error.code, "message": f"{who}: {error.message}", "hint": error.hint}
    else:
        traceback.print_exception(error)
        told = {"code": "L900", "message": f"a bug in Laminar: {who}: {type(error).__name__}: {error}", "hint": "laminar doctor"}
    brief.say({"error": told})


def _die_with(chief: int) -> None:
    """Nobody is left to hear us when the chief is gone."""
    if sys.platform == "linux":
        import ctypes

        PR_SET_PDEATHSIG = 1
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != chief:
        os._exit(CALLED_OFF)


def _has_file(stream: Any) -> bool:
    try:
        stream.fileno()
    except (AttributeError, OSError, ValueError):
        return False
    return True

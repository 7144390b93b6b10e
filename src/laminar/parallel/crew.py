"""A crew: processes that work together, started, listened to and ended by one chief. On this machine, or where a staff puts them.

Each process reads its brief (JSON) from its standard input and tells what happens by lines of JSON on a pipe of its own. The pipe ends when
the process does, however it dies, so the chief hears of a death at once and never polls. When the chief dies, its crew is ended by
the system (Linux) or ends itself when it finds its parent gone.

    {"event": …}                        passed on to whoever listens
    {"looked": "file:models.bin"}       what the layer's code has looked at in that process (core/observe.py)
    {"done": …}                         the last word of a process that did its work
    {"error": {"code", "message", "hint"}}   the last word of one that could not

What is said elsewhere arrives in the same form: strategies do not know where their workers are.
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
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Final, Protocol, final

from laminar.core import interrupts
from laminar.core.errors import LaminarError
from laminar.parallel.forked import Forked, fork
from laminar.parallel.speech import Speech

CALLED_OFF: Final = 75  # exit code of a process that left because another died
OWN_ADDRESS: Final = "LAMINAR_ADDRESS"  # in the environment of a process on another machine: where the others can call it
SPARE: Final = "laminar.parallel.spare"
GIVEN: Final[list[dict[str, Any]]] = []  # in a spare process: the brief, which it has read itself
TICK: Final = 0.5  # seconds
GRACE: Final = 10.0  # seconds that processes have to leave when they are told to


@dataclass(eq=False)
class Member(ABC):
    """One process of a crew, and what is known of it."""

    role: str
    rank: int
    done: Any = None
    error: LaminarError | None = None
    ended: bool = False
    bystander: bool = False  # it ended only because another was lost: nothing is wrong with its machine

    @property
    @abstractmethod
    def name(self) -> str:
        """For people: what it is, and where to look for it."""

    @property
    @abstractmethod
    def code(self) -> int | None:
        """Its exit code, or minus the signal that ended it; None while it runs, or if nobody knows."""

    @abstractmethod
    def send(self, number: signal.Signals) -> None:
        """Nothing happens if it has ended."""

    @abstractmethod
    def wait(self, timeout: float) -> bool:
        """Until it has ended; False if it did not in so many seconds."""

    def kill(self) -> None:
        self.send(signal.SIGKILL)

    def how_it_ended(self) -> str:
        code = self.code
        if code is not None and code < 0:
            return f"was ended by {signal.Signals(-code).name}"
        return f"left with exit code {code}"

    def take(self, told: dict[str, Any]) -> Said | None:
        """What it said: its last word is kept, anything else is for the chief."""
        if "done" in told:
            self.done = told["done"]
        elif "error" in told:
            self.error = LaminarError(told["error"]["code"], told["error"]["message"], hint=told["error"]["hint"])
        else:
            return Said(self, told)
        return None


@dataclass(frozen=True)
class Said:
    """An event of a member, or its end."""

    member: Member
    event: dict[str, Any] | None = None  # None: the process has ended


@final
@dataclass(eq=False)
class LocalMember(Member):
    process: subprocess.Popen[bytes] | Forked = field(kw_only=True)
    pipe: int = field(kw_only=True)
    rest: bytes = b""

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def name(self) -> str:
        return f"{self.role} {self.rank} (process {self.pid})"

    @property
    def code(self) -> int | None:
        return self.process.returncode

    def send(self, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError):
            self.process.send_signal(number)

    def wait(self, timeout: float) -> bool:
        try:
            self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            return False
        return True


class NobodyHere(LaminarError):
    """L406: no machine is left to start a process on. The engine may be replacing them: `Staff.room` waits for that."""


class Staff(Protocol):
    """Whoever starts processes on other machines (launch/staff.py). Its `fileno` is readable when there is something to hear."""

    @property
    def one_machine(self) -> bool:
        """Are all its processes on the chief's own machine, and may look into the chief's open files?"""

    @property
    def host(self) -> str:
        """An address of this machine that the others can call."""

    @property
    def idle(self) -> bool:
        """Is there a place for a process where none is?"""

    def room(self, wanted: int, fewest: int | None = None) -> int:
        """How many processes there is room for: waits for `wanted` as long as it makes sense. L406 if `fewest` do not come."""

    def ship(self, job: Mapping[str, Any]) -> None:
        """Give everybody what a job (open_job.Description as JSON) needs; before processes are started for it."""

    def start(self, module: str, role: str, rank: int, brief: Mapping[str, Any], *, threads: int) -> Member:
        """NobodyHere if nobody is there to start it."""

    def hear(self) -> Iterator[Said]: ...

    def fileno(self) -> int: ...

    def about(self) -> dict[str, Any]:
        """For the layer's provenance: what started the workers, and where they were."""


@dataclass(frozen=True)
class _Begun:
    """A process that waits for its brief."""

    process: subprocess.Popen[bytes]
    read: int
    write: int  # the number of the pipe's other end, over there


@final
class Crew:
    """A context: nothing that was started outlives it."""

    @staticmethod
    def before(role: str, rank: int) -> list[str]:  # noqa: ARG004 - for whoever puts processes elsewhere
        """Words before a process's own command: what puts it into another namespace, or limits it."""
        return []

    def __init__(self, *, threads: int = 1, staff: Staff | None = None) -> None:
        self.nursery = ""  # address of one that forks processes
        self.members: list[Member] = []
        self._spares: list[_Begun] = []
        self._threads = threads
        self._selector = selectors.DefaultSelector()
        self._staff = staff
        if staff is not None:
            self._selector.register(staff.fileno(), selectors.EVENT_READ, None)

    def start(
        self,
        module: str,
        role: str,
        rank: int,
        brief: Mapping[str, Any],
        *,
        files: Sequence[int] = (),
        environment: Mapping[str, str] | None = None,
    ) -> LocalMember:
        """Run `python -m module` here; `files` are open files that the process inherits under the same numbers."""
        own = {"OMP_NUM_THREADS": str(self._threads)} | dict(environment or {})
        told = {**brief, "role": role, "rank": rank, "chief": os.getpid()}
        if self.nursery and not files and (forked := self._forked(module, told, own)) is not None:
            return self._joined(LocalMember(role, rank, process=forked[0], pipe=forked[1]))
        spare = self._spare() if not files else None
        if spare is not None:
            told |= {"module": module, "environment": own}
        else:
            spare = self._begin([*self.before(role, rank), sys.executable, "-m", module], files, own)
        member = self._joined(LocalMember(role, rank, process=spare.process, pipe=spare.read))
        assert spare.process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            spare.process.stdin.write(json.dumps({**told, "pipe": spare.write}).encode())
            spare.process.stdin.close()
        return member

    def _joined(self, member: LocalMember) -> LocalMember:
        self.members.append(member)
        self._selector.register(member.pipe, selectors.EVENT_READ, member)
        return member

    def _forked(self, module: str, told: Mapping[str, Any], own: Mapping[str, str]) -> tuple[Forked, int] | None:
        read, write = os.pipe()
        made = fork(self.nursery, module, told, own, write)
        os.close(write)
        if made is None:
            os.close(read)
            return None
        os.set_blocking(read, False)
        return made, read

    def warm(self, count: int) -> None:
        """Have so many processes load what workers need: those that are started next begin sooner."""
        words = [sys.executable, "-m", SPARE, str(os.getpid())]
        self._spares += [self._begin(words, (), {"OMP_NUM_THREADS": str(self._threads)}) for _ in range(count)]

    def _begin(self, words: Sequence[str], files: Sequence[int], environment: Mapping[str, str]) -> _Begun:
        read, write = os.pipe()
        with interrupts.held_back():  # one that the chief passes on may come while it loads torch
            process = subprocess.Popen(
                words,
                stdin=subprocess.PIPE,
                stdout=sys.stderr.fileno() if _has_file(sys.stderr) else None,  # what a model prints is no result
                pass_fds=[write, *files],
                env=os.environ | environment,
                start_new_session=True,  # Ctrl-C goes to the chief, who says what is to be done
            )
        os.close(write)
        os.set_blocking(read, False)
        return _Begun(process, read, write)

    def _spare(self) -> _Begun | None:
        while self._spares:
            if (found := self._spares.pop()).process.poll() is None:
                return found
            os.close(found.read)
        return None

    def start_worker(self, module: str, rank: int, brief: Mapping[str, Any], *, files: Sequence[int] = ()) -> Member:
        """Here, or elsewhere where there is a staff for that."""
        if self._staff is None:
            return self.start(module, "worker", rank, brief, files=files)
        member = self._staff.start(module, "worker", rank, brief, threads=self._threads)
        self.members.append(member)
        return member

    def start_evaluator(self, module: str, brief: Mapping[str, Any]) -> Member:
        """On a machine that has no worker, where there is one; else beside the chief."""
        if self._staff is None or not self._staff.idle:
            return self.start(module, "evaluator", 0, brief)
        member = self._staff.start(module, "evaluator", 0, brief, threads=self._threads)
        self.members.append(member)
        return member

    def hear(self, timeout: float | None = None) -> Iterator[Said]:
        """What members said, and which of them ended, since the last time; waits for something to be heard."""
        if self._staff is not None:  # it has to look at the clock
            timeout = TICK if timeout is None else min(timeout, TICK)
        for key, _ in self._selector.select(timeout):
            if isinstance(key.data, LocalMember):
                yield from self._listen(key.data)
        if self._staff is not None:
            yield from self._staff.hear()

    def also(self, file: int) -> None:
        """Let `hear` return when there is something to read in this file, too."""
        self._selector.register(file, selectors.EVENT_READ, None)

    def no_more(self, file: int) -> None:
        self._selector.unregister(file)

    def _listen(self, member: LocalMember) -> Iterator[Said]:
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
                if (said := member.take(json.loads(line))) is not None:
                    yield said

    @property
    def alive(self) -> list[Member]:
        return [member for member in self.members if not member.ended]

    @property
    def workers(self) -> list[Member]:
        """That are alive."""
        return [member for member in self.alive if member.role == "worker"]

    def tell_all(self, number: signal.Signals) -> None:
        for member in self.alive:
            member.send(number)

    def end(self, grace: float = GRACE) -> None:
        """End whoever is left: asked first, then made to."""
        self.tell_all(signal.SIGTERM)
        for member in self.alive:
            if not member.wait(grace):
                member.kill()
                member.wait(grace)

    def __enter__(self) -> Crew:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None) -> None:
        self.end()
        while (spare := self._spare()) is not None:
            spare.process.kill()
            spare.process.communicate()
            os.close(spare.read)
        for member in self.members:
            if isinstance(member, LocalMember) and not member.ended:
                os.close(member.pipe)
        self._selector.close()


@dataclass
class Brief:
    """What a process was told when it was started."""

    told: dict[str, Any]
    say: Callable[[dict[str, Any]], None] = field(repr=False)


def read_brief(*, dies_with_chief: bool = True) -> Brief:
    """In a member: what it is to do, and a way to speak to the chief. One that has something to put away at the end dies by itself."""
    told = GIVEN[0] if GIVEN else brief_from(sys.stdin.buffer.read())
    if dies_with_chief:
        die_with(told["chief"])
    return Brief(told, Speech(told["pipe"]))


def brief_from(words: bytes) -> dict[str, Any]:
    """Leaves if there is none: whoever has started this process was interrupted before it could say what for."""
    try:
        told: dict[str, Any] = json.loads(words)
    except ValueError:
        os._exit(CALLED_OFF)
    return told


def tell_error(brief: Brief, who: str, error: Exception) -> None:
    """The last word of a member that could not do its work."""
    if isinstance(error, LaminarError):
        told = {"code": error.code, "message": f"{who}: {error.message}", "hint": error.hint}
    else:
        traceback.print_exception(error)
        told = {"code": "L900", "message": f"a bug in Laminar: {who}: {type(error).__name__}: {error}", "hint": "laminar doctor"}
    brief.say({"error": told})


def die_with(chief: int) -> None:
    """Nobody is left to hear us when the process that has started us is gone."""
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

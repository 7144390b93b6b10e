"""Messages: every request and answer between server, nodes and whoever commands a grid. JSON; unknown fields are refused.

Limits stand in the types, so that what is too long or too large is refused before anything is done with it.
"""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import Meta

PROTOCOL: Final = 5
LARGEST: Final = 1 << 30  # bytes of an answer, or of what a node has kept back
# Patterns for Python and for the readers of our OpenAPI alike. $ would let a line feed through, and \\Z is known to Python alone.
_END: Final = "(?![\\s\\S])"
_OBEYED: Final = "\\x00-\\x1f\\x7f-\\x9f\\u200b\\u200e\\u200f\\u2028-\\u202e\\u2060-\\u206f\\ufeff"  # by a terminal (core/printable.py)
Sha = Annotated[str, Meta(pattern=f"^[0-9a-f]{{64}}{_END}")]
NodeId = Annotated[str, Meta(pattern=f"^[0-9a-f]{{20}}{_END}")]
NAME: Final = 80  # letters
Name = Annotated[str, Meta(min_length=1, max_length=NAME, pattern=f"^[^{_OBEYED}]+{_END}")]
Line = Annotated[str, Meta(max_length=200, pattern=f"^[^{_OBEYED}]*{_END}")]  # of a stranger, for somebody's terminal
Short = Annotated[str, Meta(max_length=200)]
DIGITS: Final = 18  # of a number that any database takes
ADMITTED: Final = 50  # nodes that a new token lets in, if nothing else is said
PORT: Final = 8787  # where a server listens if nothing else is said
Count = Annotated[int, Meta(ge=0, le=1 << 50)]
Arrived = Literal["returned", "valid", "invalid", "late"]  # what an answer may be when it has come
Rate = Annotated[float, Meta(ge=0, le=1e12)]
Seconds = Annotated[float, Meta(ge=0, le=1e9)]


class Message(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    pass


class Facts(Message, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Of a node's machine: for its owner and for people who look at the grid. Nothing is decided by it but what fits, and who has the
    kernels that a run needs."""

    name: Name
    cores: Annotated[int, Meta(ge=1, le=65536)]
    memory: Count  # bytes that tasks may use
    platform: Short  # Linux x86_64
    laminar: Short
    torch: Short = ""
    kernels: Annotated[list[Sha], Meta(max_length=256)] = []  # that its owner has put there (core/kernel_files.py)


class Spoken(msgspec.Struct, frozen=True, kw_only=True):
    """What any protocol's first request has."""

    protocol: int


class Enrol(Message, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The first request of a node; signed with the key that it brings."""

    protocol: int
    token: Annotated[str, Meta(max_length=200)]
    key: Annotated[str, Meta(pattern=f"^[A-Za-z0-9+/]{{43}}={_END}")]
    facts: Facts


class Enrolled(Message, frozen=True, kw_only=True, forbid_unknown_fields=True):
    node: NodeId
    grid: Name
    now: float


class Spent(Message, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Seconds of a node, by what it was at (utilization.py). For people: nothing is decided by them."""

    result: Count = 0  # on which they were spent; 0: on none
    computing: Seconds = 0.0
    transfer: Seconds = 0.0
    waiting: Seconds = 0.0
    paused: Seconds = 0.0

    @property
    def total(self) -> float:
        return self.computing + self.transfer + self.waiting + self.paused


class Ask(Message, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A node has time: how many tasks it wants, which samples it has on its disk, how fast it was."""

    want: Annotated[int, Meta(ge=0, le=64)]
    wait: Annotated[float, Meta(ge=0, le=60)] = 0.0  # seconds that the server may hold the request until there is work
    has: Annotated[list[Annotated[str, Meta(max_length=80)]], Meta(max_length=256)] = []  # run/sample
    holds: Annotated[list[Count], Meta(max_length=64)] = []  # results that it is at: others that it was given have got lost on the way
    speed: Annotated[float, Meta(ge=0, le=1e12)] = 0.0  # samples a second; 0: not known yet
    available: Annotated[float, Meta(ge=0, le=1)] = 1.0  # share of the time in which its owner lets it work
    down: Rate = 0.0  # bytes a second of its line, as versions came; 0: not known
    up: Rate = 0.0  # and as answers went
    cannot: Annotated[list[tuple[Count, Line]], Meta(max_length=64)] = []  # results that it gives back, and why
    without: Annotated[list[Name], Meta(max_length=64)] = []  # runs whose tasks are too large for it
    heard: Annotated[
        list[Count], Meta(max_length=64)
    ] = []  # results whose verdicts it has heard, and settled on its disk: no need to repeat
    versions: Annotated[dict[Name, Count], Meta(max_length=16)] = {}  # of runs: the newest on its disk, to send differences to
    facts: Facts | None = None  # when they have changed
    report: Count = 0  # number of the report of `spent`: the same one counts once
    spent: Annotated[list[Spent], Meta(max_length=64)] = []  # since the last report that was heard


class Version(Message, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A version of a model: the sha256 is of its plain bytes, whichever way they come."""

    number: int
    sha256: Sha
    size: Count


class Task(Message, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A piece of work. All of it is in here or named by a digest, so that anyone could do it again."""

    result: int  # to answer with
    task: int
    run: Name
    about: Sha  # the run's description (About), a file
    version: Version
    sample: int | None  # the seed of the local sample; None: the whole data set
    epoch: int
    first: int  # batch
    steps: Annotated[int, Meta(ge=1)]
    seed: int
    progress: float  # epochs behind the whole run, for what depends on it: rates, warm-up of compression
    lease: Seconds  # from now


class Packed(Message, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A version that a node will need, as the difference to one that it has (model_bytes.py). Its bytes come after the message."""

    run: Name
    number: int
    base: int
    size: Count  # bytes


class Work(Message, frozen=True, kw_only=True, forbid_unknown_fields=True):
    tasks: list[Task] = []
    wait: Seconds = 0.0  # until it is worth asking again
    why: Short = ""  # there is nothing
    verdicts: list[tuple[int, str, str]] = []  # on earlier results: result, state, reason; until they are known to be heard
    versions: list[Packed] = []  # for the tasks, where they are small and the node has one before
    now: float = 0.0
    held: Seconds = 0.0  # that the server let the request wait for work


class Verdict(Message, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What became of an answer on arrival. Accepted: it is durable, and will not be asked for again."""

    result: int
    state: Arrived
    reason: Short = ""
    work: Work | None = None  # what to do next, where the node asked for it


class Received(Message, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Of an upload in pieces: so many bytes are here."""

    size: Count
    sha256: Annotated[str, Meta(pattern=f"^([0-9a-f]{{64}})?{_END}")] = ""  # of these, where they were asked for


class Problem(Message, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Any refusal."""

    error: Short
    message: Annotated[str, Meta(max_length=2000)]
    now: float = 0.0  # the server's clock: a node whose own is wrong goes by it


class About(Message, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The description of a run that nodes get: digests of files, settings, shapes. No code."""

    run: Name
    graphs: dict[Literal["train", "eval"], Sha]
    parameters: dict[str, tuple[int, ...]]  # trained, in the order of a version's values
    buffers: dict[str, tuple[int, ...]]
    fixed: Sha | None  # safetensors of what is frozen
    aliases: dict[str, str]
    frozen: list[str]  # paths
    recipe: dict[str, Any]
    data: dict[str, Any]
    compress: dict[str, Any]
    gradients: bool  # a task sends the gradient of one step, not the distance of several
    classes: int | None
    sketch: int  # seed

    @property
    def files(self) -> list[str]:
        """That nodes fetch, beside this one."""
        return [*self.graphs.values(), *([self.fixed] if self.fixed else [])]

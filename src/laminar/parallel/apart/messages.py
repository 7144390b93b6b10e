"""Messages between workers, servers and the chief: headers of the wire (../wire/). Bytes that go with them are named here.

A worker of rounds says Hello and waits for Round; answers it with Push and waits for the next; until it hears Finished.
A worker of downpour says Hello to every server, then asks the first one for work, and all for parameters, whenever it wants to.
The chief fetches parameters for the test after an epoch, and says how to go on.
"""

from __future__ import annotations

from typing import Annotated, Any, Final, get_args

import msgspec

from laminar.parallel.apart.work import Task

Count = Annotated[int, msgspec.Meta(ge=0)]


class Message(msgspec.Struct, frozen=True, kw_only=True, tag_field="say", forbid_unknown_fields=True):
    pass


# To a server


class Hello(Message, frozen=True, kw_only=True, tag="hello"):
    """A worker is here. An empty name: the server finds one."""

    worker: str = ""
    life: str = ""  # the same for all calls of one process, and never again
    pid: int = 0
    host: str = ""
    busy: Count | None = None  # the round that it is at work for


class Push(Message, frozen=True, kw_only=True, tag="push"):
    """Bytes: the packet, then the buffers, where they have changed."""

    sequence: Count
    base: Count  # version of the parameters it was computed at
    work: Annotated[float, msgspec.Meta(gt=0)]  # what it counts for: samples, or batches
    batches: Count  # that it is made of
    seconds: Annotated[float, msgspec.Meta(ge=0)] = 0.0  # that it took to compute
    waited: Annotated[float, msgspec.Meta(ge=0)] = 0.0  # seconds in which its worker had nothing to do, since its last push
    round: Count | None = None
    unit: Count | None = None  # that the batches are of
    fetch: bool = False  # the reply is to bring parameters
    loss: float = 0.0
    tally: dict[str, float] = {}
    epoch: Count = 0  # that the tally belongs to
    idle: list[int] = []  # tensors of this shard, by number, that have no gradient: one process would leave them alone
    ask: bool = False  # its unit is done with it, and the reply is to bring the next one, if there is one
    packet: Count = 0  # bytes


class Fetch(Message, frozen=True, kw_only=True, tag="fetch"):
    """`keep`: when everything before it is in the snapshot, because whoever asks is about to leave, and could push nothing again."""

    keep: bool = False


class Ask(Message, frozen=True, kw_only=True, tag="ask"):
    """For a unit of work. `done`: the one that is behind."""

    done: int | None = None


class Alive(Message, frozen=True, kw_only=True, tag="alive"):
    """Nothing to say, and still at work. No reply, unless it is to find out whether the server is."""

    answer: bool = False


class Chief(Message, frozen=True, kw_only=True, tag="chief"):
    """The caller is the chief, and all of this holds from now on."""

    tested: int = -1  # this epoch and those before it: rounds go on
    stop: str = ""  # why there shall be no more
    absent: list[str] = []  # workers that were to be there and will not come
    keep: bool = False  # write a snapshot now


Request = Hello | Push | Fetch | Ask | Alive | Chief

# From a server


class Welcome(Message, frozen=True, kw_only=True, tag="welcome"):
    worker: str
    version: int
    next: int  # the first sequence number to use
    kept: int


class Taken(Message, frozen=True, kw_only=True, tag="taken"):
    """What became of a push. `kept`: this and earlier numbers survive the server. Bytes: parameters, if they were asked for."""

    version: int
    kept: int
    dropped: str = ""
    task: Task | None = None  # the next unit, where it was asked for; None: ask for it, and wait


class Parameters(Message, frozen=True, kw_only=True, tag="parameters"):
    """Bytes: parameters, then buffers."""

    version: int
    step: int
    buffers: bool = False


class Unit(Message, frozen=True, kw_only=True, tag="unit"):
    task: Task


class Round(Message, frozen=True, kw_only=True, tag="round"):
    """Bytes: parameters, then buffers."""

    task: Task
    version: int
    buffers: bool = False


class Finished(Message, frozen=True, kw_only=True, tag="finished"):
    """`again`: it is an interruption, and what a worker has of its own is to be kept."""

    why: str
    again: bool = False


class Here(Message, frozen=True, kw_only=True, tag="here"):
    """The answer to Alive: what was asked before is not forgotten, there is nothing to say to it yet."""


class Refused(Message, frozen=True, kw_only=True, tag="refused"):
    code: str
    message: str
    hint: str


Reply = Welcome | Taken | Parameters | Unit | Round | Finished | Here | Refused


# By name: msgspec keeps what it knows of a class, and finds it out again for a union each time, which takes longer than the rest.
_REQUESTS: Final[dict[Any, Any]] = {kind.__struct_config__.tag: kind for kind in get_args(Request)}
_REPLIES: Final[dict[Any, Any]] = {kind.__struct_config__.tag: kind for kind in get_args(Reply)}


def request(header: dict[str, Any]) -> Request:
    """msgspec.ValidationError if it is none."""
    found: Request = msgspec.convert(header, _kind(_REQUESTS, header, Request))
    return found


def reply(header: dict[str, Any]) -> Reply:
    found: Reply = msgspec.convert(header, _kind(_REPLIES, header, Reply))
    return found


def _kind(kinds: dict[Any, Any], header: dict[str, Any], otherwise: Any) -> Any:
    """`otherwise` says what is wrong with a name."""
    name = header.get("say")
    return kinds.get(name, otherwise) if isinstance(name, str) else otherwise

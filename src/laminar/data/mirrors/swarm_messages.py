"""What goes into the swarm and what comes out of it. Connections, mirrors and files are numbers, units count within a file."""

from __future__ import annotations

from dataclasses import dataclass

from laminar.data.mirrors.faults import Kind

# Events


@dataclass(frozen=True, slots=True)
class Ready:
    """A connection that was cancelled has let go."""

    connection: int


@dataclass(frozen=True, slots=True)
class Arrived:
    """Bytes of the unit in work, and such that were read over to get there."""

    connection: int
    count: int
    skipped: int = 0


@dataclass(frozen=True, slots=True)
class Proved:
    """The unit in work is whole, and is what it should be."""

    connection: int


@dataclass(frozen=True, slots=True)
class Had:
    """The unit in work was there already: somebody else fetched it."""

    connection: int


@dataclass(frozen=True, slots=True)
class Lied:
    """The unit in work is whole, and is something else."""

    connection: int
    why: str


@dataclass(frozen=True, slots=True)
class Failed:
    connection: int
    kind: Kind
    why: str


@dataclass(frozen=True, slots=True)
class Tick:
    """Time has passed."""


Event = Ready | Arrived | Proved | Had | Lied | Failed | Tick

# Actions


@dataclass(frozen=True, slots=True)
class Start:
    """Fetch units [first, last) of a file; of the first one `have` bytes are here. `skip`: a mirror that cannot begin in the middle may
    read over what lies before; else that is a failure."""

    connection: int
    file: int
    first: int
    last: int
    have: int
    skip: bool = False


@dataclass(frozen=True, slots=True)
class Shorten:
    """Stop before unit `last`: another connection has the rest."""

    connection: int
    last: int


@dataclass(frozen=True, slots=True)
class Cancel:
    """Let go at once, then say Ready. What arrives from now on does not count."""

    connection: int


@dataclass(frozen=True, slots=True)
class Rest:
    """A mirror is left alone until then."""

    mirror: int
    until: float


@dataclass(frozen=True, slots=True)
class Ban:
    """A mirror is not used any more."""

    mirror: int


@dataclass(frozen=True, slots=True)
class GiveUp:
    """No mirror gives this file. `reasons`: why, for each."""

    file: int
    reasons: tuple[str, ...]


Action = Start | Shorten | Cancel | Rest | Ban | GiveUp

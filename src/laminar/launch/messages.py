"""Messages between the chief and its agents (post.py numbers them, parallel/wire/ carries them). Bytes that go with them are named here."""

from __future__ import annotations

from typing import Any

import msgspec


class Message(msgspec.Struct, frozen=True, kw_only=True, tag_field="say", forbid_unknown_fields=True):
    pass


# On a new line, before anything is numbered


class Hello(Message, frozen=True, kw_only=True, tag="hello"):
    """An agent is here, or is here again."""

    slot: int
    life: str  # the same for all lines of one agent, and never again
    seen: int
    address: str  # of its own machine, by which it calls
    facts: dict[str, Any]  # facts.py


class Welcome(Message, frozen=True, kw_only=True, tag="welcome"):
    seen: int
    warm: bool = False  # a process will be asked for soon: one may load what it needs meanwhile


class Refused(Message, frozen=True, kw_only=True, tag="refused"):
    why: str


# To an agent


class Look(Message, frozen=True, kw_only=True, tag="look"):
    """What is in these small files, as seen from there?"""

    question: int
    files: list[str]


class Ship(Message, frozen=True, kw_only=True, tag="ship"):
    """The workspace is to have these files, and no other: (path, sha256, bytes)."""

    question: int
    files: list[tuple[str, str, int]]
    lent: list[tuple[str, str]] = []  # and these, which lie on a disk that both see: (path, where)


class File(Message, frozen=True, kw_only=True, tag="file"):
    """Bytes: of a file that was wanted, from `at` on."""

    path: str
    at: int
    last: bool


class Start(Message, frozen=True, kw_only=True, tag="start"):
    member: int
    module: str
    role: str
    rank: int
    brief: dict[str, Any]
    threads: int
    environment: dict[str, str]  # paths that hold unless the machine has its own
    places: dict[str, str]  # folders of the chief in the brief, and what they are called in the workspace
    follow: str = ""  # the run's folder in the workspace
    nursery: str = ""  # who forks it, on the chief's own machine


class Signal(Message, frozen=True, kw_only=True, tag="signal"):
    member: int
    number: int


class Measure(Message, frozen=True, kw_only=True, tag="measure"):
    """How far is it to another agent? `listen`: wait for its call, and answer where; otherwise call `address`."""

    question: int
    listen: bool
    address: str = ""
    key: str = ""
    bytes: int = 0


class Leave(Message, frozen=True, kw_only=True, tag="leave"):
    """It is over."""


Order = Look | Ship | File | Start | Signal | Measure | Leave

# From an agent


class Answer(Message, frozen=True, kw_only=True, tag="answer"):
    """`wrong`: why there is none."""

    question: int
    answer: Any = None
    wrong: str = ""


class Wanted(Message, frozen=True, kw_only=True, tag="wanted"):
    """Files of a shipment that are not there yet. The answer comes when they are."""

    paths: list[str]


class Started(Message, frozen=True, kw_only=True, tag="started"):
    member: int
    pid: int


class Told(Message, frozen=True, kw_only=True, tag="told"):
    """A line that a member said."""

    member: int
    told: dict[str, Any]


class Ended(Message, frozen=True, kw_only=True, tag="ended"):
    member: int
    code: int | None


class Leaving(Message, frozen=True, kw_only=True, tag="leaving"):
    """Its machine was told to end: it goes when its members have, or soon without them."""


class Changed(Message, frozen=True, kw_only=True, tag="changed"):
    """A file of the run, which the chief keeps. Bytes: from `at` on; then it is `size` long. `whole`: it is seen when all is there."""

    path: str
    at: int
    size: int
    whole: bool


class Removed(Message, frozen=True, kw_only=True, tag="removed"):
    path: str


News = Answer | Wanted | Started | Told | Ended | Leaving | Changed | Removed


def order(header: dict[str, Any]) -> Order:
    found: Order = msgspec.convert(header, Order)
    return found


def news(header: dict[str, Any]) -> News:
    """msgspec.ValidationError if it is none."""
    found: News = msgspec.convert(header, News)
    return found

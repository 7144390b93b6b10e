"""Desktops: a grid, as a machine file or its server describes it: nodes that come and go and reach one server only. No torch here.

How desktops come and go, by name; the population of `laminar grid simulate` draws from the same:

    desktop     on for hours, mostly by day; a tenth are fast; one task in twenty is lost with its machine (BOINC's wiki: about 5 %)
    lab         on all day, alike, reliable
    wild        on for minutes, a hundredfold spread of speeds, a fifth of the tasks is lost
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

from laminar.train.on_grid import Grid

if TYPE_CHECKING:  # a machine may have a grid, and a price is one of a machine
    from laminar.plan.known import Known
    from laminar.plan.machine import Link, Machine, Node
    from laminar.plan.price_apart import Paced


@dataclass(frozen=True)
class Churn:
    on: float  # hours, mean; inf: never off
    off: float
    spread: float  # of log speed
    loses: float  # share of tasks that are never answered
    day: float  # how much longer machines are off at night: 1 not at all


KINDS: Final[dict[str, Churn]] = {
    "desktop": Churn(on=4, off=8, spread=0.8, loses=0.05, day=2.0),
    "lab": Churn(on=12, off=2, spread=0.2, loses=0.01, day=1.0),
    "wild": Churn(on=0.5, off=1.5, spread=1.5, loses=0.2, day=1.5),
}
STEADY: Final = Churn(on=math.inf, off=0.0, spread=0.0, loses=0.0, day=1.0)


@dataclass(frozen=True)
class Desktops:
    nodes: tuple[Node, ...]
    link: Link  # of each node to the server, each way
    server: float  # bytes a second of the server's own line, which all nodes share
    churn: Churn = STEADY
    streaks: Mapping[str, int] | None = None  # by name: answers in a row that were compared and good; None: all are newcomers
    source: str = ""  # for people, where it is not a file that says so
    cores: int | None = None  # of the one machine that all of them and the server run on; None: each is a machine of its own


class GridPrice(Protocol):
    """What a round of strangers takes is played by the grid's own code (grid/pricing), which stands above this package."""

    def __call__(self, known: Known, machine: Machine, how: Grid, batch: int) -> Paced:
        """L014 where no node has room, L008 where nothing would come of it."""

"""A machine: nodes with cores and memory, and the link between them. Of people who have one, or think of buying it. No torch here."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

from laminar.plan.desktops import Desktops
from laminar.plan.facts import MachineFacts


@dataclass(frozen=True)
class Node:
    name: str
    cores: int
    memory: int  # bytes
    speed: float = 1.0  # of a core, relative to the machine that was measured


@dataclass(frozen=True)
class Link:
    """From any node to any other, at the same time each way."""

    bandwidth: float  # bytes a second
    latency: float  # seconds


NOWHERE = Link(math.inf, 0.0)  # of a node that is alone: nothing leaves it


@dataclass(frozen=True)
class Stragglers:
    """How much the times of equal steps differ. A node that is always slow has a speed instead."""

    spread: float = 0.0  # of the logarithm of a step's time
    slow_share: float = 0.0  # of steps that take longer by far …
    slow_factor: float = 1.0  # … so many times as long

    @property
    def mean(self) -> float:
        """Of many steps, where the usual one takes 1."""
        return math.exp(self.spread**2 / 2) * (1.0 + self.slow_share * (self.slow_factor - 1.0))


@dataclass(frozen=True)
class Machine:
    nodes: tuple[Node, ...]
    link: Link = NOWHERE
    stragglers: Stragglers = Stragglers()
    name: str = "this machine"
    grid: Desktops | None = None  # that can be commanded from here; `nodes` are where everything else runs

    @property
    def cores(self) -> int:
        return len(self._slots)

    @property
    def one_node(self) -> bool:
        return len(self.nodes) == 1

    @cached_property
    def _slots(self) -> tuple[int, ...]:
        return tuple(number for number, node in enumerate(self.nodes) for _ in range(node.cores))

    def places(self, workers: int) -> tuple[int, ...]:
        """The node of each worker: as many on a node as it has cores, then the next; beyond the last core from the first node again."""
        return tuple(self._slots[worker % len(self._slots)] for worker in range(workers))


def this_machine(facts: MachineFacts) -> Machine:
    """The one that was measured."""
    return Machine((Node("this machine", facts.cores, facts.memory),), NOWHERE, Stragglers(facts.spread))

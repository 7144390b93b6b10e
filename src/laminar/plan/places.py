"""Places: which worker runs on which core of which node, and what it costs there to compute and to hand something over. No torch here.

Cores and network cards are numbered as resources of tasks. Workers of a node that has fewer cores than workers share them. One with
several threads stands for its first core; where there are not cores enough for the threads of all, workers take turns.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import Final, final

from laminar.plan.facts import Curve, Exchange, MachineFacts
from laminar.plan.machine import Machine

FAR: Final = "gloo"  # how workers of several nodes meet
# Gloo sends when the other side has said that it is ready: a way there and a way back for each turn. Of what is larger than the ten
# segments that TCP sends unasked after a pause (RFC 6928), the rest waits for another. Measured over links of 1 and 5 ms.
READY: Final = 2
WINDOW: Final = 14_600  # bytes
GATHERED: Final = 1.5  # times its bytes that a gathering by gloo takes over a link: 1.5 to 1.9 in five of six, 1.0 in one
# The mean of the largest of n numbers drawn from a normal distribution (n = 1, 2, 4 …): workers that wait for each other wait for that one.
LARGEST: Final = {1: 0.0, 2: 0.564, 4: 1.029, 8: 1.424, 16: 1.766, 32: 2.070, 64: 2.344}


@final
class Places:
    def __init__(self, machine: Machine, facts: MachineFacts, workers: int, threads: int = 1) -> None:
        """`threads`: of each worker."""
        self.machine, self.facts, self.workers, self._threads = machine, facts, workers, threads
        self.node = list(machine.places(workers))
        self._first = [0]
        for node in machine.nodes:
            self._first.append(self._first[-1] + node.cores)
        taken: Counter[int] = Counter()
        self._core: list[int] = []
        for node_ in self.node:
            self._core.append(self._first[node_] + taken[node_] % self._at_once(node_))
            taken[node_] += 1
        self._on = taken

    def _at_once(self, node: int) -> int:
        """Workers that compute on a node without waiting for others."""
        return max(1, self.machine.nodes[node].cores // self._threads)

    def room(self, node: int) -> int:
        """Pieces of work that go on at once there: as many as cores, unless workers with several threads each want more than those."""
        return self.machine.nodes[node].cores if self._on[node] <= self._at_once(node) else self._at_once(node)

    @property
    def one_node(self) -> bool:
        return len(set(self.node)) <= 1

    def core(self, worker: int) -> int:
        return self._core[worker]

    def way_out(self, node: int) -> int:
        """The network card of a node, as a resource."""
        return self._first[-1] + 2 * node

    def way_in(self, node: int) -> int:
        return self._first[-1] + 2 * node + 1

    def names(self) -> dict[int, str]:
        found: dict[int, str] = {}
        for worker in range(self.workers):
            core = self.core(worker)
            found[core] = f"{found[core]}, {worker}" if core in found else f"worker {worker}"
        for node in sorted(set(self.node)):
            name = self.machine.nodes[node].name
            found |= {self.way_out(node): f"{name} sends", self.way_in(node): f"{name} receives"}
        return found

    def slow(self, worker: int) -> float:
        """How much longer a worker computes than one alone on the machine that was measured."""
        node = self.node[worker]
        together = min(self._on[node], self._at_once(node))  # others wait for the core, which tasks do by themselves
        return self.facts.crowded(together) / self.machine.nodes[node].speed

    def last_of(self, members: int) -> float:
        """How much longer than the usual one the last of so many takes."""
        spread = max(self.facts.spread, self.machine.stragglers.spread)
        known = max(count for count in LARGEST if count <= max(1, members))
        slow = self.machine.stragglers
        any_slow = 1.0 - (1.0 - slow.slow_share) ** members
        return math.exp(LARGEST[known] * spread) * (1.0 + any_slow * (slow.slow_factor - 1.0))

    # What is handed over

    def exchange(self, one: Exchange, members: Sequence[int], link: str) -> float:
        """Seconds among workers, which all of them spend."""
        if len(members) < 2:
            return 0.0
        if len({self.node[member] for member in members}) == 1:
            return self._line(link, one.kind, len(members))(one.bytes)
        n, line = len(members), self.machine.link
        inside = self._line(FAR, one.kind, 2)(one.bytes)  # packing, copying and the system's part of it
        # a ring: everybody sends and receives at once
        parts = {"sum": 2 * (n - 1) / n, "gather": GATHERED * (n - 1), "swap": 1.0}[one.kind]
        turns = {"sum": 2 * (n - 1), "gather": n - 1, "swap": 1}[one.kind]
        waits = READY + (one.bytes / (n if one.kind == "sum" else 1) > WINDOW)
        return inside + parts * one.bytes * self._sharers(members) / line.bandwidth + turns * waits * line.latency

    def _sharers(self, members: Sequence[int]) -> int:
        """Workers of one node that use its card at once."""
        return max(Counter(self.node[member] for member in members).values()) if len(members) > 2 else 1

    def resources(self, members: Sequence[int]) -> tuple[int, ...]:
        """All that an exchange holds."""
        found = {self.core(member) for member in members}
        nodes = {self.node[member] for member in members}
        if len(nodes) > 1:
            found |= {way(node) for node in nodes for way in (self.way_out, self.way_in)}
        return tuple(sorted(found))

    def post(self, source: int, taker: int, size: int, link: str) -> float:
        """Seconds until what one worker sends is there."""
        if self.node[source] == self.node[taker]:
            return self.facts.posts[link if self.one_node else FAR](size)
        line = self.machine.link
        return self.facts.posts[FAR](size) + size / line.bandwidth + line.latency

    def _line(self, link: str, kind: str, members: int) -> Curve:
        """As measured; for more members than were, what each hands over more costs in proportion."""
        known = [count for (name, what, count) in self.facts.lines if (name, what) == (link, kind)]
        if members in known:
            return self.facts.lines[link, kind, members]
        nearest = max((count for count in known if count < members), default=min(known))
        times = (members - 1) / (nearest - 1)
        return Curve(tuple((size, seconds * times) for size, seconds in self.facts.lines[link, kind, nearest].points))

    def shared_step(self, size: int) -> float:
        """Of sync in shared memory: what a step takes beside computing and the optimizer."""
        known = self.facts.shared_step
        if self.workers in known:
            return known[self.workers](size)
        nearest = max((count for count in known if count < self.workers), default=min(known))
        return known[nearest](size) * self.workers / nearest

"""What all processes of a training hold on a node: not only workers are there."""

from __future__ import annotations

from typing import Any

import pytest

from laminar.plan.machine import Link, Machine, Node
from laminar.plan.price import Pricer, Refused
from laminar.plan.steps_needed import StepsModel
from laminar.plan.team_memory import WORKING
from laminar.train.splitting import Branches, Mesh, Pipeline
from laminar.train.strategies import AnyStrategy, Averaging, Downpour, Quorum, Solo, Sync
from tests.pure.plan.made_up import MadeUp, facts, machine

STEPS = StepsModel(1000.0, True, "made up")
PROCESS, COMMON = 250_000_000, 80_000_000
KNOWN = MadeUp(width=1024, machine_facts=facts(process_bytes=PROCESS, library_bytes=COMMON))
SIZE = 4 * KNOWN.job().parameters  # 16.8 MB
TEAMS: list[AnyStrategy] = [
    Sync(workers=2),
    Sync(workers=2, link="gloo"),
    Averaging(workers=2),
    Downpour(workers=2),
    Downpour(workers=2, shards=2),
    Quorum(workers=2),
    Mesh(mesh={"cols": 2}, split={"hidden": "cols"}),
    Pipeline(stages=2, microbatches=4),
    Branches(lanes=2),
]


def needed(how: AnyStrategy, on: Machine | None = None, known: MadeUp = KNOWN) -> int:
    found = Pricer(known, on or machine(), STEPS, base_batch=64, threads=1).price(how, 64)
    assert not isinstance(found, Refused), found.why
    return found.node_memory_bytes


@pytest.mark.parametrize("how", TEAMS)
def test_a_node_has_room_for_the_chief_and_servers_as_well_or_the_plan_is_refused(how: AnyStrategy) -> None:
    """Exactly: with a byte less it is refused, and told what is there."""
    size = needed(how)
    processes = 3 + (how.shards if isinstance(how, Downpour) else isinstance(how, Averaging | Quorum))
    assert size > processes * (PROCESS - COMMON) + COMMON
    at = Pricer(KNOWN, machine(memory=size), STEPS, base_batch=64, threads=1)
    assert not isinstance(at.price(how, 64), Refused)
    found = at.on(machine(memory=size - 1)).price(how, 64)
    assert isinstance(found, Refused) and found.memory == size
    assert "2 workers of " in found.why and "1 chief of " in found.why
    assert ("server" in found.why) == isinstance(how, Averaging | Downpour | Quorum)


def test_one_process_needs_most_when_it_keeps_the_layer() -> None:
    size = needed(Solo())
    assert size > PROCESS + (2 + 2) * SIZE, "all that it has while it trains"
    found = Pricer(KNOWN, machine(memory=size - 1), STEPS, base_batch=64, threads=1).price(Solo(), 64)
    assert isinstance(found, Refused) and "one process that keeps the trained layer" in found.why
    assert size < needed(Sync(workers=2)) < needed(Downpour(workers=2)) < needed(Downpour(workers=2, shards=2))


def test_libraries_are_in_memory_once() -> None:
    apart = MadeUp(width=1024, machine_facts=facts(process_bytes=PROCESS, library_bytes=0))
    assert needed(Downpour(workers=2), known=apart) - needed(Downpour(workers=2)) == 3 * COMMON  # of four processes


def test_a_server_has_its_optimizers_numbers_and_copies_of_them_while_it_keeps_them() -> None:
    without = MadeUp(width=1024, machine_facts=KNOWN.machine_facts, job_facts={"slots": 0})
    more = needed(Downpour(workers=2)) - needed(Downpour(workers=2), known=without)
    assert more == 2 * 2 * SIZE + 3 * 2 * SIZE, "two slots: of two workers, and of the server, which copies them twice"


def test_an_evaluator_is_a_process_too() -> None:
    data = KNOWN.job().samples * KNOWN.job().row_bytes
    assert needed(Sync(workers=2, evaluator=True)) - needed(Sync(workers=2)) == PROCESS - COMMON + WORKING + data + 2 * SIZE


def test_other_nodes_have_workers_only() -> None:
    """The node with the chief and the server is the one that decides; nodes of workers may be smaller."""

    def two(first: int, second: int) -> Machine:
        return Machine((Node("a", 1, first), Node("b", 1, second)), Link(1e9, 1e-4))

    size = needed(Downpour(workers=2), two(8 << 30, 8 << 30))
    small = PROCESS + 13 * SIZE
    assert small < size
    assert needed(Downpour(workers=2), two(size, small)) == size
    for nodes in (two(small, size), two(size, PROCESS)):
        found = Pricer(KNOWN, nodes, STEPS, base_batch=64, threads=1).price(Downpour(workers=2), 64)
        assert isinstance(found, Refused)


def test_data_is_in_every_process_that_opens_it_unless_it_is_too_large_for_that() -> None:
    def with_data(row: int) -> int:
        more: dict[str, Any] = {"row_bytes": row, "samples": 6400, "test_samples": 0}
        return needed(Sync(workers=2), known=MadeUp(width=1024, machine_facts=KNOWN.machine_facts, job_facts=more))

    assert with_data(10_000) - with_data(0) == 3 * 64_000_000
    assert with_data(10_000_000) == with_data(0), "a mapped file"

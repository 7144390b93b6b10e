"""Prices over links of any speed: a slower one never makes a plan faster, and over one that is slow enough nothing else counts."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from laminar.plan.machine import Link, Machine, Node
from laminar.plan.plan import Plan
from laminar.plan.price import Pricer
from laminar.plan.steps_needed import StepsModel
from laminar.train.splitting import Branches, Mesh, Pipeline
from laminar.train.strategies import AnyStrategy, Averaging, Downpour, Quorum, Sync
from tests.pure.plan.made_up import MadeUp, facts

STEPS = StepsModel(1000.0, True, "made up")
BIT = 0.125  # bytes a second: the slowest link that a machine file may have
KINDS: list[AnyStrategy] = [
    Sync(workers=2, link="gloo"),
    Sync(workers=2, link="gloo", compress="int8"),
    Averaging(workers=2, every=8),
    Downpour(workers=2),
    Downpour(workers=2, n_push=16, n_fetch=16),
    Downpour(workers=2, shards=2, n_push=1, n_fetch=1),
    Downpour(workers=4, n_push=4, n_fetch=4),
    Mesh(mesh={"cols": 2}, split={"hidden": "cols"}, link="gloo"),
    Pipeline(stages=2, microbatches=4, link="gloo"),
    Branches(lanes=2, link="gloo"),
]
# Seeds give chance numbers to other steps where messages come at another time: as far as prices of equal plans differ by that.
CHANCE = 1.03


def price(how: AnyStrategy, bandwidth: float, latency: float = 1e-4, spread: float = 0.05) -> Plan:
    nodes = tuple(Node(f"n{i}", 1, 8 << 30) for i in range(how.workers))
    found = Pricer(
        MadeUp(machine_facts=facts(spread=spread)), Machine(nodes, Link(bandwidth, latency)), STEPS, base_batch=64, threads=1
    ).price(how, 64)
    assert isinstance(found, Plan), found
    return found


@pytest.mark.parametrize("how", [*KINDS, Quorum(workers=2)], ids=str)
def test_a_slower_link_makes_no_plan_faster(how: AnyStrategy) -> None:
    found = [price(how, BIT * 10.0**power).step_seconds for power in range(12)]
    for slow, fast in itertools.pairwise(found):
        assert fast <= slow * CHANCE
    found = [price(how, 1e8, latency).step_seconds for latency in (0.0, 1e-4, 1e-3, 1e-2, 0.1, 1.0, 10.0)]
    for fast, slow in itertools.pairwise(found):
        assert fast <= slow * CHANCE


@settings(max_examples=40, deadline=None)
@given(st.sampled_from(KINDS), st.floats(3.0, 9.0), st.floats(0.05, 1.0), st.floats(0.0, 0.05))
def test_any_two_links(how: AnyStrategy, power: float, less: float, latency: float) -> None:
    fast, slow = (price(how, 10**power * times, latency).step_seconds for times in (1.0, less))
    assert fast <= slow * CHANCE


@pytest.mark.parametrize("how", [one for one in KINDS if not isinstance(one, Branches)], ids=str)
def test_over_a_link_that_is_slow_enough_only_bytes_count(how: AnyStrategy) -> None:
    """Ten times as slow is ten times as long, and a batch of everybody's takes no less than what must travel for it."""
    slowest, slow = (price(how, BIT * times).step_seconds for times in (1, 10))
    assert slowest == pytest.approx(10 * slow, rel=0.01)
    job = MadeUp().job()
    if isinstance(how, Downpour):  # every far worker has one unit at least, which is waited for
        unit = max(1, job.samples // 64 // (8 * how.workers) // how.n_push) * how.n_push
        pushed = (unit // how.n_push) * 4 * job.parameters * (how.workers - 1)
        assert slowest >= pushed / BIT / (job.epochs * job.samples / 64)
    elif isinstance(how, Sync) and how.compress == "none":
        assert slowest >= 4 * job.parameters / BIT
    elif isinstance(how, Averaging):  # there and back, of every 16 batches
        assert slowest >= 2 * 4 * job.parameters / BIT / 16


def test_downpour_over_one_bit_a_second_is_no_bargain() -> None:
    """The worker beside the server would go on alone, but the training is not over before the other one has handed in its unit."""
    bit, wire = (price(Downpour(workers=2, n_push=16, n_fetch=16), bandwidth) for bandwidth in (BIT, 1e9))
    assert bit.step_seconds > 1e6 * wire.step_seconds

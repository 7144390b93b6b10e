"""Prices of strategies, on numbers that can be followed by hand."""

from __future__ import annotations

import dataclasses
import re
from typing import Any

import pytest

from laminar.core.figures import more_than
from laminar.grid.pricing.price import grid_price
from laminar.parallel.sync.row_facts import RowFacts
from laminar.parallel.sync.sent_bytes import of_rows, of_step
from laminar.plan.correction import Correction
from laminar.plan.explain import conclusion
from laminar.plan.facts import Exchange, StagesCost
from laminar.plan.machine import Link, Machine, Node, Stragglers
from laminar.plan.places import Places
from laminar.plan.plan import Plan, written
from laminar.plan.price import PRICED, Pricer, Refused
from laminar.plan.price_sync import waiting
from laminar.plan.steps_needed import StepsModel
from laminar.train.on_grid import Grid
from laminar.train.splitting import Branches, Mesh, Pipeline
from laminar.train.strategies import BY_NAME, AnyStrategy, Averaging, Downpour, Quorum, Solo, Sync
from tests.pure.plan.made_up import MS, ROW, MadeUp, desktops, facts, machine

STEPS = StepsModel(1000.0, True, "made up")
ALL: list[AnyStrategy] = [
    Solo(),
    Sync(workers=2),
    Averaging(workers=2),
    Downpour(workers=2),
    Quorum(workers=4),
    Mesh(mesh={"cols": 2}, split={"hidden": "cols"}),
    Pipeline(stages=2, microbatches=4),
    Branches(lanes=2),
    Grid(workers=4, local_steps=5),
]


def pricer(known: MadeUp | None = None, on: Machine | None = None) -> Pricer:
    known = known or MadeUp()
    here = on or machine()
    return Pricer(known, dataclasses.replace(here, grid=here.grid or desktops()), STEPS, base_batch=known.batch, threads=1, grid=grid_price)


def priced(how: AnyStrategy, known: MadeUp | None = None, on: Machine | None = None, batch: int = 64) -> Plan:
    found = pricer(known, on).price(how, batch)
    assert isinstance(found, Plan), found
    return found


def far(count: int, latency: float = 0.001) -> Machine:
    return Machine(tuple(Node(f"n{i}", 1, 8 << 30) for i in range(count)), Link(12.5e6, latency))


def test_every_kind_that_can_be_run_has_a_price_and_no_other() -> None:
    assert {how.kind for how in ALL} == set(PRICED)
    assert set(PRICED) == set(BY_NAME)
    for how in ALL:
        found = priced(how)
        assert found.step_seconds > 0 and found.memory_bytes > 100_000_000 and found.kind == how.kind


def test_one_process_takes_what_was_measured() -> None:
    known = MadeUp()
    job = known.job()
    compute = 3 * 64 * ROW * len(known.modules)
    assert priced(Solo()).step_seconds == pytest.approx(compute + job.loop + job.step(4 * job.parameters))


@pytest.mark.parametrize(
    ("threads", "cores", "gather", "expected"), [(1, 2, 6.0, 10.0), (1, 2, 30.0, 20.0), (2, 2, 6.0, 13.0), (1, 1, 6.0, 16.0)]
)
def test_samples_that_take_long_are_waited_for(threads: int, cores: int, gather: float, expected: float) -> None:
    """A thread gathers them beside ten seconds of computing; whoever waits helps it, and cores are shared."""
    assert 10.0 + waiting(10.0, gather, threads, cores) == pytest.approx(expected)


def test_augmentation_that_takes_longer_than_computing_is_shared_by_workers() -> None:
    """One process gathers on one more thread, two workers each their half: no longer is one of them taken to be free of it."""
    plain, dear = MadeUp(machine_facts=facts(spread=0.0)), MadeUp(machine_facts=facts(spread=0.0), job_facts={"gather": 1.0 * MS})
    rest = priced(Solo(), plain).step_seconds
    assert priced(Solo(), dear).step_seconds == pytest.approx((rest + 64 * MS) / 2)
    assert priced(Sync(workers=2), dear).step_seconds == pytest.approx(priced(Sync(workers=2), plain).step_seconds + 32 * MS, rel=0.01)
    assert priced(Sync(workers=4), dear).step_seconds < priced(Solo(), dear).step_seconds


def test_a_node_with_more_cores_than_there_are_here_has_no_more_threads_than_can_be_measured() -> None:
    known = MadeUp(machine_facts=facts(cores=2))
    assert [Pricer(known, machine(cores=cores), STEPS, base_batch=64).threads(1) for cores in (1, 2, 8)] == [1, 2, 2]
    assert Pricer(known, machine(cores=8), STEPS, base_batch=64).threads(4) == 2
    assert Pricer(known, machine(cores=8), STEPS, base_batch=64, threads=4).threads(1) == 4  # the recipe says so


def test_sync_halves_what_can_be_halved() -> None:
    calm = MadeUp(machine_facts=facts(spread=0.0))
    job, size = calm.job(), 4 * calm.job().parameters
    rows = 32
    expected = rows * job.gather + job.loop + 3 * rows * ROW * 4 + facts().shared_step[2](size) + job.step(size / 2)
    assert priced(Sync(workers=2), calm).step_seconds == pytest.approx(expected)


def test_workers_take_their_time_to_begin_which_one_process_does_not() -> None:
    slow = MadeUp(machine_facts=dataclasses.replace(facts(), start=3.0))
    team, alone = priced(Sync(workers=2), slow), priced(Solo(), slow)
    assert team.seconds_to_target == pytest.approx(3.0 + priced(Sync(workers=2)).seconds_to_target)
    assert alone.seconds_to_target == priced(Solo()).seconds_to_target
    assert team.to_json()["start_seconds"] == 3.0 and team.step_seconds == priced(Sync(workers=2)).step_seconds
    assert conclusion([alone, team]).endswith("x as long, 3.00 s of it until they have begun")


def test_tests_are_part_of_the_time_to_the_target_and_of_no_step() -> None:
    """One process tests alone, a team shares the samples out, the chief of rounds tests while all wait; downpour's only once at the end."""
    tests = {"test": 0.1 * MS, "test_samples": 1000}
    known, quick = MadeUp(job_facts=tests), MadeUp()
    for how, epochs in ((Solo(), 2.0), (Sync(workers=2), 1.0), (Averaging(workers=2), 2.0), (Quorum(workers=4), 2.0)):
        plan, before = priced(how, known), priced(how, quick)
        assert plan.step_seconds == before.step_seconds
        each = plan.steps * 64 / 6400 / 2  # epochs that it takes, of the recipe's two
        assert plan.seconds_to_target == pytest.approx(before.seconds_to_target + 0.1 * epochs * each)
    plan, before = priced(Downpour(workers=2), known, machine(cores=2)), priced(Downpour(workers=2), quick, machine(cores=2))
    assert plan.testing == pytest.approx(0.1) and plan.step_seconds > 1.01 * before.step_seconds


def test_workers_that_share_a_core_take_turns() -> None:
    alone, crowded = (priced(Sync(workers=4), on=machine(cores=cores)).step_seconds for cores in (4, 1))
    assert crowded > 3 * alone


def test_a_stage_may_take_several_values_of_another_one() -> None:
    """As a cut through two branches leaves them: each value is a message of its own, there and back, as the executor posts them."""

    class Branched(MadeUp):
        def stages(self, how: Pipeline | Branches, batch: int, threads: int = 1) -> StagesCost:
            found = super().stages(how, batch, threads)
            first, second = found.stages
            return dataclasses.replace(found, stages=(first, dataclasses.replace(second, takes=second.takes * 2)))

    how = Pipeline(stages=2, microbatches=4, link="gloo")
    one, two = priced(how, on=far(2)), priced(how, Branched(), on=far(2))
    sent = [sum(ran.task.kind == "transfer" for ran in plan.ran) for plan in (one, two)]
    assert sent == [8, 16] and two.bytes_per_step == 2 * one.bytes_per_step and two.step_seconds > one.step_seconds


def test_a_slow_link_makes_small_gradients_and_rare_averages_better() -> None:
    far = Machine((Node("a", 1, 8 << 30), Node("b", 1, 8 << 30)), Link(12.5e6, 0.001))
    dense, small, rare = (
        priced(how, on=far).step_seconds
        for how in (Sync(workers=2, link="gloo"), Sync(workers=2, link="gloo", compress="int8"), Averaging(workers=2, every=128))
    )
    near = priced(Sync(workers=2, link="gloo"), on=machine()).step_seconds
    assert dense > 10 * near and small < dense / 2 and rare < small / 2


def test_between_nodes_gradients_travel_as_the_executor_deals_them() -> None:
    """A model below a bucket is sent when all of it is there; of a larger one the rest is computed meanwhile. Packets come after their
    sizes."""
    far = Machine((Node("a", 1, 8 << 30), Node("b", 1, 8 << 30)), Link(12.5e6, 0.001))
    one, several = MadeUp(job_facts={"tensors": (5 << 18,)}), MadeUp(job_facts={"tensors": (1 << 19, 1 << 18, 1 << 19)})

    def exchanges(how: Sync, known: MadeUp) -> list[float]:
        return [ran.end - ran.begin for ran in priced(how, known, far).ran if ran.task.kind == "exchange"]

    dense = Sync(workers=2, link="gloo")
    assert len(exchanges(dense, one)) == 1 and len(exchanges(dense, several)) == 2
    assert priced(dense, several, far).step_seconds < priced(dense, one, far).step_seconds
    packed = Sync(workers=2, link="gloo", compress="int8")
    (sent,) = exchanges(packed, several)
    assert sent > 0.26 * (1 << 20) / 12.5e6 + 0.002 + 0.001  # two turns of the sum of sizes, and one of the packets


def test_everybody_unpacks_the_packets_of_all() -> None:
    """Packing is done once, unpacking once for each member."""
    calm = MadeUp(machine_facts=facts(spread=0.0))
    two, four = (
        sum(
            ran.end - ran.begin for ran in priced(how, calm, far(how.workers)).ran if ran.task.kind == "pack" and ran.task.resources == (0,)
        )
        for how in (Sync(workers=count, link="gloo", compress="int8") for count in (2, 4))
    )
    packing = calm.packing(Sync(compress="int8").compression)
    assert two == pytest.approx(packing.encode + 2 * packing.decode) and four == pytest.approx(packing.encode + 4 * packing.decode)
    plain, packed = (priced(Sync(workers=2, link="gloo", compress=small), calm, far(2)) for small in ("none", "int8"))
    assert packed.memory_bytes > plain.memory_bytes


def test_bytes_of_sync_are_those_that_a_build_counts() -> None:
    """Over the network all that goes over it, by all workers, for N - 1 others: so small gradients gain less, the more workers there are.
    In shared memory packets, once each."""
    known = MadeUp(job_facts={"tensors": (1 << 19, 1 << 18, 1 << 19)})
    buckets, packing = [3 << 18, 1 << 19], known.packing(Sync(compress="int8").compression)
    for workers in (2, 4):
        dense, packed = (
            priced(Sync(workers=workers, link="gloo", compress=small), known, far(workers)).bytes_per_step for small in ("none", "int8")
        )
        told = 2 + workers + 3
        assert dense == of_step(workers, told=told, sums=buckets) == pytest.approx(2 * (workers - 1) * sum(buckets), rel=0.01)
        assert packed == of_step(workers, told=told, packet=packing.bytes)
        assert packed == pytest.approx(workers * (workers - 1) * packing.bytes, rel=0.05)
    low_rank = known.packing(Sync(compress="powersgd").compression)
    sent = priced(Sync(workers=2, link="gloo", compress="powersgd"), known, far(2)).bytes_per_step
    assert sent == of_step(2, told=7, sums=low_rank.sums)
    near = [priced(Sync(workers=2, compress=small), known).bytes_per_step for small in ("none", "int8")]
    assert near == [0, 2 * packing.bytes]


def test_low_rank_waits_for_one_sum_after_the_other() -> None:
    """Of the left factors and what is not split, of the right ones, and of what is told: twelve ways over the link, by itself."""
    calm = MadeUp(width=16, machine_facts=facts(spread=0.0))
    (sent,) = (
        ran.end - ran.begin
        for ran in priced(Sync(workers=2, link="gloo", compress="powersgd"), calm, far(2, latency=0.1)).ran
        if ran.task.kind == "exchange"
    )
    assert sent == pytest.approx(3 * 4 * 0.1, rel=0.01)


def test_a_split_model_takes_less_memory_and_sends_activations() -> None:
    wide = MadeUp(width=4096)
    whole, half = priced(Solo(), wide), priced(ALL[5], wide)
    size = 4 * wide.job().parameters  # every worker opens the whole model, too, before it takes its parts
    assert half.memory_bytes - size < 0.6 * whole.memory_bytes and half.memory_bytes < whole.memory_bytes
    assert half.bytes_per_step == 2 * 2 * 4 * 64 * 4096 * 4  # there and back, of two workers, four modules


def test_more_micro_batches_leave_less_idle_time() -> None:
    few, many = (priced(Pipeline(stages=4, microbatches=m), MadeUp(row=0.1 * MS)) for m in (4, 16))
    assert many.idle < few.idle and many.step_seconds < few.step_seconds


def test_a_straggler_slows_sync_down_and_a_quorum_hardly() -> None:
    known = MadeUp(row=0.1 * MS)
    late = machine(stragglers=Stragglers(0.0, 0.2, 8.0))
    slowed = [
        priced(how, known, late).step_seconds / priced(how, known).step_seconds for how in (Sync(workers=4), Quorum(workers=4, quorum=0.5))
    ]
    assert slowed[0] > 2 and slowed[1] < 0.8 * slowed[0]


def test_what_does_not_fit_is_refused_with_the_sum() -> None:
    found = pricer(on=machine(memory=150_000_000)).price(Sync(workers=4), 64)
    assert isinstance(found, Refused) and "GB of memory on desk, which has 0.15 GB" in found.why


def test_what_hardly_does_not_fit_shows_by_how_much() -> None:
    needed = priced(Sync(workers=1)).node_memory_bytes
    found = pricer(on=machine(memory=needed - 2)).price(Sync(workers=1), 64)
    assert isinstance(found, Refused)
    more, room, *_ = map(float, re.findall(r"([\d.]+) GB", found.why))
    assert more > room, found.why


@pytest.mark.parametrize(
    ("size", "room", "count", "said"),
    [
        (300_000_000, 150_000_000, 1, ("0.30 GB", "0.15 GB")),
        (241_000_000, 239_500_000, 1, ("0.241 GB", "0.240 GB")),
        (121_000_000, 241_000_000, 2, ("0.121 GB", "0.241 GB")),
        (1_000_000_001, 1_000_000_000, 1, ("1.000000001 GB", "1.000000000 GB")),
    ],
)
def test_as_many_digits_as_show_what_is_more(size: int, room: int, count: int, said: tuple[str, str]) -> None:
    assert more_than(size, room, count) == said


def test_what_the_model_does_not_allow_is_refused() -> None:
    found = pricer().price(Pipeline(stages=8, microbatches=8), 64)
    assert isinstance(found, Refused) and "8 stages" in found.why


def test_a_grid_is_priced_only_where_there_is_one() -> None:
    found = Pricer(MadeUp(), machine(), STEPS, base_batch=64).price(Grid(workers=4), 64)
    assert isinstance(found, Refused) and "no grid of desktops" in found.why


def test_staleness_and_larger_batches_need_more_samples() -> None:
    assert priced(Sync(workers=2)).factor == 1.0
    assert priced(Sync(workers=2), batch=128).factor == pytest.approx(1128 / 1064)
    assert priced(Downpour(workers=4, n_push=1, n_fetch=1)).factor > 1.3
    assert priced(Averaging(workers=4)).factor > priced(Averaging(workers=2)).factor > 1.0


def test_corrections_are_applied_and_the_raw_figure_is_kept() -> None:
    known = MadeUp()
    found = Pricer(known, machine(), STEPS, base_batch=64, threads=1, corrections={("sync", 2): Correction(1.5, 0.001)}).price(
        Sync(workers=2), 64
    )
    assert isinstance(found, Plan) and found.step_seconds == pytest.approx(1.5 * found.raw_seconds + 0.001)


def test_a_faster_node_is_faster() -> None:
    quick = dataclasses.replace(machine(), nodes=(Node("desk", 4, 8 << 30, speed=2.0),))
    assert priced(Solo(), on=quick).step_seconds == pytest.approx(priced(Solo()).step_seconds / 2)


@pytest.mark.parametrize("how", ALL, ids=lambda how: how.kind)
def test_a_strategy_can_be_written_into_a_stack_and_on_the_command_line(how: AnyStrategy) -> None:
    import msgspec

    from laminar.stack.choose_strategy import split_words

    assert msgspec.convert(written(how), AnyStrategy) == how
    name, settings = split_words("--strategy", priced(how).name, list(BY_NAME))
    assert msgspec.convert({"kind": name, **settings}, AnyStrategy) == how


@pytest.mark.parametrize(
    ("kind", "size", "ways"),
    [("gather", 2_000, 2), ("gather", 100_000, 3), ("swap", 2_000, 2), ("sum", 20_000, 2 * 2), ("sum", 100_000, 2 * 3)],
)
def test_between_machines_every_turn_waits_until_the_other_side_is_ready(kind: Any, size: int, ways: int) -> None:
    """As measured over links of 1 and 5 ms: 11 and 15 ms for a gather of 2 and 100 kB at 5 ms, 22 and 30 for a sum."""
    apart = [Machine((Node("a", 1, 8 << 30), Node("b", 1, 8 << 30)), link=Link(1e9, latency)) for latency in (0.0, 1.0)]
    near, far = (Places(one, facts(), 2).exchange(Exchange(kind, "rows", size), (0, 1), "gloo") for one in apart)
    assert far - near == pytest.approx(ways)


def test_batch_norms_are_waited_for_and_paid_for_unless_each_worker_has_its_own() -> None:
    known = MadeUp(job_facts={"rows": RowFacts(channels=[16, 32], learned=[False, True])})
    for on, link in ((machine(), "memory"), (far(2), "gloo")):
        exact, own = (priced(Sync(workers=2, link=link, batch_norm=norm), known, on) for norm in ("exact", "worker"))  # type: ignore[arg-type]
        plain = priced(Sync(workers=2, link=link), MadeUp(), on)  # type: ignore[arg-type]
        assert exact.step_seconds > own.step_seconds == plain.step_seconds
        assert exact.same_result and not own.same_result
        rows = sum(of_rows(numbers, 2) for numbers in (33, 65, 64, 0)) if link == "gloo" else 0
        assert exact.bytes_per_step - plain.bytes_per_step == rows and own.bytes_per_step == plain.bytes_per_step


def test_sync_is_not_offered_for_a_model_whose_rows_depend_on_each_other() -> None:
    known = MadeUp(job_facts={"rows": RowFacts(mixes="'head' (Contrast) changes its outputs for other rows when one row changes")})
    refused = pricer(known).price(Sync(workers=2), 64)
    assert isinstance(refused, Refused) and "the rows of a batch depend on each other: 'head' (Contrast)" in refused.why
    assert not priced(Sync(workers=2, mixed_rows="worker"), known).same_result

"""The search: what is tried, in which order it comes out, and what it says when there is nothing."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

import pytest

from laminar.core.errors import LaminarError
from laminar.plan.anneal import anneal, try_all
from laminar.plan.budget import Budget, OutOfTime
from laminar.plan.candidates import Space, allowed, batches_per_epoch, by_data, candidates
from laminar.plan.cuts import cut_by_speed, module_costs
from laminar.plan.explain import CORRECTED, conclusion, differences, path, seconds, turning_points, with_timeline
from laminar.plan.facts import ModelCost, Pass
from laminar.plan.known import How
from laminar.plan.machine import Machine, Node, Stragglers
from laminar.plan.places import Places
from laminar.plan.plan import Plan
from laminar.plan.price import Pricer, Refused
from laminar.plan.search import DRAWN, Found, Inside, Search, cheapest_same
from laminar.plan.search_modules import MANY, MeshWalk, choices_for, groups_of
from laminar.plan.steps_needed import StepsModel
from laminar.train.recipe import Recipe
from laminar.train.splitting import Mesh
from laminar.train.strategies import Averaging, Downpour, Quorum, Sync
from tests.pure.plan.made_up import MS, MadeUp, machine

STEPS = StepsModel(1000.0, True, "made up")
RECIPE = Recipe(epochs=2, batch=64, threads=1)


class Clock:
    """Each look takes a while."""

    def __init__(self, each: float = 0.0) -> None:
        self.time, self.each = 0.0, each

    def monotonic(self) -> float:
        self.time += self.each
        return self.time

    def now(self) -> float:
        return self.time


def searched(
    known: MadeUp,
    on: Machine | None = None,
    *,
    clock: Clock | None = None,
    budget: float = 60.0,
    dimensions: Sequence[str] = ("batch", "hidden"),
    hear: Callable[[Plan], None] = lambda _: None,
    **more: Any,
) -> Found:
    on = on or machine()
    pricer = Pricer(known, on, STEPS, base_batch=64, threads=1)
    given: dict[str, Any] = {"workers": 4, "recipe": RECIPE, "samples": 6400} | more
    inside = Inside(dimensions, 1, dict.fromkeys(known.modules, dimensions), {name: name.rstrip("0123456789") for name in known.modules})
    search = Search(pricer, Space(**given), look=lambda: inside, batches=[128], budget=Budget(budget, clock or Clock()), hear=hear)
    return search.run()


def test_a_small_job_is_fastest_in_one_process_and_that_is_an_answer() -> None:
    found = searched(MadeUp(row=0.00001 * MS), only_same=True)
    assert found.best.kind == "solo"
    assert conclusion(found.plans).startswith("one process is fastest: ")


def test_a_large_one_is_faster_with_workers() -> None:
    found = searched(MadeUp(row=0.1 * MS, width=64), only_same=True)
    assert found.best.kind == "sync" and found.best.workers == 4
    assert "sync with 4 workers is fastest: 3." in conclusion(found.plans)
    times = [plan.seconds_to_target for plan in found.plans]
    assert times == sorted(times)


def test_only_what_one_process_learns() -> None:
    found = searched(MadeUp(), only_same=True)
    assert {plan.kind for plan in found.plans} == {"solo", "sync", "mesh", "pipeline"}
    assert all(plan.strategy.key_fields() is None for plan in found.plans)


def test_every_candidate_is_one_that_the_recipe_takes() -> None:
    space = Space(workers=4, recipe=RECIPE, samples=6400, dimensions=("batch", "hidden"), several=True, branches=4, stragglers=True)
    found = list(candidates(space))
    assert {how.kind for how in found} == {"solo", "sync", "averaging", "downpour", "quorum", "mesh", "pipeline", "branches"}
    assert not any(getattr(how, "compress", "none") == "dgc" for how in found)  # the recipe has adam
    sgd = Recipe(epochs=2, batch=64, optimizer="sgd", threads=1)
    assert any(getattr(how, "compress", "none") == "dgc" for how in candidates(dataclasses.replace(space, recipe=sgd)))
    assert len({repr(how) for how in found}) == len(found)


@pytest.mark.parametrize(("samples", "batches"), [(768, 12), (769, 12), (770, 13), (1, 1), (2, 1)])
def test_a_last_batch_of_one_sample_is_none(samples: int, batches: int) -> None:
    assert batches_per_epoch(samples, 64) == batches


def test_workers_that_take_whole_batches_are_no_more_than_an_epoch_has() -> None:
    space = Space(workers=16, recipe=RECIPE, samples=12 * 64, stragglers=True)
    most = {kind: max(how.workers for how in by_data(space) if how.kind == kind) for kind in ("sync", "averaging", "downpour", "quorum")}
    assert most == {"sync": 16, "averaging": 8, "downpour": 8, "quorum": 16}
    few = Space(workers=16, recipe=RECIPE, samples=10, stragglers=True)
    assert {(how.kind, how.workers) for how in by_data(few) if how.kind != "sync"} == {
        ("solo", 1),
        *(("quorum", workers) for workers in (4, 8)),
    }


def test_another_batch_leaves_as_many_batches_as_there_are_workers() -> None:
    found = searched(MadeUp(row=0.1 * MS, job_facts={"samples": 512}), machine(cores=8), workers=8, samples=512)  # 8 batches of 64
    whole = [(plan.batch, plan.workers) for plan in found.plans if plan.kind in ("averaging", "downpour")]
    assert (64, 8) in whole and all(workers * batch <= 512 for batch, workers in whole)
    space = Space(workers=8, recipe=RECIPE, samples=512)
    assert allowed(space, Averaging(workers=8, every=8)) and not allowed(space, Averaging(workers=8, every=8), 128)
    assert allowed(space, Sync(workers=8), 128) and allowed(space, Quorum(workers=8, quorum=0.8), 128)
    assert not allowed(space, Quorum(workers=8, quorum=0.8), 4)


def test_shards_are_no_more_than_tensors_that_are_trained() -> None:
    space = Space(workers=4, recipe=RECIPE, samples=6400)
    for tensors, shards in ((None, {1, 2}), (2, {1, 2}), (1, {1})):
        found = by_data(dataclasses.replace(space, tensors=tensors))
        assert {how.shards for how in found if isinstance(how, Downpour)} == shards


def test_a_model_that_cannot_be_traced_is_split_by_data_only() -> None:
    found = searched(MadeUp(), dimensions=())
    assert {plan.kind for plan in found.plans} <= {"solo", "sync", "averaging", "downpour", "quorum"}


def test_too_little_memory_names_the_largest_tensors() -> None:
    with pytest.raises(LaminarError) as caught:
        searched(MadeUp(width=2048), machine(memory=120_000_000))
    assert caught.value.code == "L014" and "a.weight 16.8 MB" in caught.value.message
    assert "needs least would take 0.67 GB of memory on desk, which has 0.12 GB, for " in caught.value.message


def test_small_tensors_are_not_called_nothing() -> None:
    with pytest.raises(LaminarError, match=r"the largest tensors: a\.weight 4\.1 kB, b\.weight 4\.1 kB"):
        searched(MadeUp(width=32), machine(memory=1_000_000))


def test_a_model_that_fits_only_when_split_is_split() -> None:
    """The chief is on the first node, and has opened the whole model."""
    found = searched(MadeUp(width=8192), Machine(tuple(Node(f"n{i}", 1, 4_200_000_000) for i in range(4))), several=True)
    assert {plan.kind for plan in found.plans} <= {"mesh", "pipeline"}
    assert conclusion(found.plans, found.left_out, found.refused).endswith("one process has no room for the model")
    assert conclusion(found.plans, 3, found.refused).endswith("has no room for the model"), "also where others were left out"


def test_a_budget_that_ends_leaves_plans_out_and_says_so() -> None:
    found = searched(MadeUp(), clock=Clock(1.0), budget=10.0)
    assert found.left_out > 0 and found.plans


def test_one_process_is_not_called_all_there_is_where_there_was_no_time_for_more() -> None:
    found = searched(MadeUp(), clock=Clock(20.0), budget=10.0)
    assert [plan.kind for plan in found.plans] == ["solo"]
    assert conclusion(found.plans, found.left_out) == "one process is all there was time to look at"
    assert conclusion(searched(MadeUp(), workers=1).plans) == "one process is all there is"


class NoTimeForOne(MadeUp):
    """Passes of whole batches were not measured before, and there is no time for it now."""

    def whole(self, rows: int, how: How = "module", threads: int = 1) -> Pass:
        if how == "module" and threads == 4:
            raise OutOfTime
        return super().whole(rows, how, threads)


def test_one_process_that_there_was_no_time_for_is_not_said_to_have_no_room() -> None:
    pricer = Pricer(NoTimeForOne(), machine(), STEPS, base_batch=64)
    found = Search(pricer, Space(workers=4, recipe=RECIPE, samples=6400), look=Inside).run()
    assert found.left_out and not any(plan.kind == "solo" for plan in found.plans)
    said = conclusion(found.plans, found.left_out, found.refused)
    assert said.endswith("; one process was not priced in the time that there was") and "no room" not in said


class Slow(MadeUp):
    """A model that takes long to be measured wherever it is split: so many seconds on the clock."""

    def __init__(self, clock: Clock, seconds: float, budget: Budget, **more: Any) -> None:
        super().__init__(**more)
        self.clock, self.seconds, self.budget = clock, seconds, budget

    def cost(
        self, mesh: Mapping[str, int], split: Mapping[str, str], module: Mapping[str, Mapping[str, str]], rows: int, threads: int = 1
    ) -> ModelCost:
        if self.budget.over:
            raise OutOfTime
        self.clock.time += self.seconds
        return super().cost(mesh, split, module, rows, threads)


@pytest.mark.parametrize("seconds", [0.5, 3.0, 40.0])
def test_a_deep_model_has_an_answer_in_its_time_and_an_early_one(seconds: float) -> None:
    clock = Clock()
    budget = Budget(60.0, clock)
    known = Slow(clock, seconds, budget, modules=tuple("abcdefghijkl"), row=0.05 * MS, width=64)
    heard: list[tuple[float, Plan]] = []
    space = Space(workers=4, recipe=RECIPE, samples=6400)
    search = Search(
        Pricer(known, machine(), STEPS, base_batch=64, threads=1),
        space,
        look=lambda: Inside(("batch", "hidden"), 1, dict.fromkeys(known.modules, ("batch", "hidden"))),
        batches=[128],
        budget=budget,
        hear=lambda plan: heard.append((clock.time, plan)),
    )
    found = search.run()
    assert clock.time <= 60.0 + seconds, "what was begun is ended, and nothing else"
    assert heard[0][0] == 0.0 and heard[0][1].kind == "solo", "nothing has to be split for the first answer"
    assert {plan.kind for plan in found.plans} >= {"solo", "sync", "averaging"}
    assert found.left_out > 0 if seconds > 30 else not found.left_out
    if found.walked:
        assert 0 < found.walked[0].evaluated < found.walked[0].space and not found.walked[0].whole


def test_a_model_that_there_is_no_time_to_look_into_is_split_by_data() -> None:
    def look() -> Inside:
        raise OutOfTime

    pricer = Pricer(MadeUp(), machine(), STEPS, base_batch=64, threads=1)
    found = Search(pricer, Space(workers=4, recipe=RECIPE, samples=6400), look=look).run()
    assert {plan.kind for plan in found.plans} == {"solo", "sync", "averaging", "downpour"}


def test_what_need_not_look_into_the_model_comes_first() -> None:
    space = Space(workers=16, recipe=RECIPE, samples=6400, dimensions=("batch", "hidden"), branches=4)
    found, data = list(candidates(space)), list(by_data(space))
    assert found[: len(data)] == data and {how.kind for how in data} == {"solo", "sync", "averaging", "downpour"}
    assert {how.workers for how in data} == {1, 2, 4, 8, 16}
    assert {how.kind for how in found[len(data) : len(data) + 3]} == {"branches", "pipeline", "mesh"}, "one of each kind before the rest"


def test_timelines_are_kept_of_the_best_and_made_again_of_others() -> None:
    known = MadeUp(row=0.1 * MS)
    plans = searched(known).plans
    other = next(number for number, plan in enumerate(plans, 1) if plan.drawn)
    assert other > DRAWN and not plans[other - 1].ran and any(plan.ran for plan in plans[:DRAWN])
    again = with_timeline(plans, other, Pricer(known, machine(), STEPS, base_batch=64, threads=1))
    assert again.ran and again.step_seconds == plans[other - 1].step_seconds


def test_one_process_with_another_batch_is_compared_with_what_there_is() -> None:
    plans = searched(MadeUp(row=0.00001 * MS), only_same=True).plans
    solo, others = next(plan for plan in plans if plan.kind == "solo"), [plan for plan in plans if plan.kind != "solo"]
    assert conclusion([dataclasses.replace(solo, batch=7), *others]).startswith("one process is fastest: ")


def test_other_batches_are_tried_and_need_other_numbers_of_steps() -> None:
    found = searched(MadeUp())
    other = [plan for plan in found.plans if plan.batch == 128]
    assert other and all(not plan.same_result and plan.factor > 1 for plan in other)


def test_stages_follow_the_speed_of_their_nodes() -> None:
    known = MadeUp(row=0.1 * MS)
    assert cut_by_speed([("a", 1.0), ("b", 1.0), ("c", 1.0), ("d", 1.0)], [3.0, 1.0]) == ["d"]
    assert cut_by_speed([("a", 1.0)], [1.0, 1.0]) is None
    assert [name for name, _ in module_costs(known.cost({}, {}, {}, 64))] == ["a", "b", "c", "d"]
    unlike = Machine((Node("fast", 1, 8 << 30, 3.0), Node("slow", 1, 8 << 30, 1.0)))
    found = searched(known, unlike, workers=2, several=True)
    assert any(getattr(plan.strategy, "cut", None) == ["d"] for plan in found.plans)


def mesh_walk(known: MadeUp) -> tuple[MeshWalk, Any, Mesh]:
    how = Mesh(mesh={"cols": 2}, split={"hidden": "cols"})
    choices = choices_for(how, groups_of(dict.fromkeys(known.modules, ("batch", "hidden")), {}), ["hidden"])
    return MeshWalk(known, Places(machine(), known.machine_facts, 2), how, choices, 64), choices, how


def test_tables_of_modules_by_a_walk_as_good_as_all_of_them_and_priced_by_edits() -> None:
    known = MadeUp(modules=tuple("abcdefgh"), row=0.02 * MS, width=64)
    walk, choices, _ = mesh_walk(known)
    best = try_all(walk, choices.options)
    other, _, _ = mesh_walk(known)
    found = anneal(other, choices.options, choices.starts(), evaluations=best.space // 20, seed=0)
    assert best.space == 3**8 and found.cost <= 1.02 * best.cost
    assert other.full == 1 and other.delta >= found.evaluated - 1
    again, _, _ = mesh_walk(known)
    assert again.go(found.state) == found.cost  # an edited simulation is the one that is built anew


def test_tables_name_only_dimensions_that_the_module_has() -> None:
    how = Mesh(mesh={"rows": 2, "cols": 2}, split={"batch": "rows", "hidden": "cols"})
    has = {"conv": ("batch", "channels", "height"), "head": ("batch", "hidden", "classes")}
    choices = choices_for(how, groups_of(has, {}), ["channels", "height", "hidden"])
    for (module,), tables in choices.tables.items():
        assert all(name in has[module] for table in tables if table is not None for name in table)
    assert {"batch": "rows", "height": "cols"} in choices.tables[("conv",)]
    whole = {"batch": "rows"}
    assert choices.starts() and all(len(state) == 2 for state in choices.starts())
    found = [[table for _, table in choices.chosen(state)] for state in choices.starts()]
    assert [{"batch": "rows", "height": "cols"}, whole] in found and [None, None] in found


def test_a_mesh_that_splits_nothing_is_none() -> None:
    walk, choices, _ = mesh_walk(MadeUp())
    nothing = choices.tables[("a",)].index({})
    assert walk.go((nothing,) * 4) is None and walk.go((0, *(nothing,) * 3)) is not None


def test_the_search_finds_tables_for_single_modules() -> None:
    found = searched(MadeUp(row=0.05 * MS, width=64), only_same=True)
    assert found.walked and found.walked[0].whole and found.walked[0].gain >= 1.0
    assert found.walked[0].mesh and found.walked[0].split  # two meshes of one shape can be told apart


def test_alike_blocks_of_a_deep_model_have_one_table() -> None:
    blocks = [f"{name}{i}" for i in range(100) for name in ("in", "out")]
    found = searched(MadeUp(modules=tuple(blocks), row=0.05 * MS, width=64), only_same=True)
    assert found.walked[0].whole and found.walked[0].space == 3**2, "200 modules of two kinds"
    tables = next(plan for plan in found.plans if isinstance(plan.strategy, Mesh) and plan.strategy.module)
    said = cast(Mesh, tables.strategy).module
    for kind in ("in", "out"):
        assert len({repr(said.get(f"{kind}{i}")) for i in range(100)}) == 1
    assert len(tables.name) < 200 and " more}" in tables.name
    few = {f"m{i}": ("batch",) for i in range(MANY)}
    assert groups_of(few, dict.fromkeys(few, "m")) == {(name,): ("batch",) for name in few}, "each by itself where they are few"
    many = {f"m{i}": ("batch", "hidden") if i else ("batch", "length") for i in range(MANY + 1)}
    assert groups_of(many, dict.fromkeys(many, "m")) == {tuple(many): ["batch"]}, "what all of them have"


class LastIsWhole(MadeUp):
    """A head, which has nothing that the mesh's own table splits."""

    def cost(self, mesh: Any, split: Any, module: Any, rows: int, threads: int = 1) -> ModelCost:
        return super().cost(mesh, split, {**module, self.modules[-1]: {}}, rows, threads)


def test_a_mesh_whose_workers_all_do_the_same_is_no_plan() -> None:
    """A module that keeps the mesh's table is not split by it where it has no such dimension."""
    walk, choices, how = mesh_walk(LastIsWhole())
    whole, own = len(choices.options) * (1,), (*(len(choices.options) - 1) * (1,), 0)
    assert choices.splits(own) and not choices.splits(whole)
    assert walk.cost(whole) is None and walk.cost(own) is None and walk.cost((0,) * len(own)) is not None
    pricer = Pricer(LastIsWhole(), machine(), STEPS, base_batch=64, threads=1)
    found = pricer.price(choices.strategy(how, own), 64)
    assert isinstance(found, Refused) and "nothing of the model is split along 'cols': all 2 workers there would do the same" in found.why
    rows = Mesh(mesh={"rows": 2, "cols": 2}, split={"batch": "rows"})
    assert isinstance(pricer.price(rows, 64), Refused)


def test_one_of_each_kind_is_tried_for_real() -> None:
    found = cheapest_same(searched(MadeUp(row=0.1 * MS)).plans)
    assert len({(plan.kind, plan.workers) for plan in found}) == len(found) and all(plan.same_result for plan in found)


def test_an_explanation_has_the_critical_path_and_what_differs() -> None:
    plans = searched(MadeUp(row=0.1 * MS, width=64), only_same=True).plans
    first, second = plans[0], next(plan for plan in plans if plan.kind == "solo")
    named = dict(path(first))
    assert {"forward", "the optimizer and the loop"} <= set(named) and sum(named.values()) == pytest.approx(first.raw_seconds, rel=0.05)
    found = differences(first, second)
    assert found[0].what == "backward" and found[0].more > 0
    assert sum(one.second for one in found) == pytest.approx(second.raw_seconds)


def test_an_explanation_adds_up_to_the_step_that_is_told_where_the_ledger_corrects_it() -> None:
    plans = searched(MadeUp(row=0.1 * MS, width=64)).plans
    solo, apart = (next(plan for plan in plans if plan.kind == kind) for kind in ("solo", "averaging"))
    slower = dataclasses.replace(solo, step_seconds=3 * solo.raw_seconds)
    faster = dataclasses.replace(apart, step_seconds=0.5 * apart.raw_seconds)
    for plan in (slower, faster):
        assert sum(spent for _, spent in path(plan)) == pytest.approx(plan.step_seconds, rel=0.05)
    found = differences(slower, faster)
    assert sum(one.first for one in found) == pytest.approx(slower.step_seconds)
    assert sum(one.second for one in found) == pytest.approx(faster.step_seconds)
    assert {one.what: seconds(one.second)[0] for one in found}[CORRECTED] == "-"


def test_what_workers_compute_apart_is_held_against_all_that_one_process_computes() -> None:
    """Not against its forward pass, which averaging has as well and does not tell apart."""
    plans = searched(MadeUp(row=0.1 * MS)).plans
    solo, apart = (next(plan for plan in plans if plan.kind == kind) for kind in ("solo", "averaging"))
    for first, second in ((solo, apart), (apart, solo)):
        found = {one.what: one for one in differences(first, second)}
        assert set(found) == {"computing", "waiting for servers and others"}
    assert found["computing"].second == pytest.approx(solo.raw_seconds)


def test_a_plan_without_a_timeline_names_the_fastest_that_has_one() -> None:
    plans = searched(MadeUp(row=0.1 * MS)).plans
    apart = next(i for i, plan in enumerate(plans, 1) if plan.kind == "averaging")
    with pytest.raises(LaminarError, match=f"plan {apart} is averaging") as caught:
        with_timeline(plans, apart)
    other = int(caught.value.hint.split()[1])
    assert with_timeline(plans, other) is plans[other - 1] and not any(plan.ran for plan in plans[: other - 1])


def test_what_would_change_the_answer() -> None:
    known = MadeUp(row=0.1 * MS)
    plans = searched(known, only_same=False).plans
    late = dataclasses.replace(machine(), stragglers=Stragglers(0.0, 0.3, 20.0))
    assert isinstance(plans[0], Plan)
    turns = turning_points([("stragglers", Pricer(known, late, STEPS, base_batch=64, threads=1))], plans)
    assert all(turn.what == "stragglers" for turn in turns)

"""A model that cannot be traced, as tasks: module by module, with gradients that are ready one after the other."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from laminar.plan.budget import Budget
from laminar.plan.candidates import Space
from laminar.plan.explain import path
from laminar.plan.facts import ModelCost
from laminar.plan.machine import Link, Machine, Node
from laminar.plan.memory import curve
from laminar.plan.passes import Passes
from laminar.plan.plan import Plan
from laminar.plan.price import Pricer
from laminar.plan.search import Found, Inside, Search
from laminar.plan.simulate import Timeline
from laminar.plan.steps_needed import StepsModel
from laminar.train.recipe import Recipe
from laminar.train.strategies import AnyStrategy, Solo, Sync
from tests.pure.plan.made_up import MadeUp, facts, machine

STEPS = StepsModel(1000.0, True, "made up")
FAR = Machine((Node("a", 1, 8 << 30), Node("b", 1, 8 << 30)), Link(12.5e6, 0.001))
MB = 1 << 20


def known(**more: Any) -> MadeUp:
    return MadeUp(untraceable="it looks at what it computes", machine_facts=facts(spread=0.0), **more)


def priced(how: AnyStrategy, of: MadeUp, on: Machine | None = None) -> Plan:
    found = Pricer(of, on or machine(), STEPS, base_batch=64, threads=1).price(how, 64)
    assert isinstance(found, Plan), found
    return found


@pytest.mark.parametrize("how", [Solo(), Sync(workers=2), Sync(workers=2, link="gloo", compress="int8")], ids=str)
def test_it_takes_what_the_whole_takes_and_says_where(how: AnyStrategy) -> None:
    traced, parts = priced(how, dataclasses.replace(known(), untraceable=None)), priced(how, known())
    assert parts.step_seconds == pytest.approx(traced.step_seconds) and parts.spent == pytest.approx(traced.spent)
    named = dict(path(parts, most=20))
    assert {f"{way}: {name}" for way in ("forward", "backward") for name in ("a", "b", "c", "d", "between modules")} <= set(named)
    assert named["backward: a"] == pytest.approx(2 * named["forward: a"])
    assert not any(name.startswith("forward: a") for name, _ in path(traced, most=20))


def test_memory_rises_and_falls_with_modules() -> None:
    plan = priced(Solo(), known())
    ran = plan.ran
    timeline = Timeline([one.task for one in ran], [one.ready for one in ran], [one.begin for one in ran], [one.end for one in ran])
    each = 4 * 64 * 256
    has = [size - plan.standing[0] for _, size in curve(timeline, 0, plan.standing[0])]
    assert [size // each for size in dict.fromkeys(has)] == [0, 1, 2, 3, 4] and has[-1] == 0
    assert plan.memory_bytes == plan.standing[0] + 4 * each


def test_a_bucket_travels_when_its_modules_are_done() -> None:
    """Three buckets: of the last module, of two before it, and of the first. The first two travel while the rest is computed; where only
    their bytes are known, the last is taken to be ready late because it is large."""
    of = known(job_facts={"tensors": (4 * MB, 2 * MB, 2 * MB, MB)})
    plan = priced(Sync(workers=2, link="gloo"), of, FAR)
    begins = {one.task.key: one for one in plan.ran}
    after = {key[1]: [end[2] for end in one.task.after if end[1] == 0] for key, one in begins.items() if one.task.kind == "exchange"}
    assert after == {0: [1], 1: [3], 2: [4]}  # pieces of the way back: between modules, d, c, b, a
    assert begins[3, 0].begin < begins[2, 0, 4].begin  # before the first module's turn


def test_buckets_are_sent_in_their_order_and_unclaimed_tensors_come_last() -> None:
    of = known()
    parts = of.parts(32)
    assert parts is not None
    shared = list(parts.operators)
    shared[3] = dataclasses.replace(shared[3], trained=())  # nobody says when the last tensor's gradient is there
    shared[2] = dataclasses.replace(shared[2], trained=(0, 2))  # the first module's tensor, once more

    class Shared(MadeUp):
        def parts(self, rows: int, threads: int = 1) -> ModelCost | None:
            return ModelCost(rows, tuple(shared))

    found = Passes(Shared(), 32, 1, [[2], [1], [0]], [1, 1, 1])
    assert [found.ready(0, bucket) for bucket in range(3)] == [(2, 0, 2), (2, 0, 3), (2, 0, 4)]
    late = Passes(Shared(), 32, 1, [[3], [2], [1, 0]], [1, 1, 1])
    assert [late.ready(1, bucket) for bucket in range(3)] == [(2, 1, 4)] * 3 and late.last(1) == (2, 1, 4)


class OnceLookedInto(MadeUp):
    """That it cannot be traced is known after a look."""

    looked = False

    def parts(self, rows: int, threads: int = 1) -> ModelCost | None:
        return super().parts(rows, threads) if self.looked else None


def test_what_was_priced_before_the_look_is_priced_by_modules_after_it() -> None:
    of = OnceLookedInto(untraceable="it looks at what it computes", machine_facts=facts(spread=0.0))

    def look() -> Inside:
        of.looked = True
        return Inside(by_modules=True)

    space = Space(workers=2, recipe=Recipe(epochs=2, batch=64, optimizer="adam"), samples=6400)
    pricer = Pricer(of, machine(2), STEPS, base_batch=64, threads=1)
    found: Found = Search(pricer, space, look=look, budget=Budget()).run()
    named = {plan.kind: {one.task.name for one in plan.ran} for plan in found.plans}
    assert {"a", "d", "between modules"} <= named["solo"] & named["sync"]
    assert set(named) == {"solo", "sync", "averaging", "downpour"}  # nothing that would split or cut it
    names = [(plan.name, plan.batch) for plan in found.plans]
    assert len(names) == len(set(names))

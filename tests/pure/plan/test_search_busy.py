"""A machine that gets busy while plans are priced: no plan is left out for that as if it could not be."""

from __future__ import annotations

from typing import Any

import pytest

from laminar.core.errors import LaminarError
from laminar.plan.candidates import Space
from laminar.plan.explain import turning_points
from laminar.plan.facts import ModelCost, Pass
from laminar.plan.known import How
from laminar.plan.price import Pricer
from laminar.plan.search import Inside, Search
from laminar.plan.steps_needed import StepsModel
from laminar.train.recipe import Recipe
from tests.pure.plan.made_up import MadeUp, facts, machine

STEPS = StepsModel(1000.0, True, "made up")
INSIDE = Inside(("batch", "hidden"), 1, {"a": ("hidden",), "b": ("hidden",)})


class Disturbed(MadeUp):
    """Somebody else is at work when it is to be measured for one process; or for tables of single modules."""

    code, of_modules = "L609", False

    def _busy(self) -> LaminarError:
        return LaminarError(self.code, "the machine is too busy to be measured", hint="wait")

    def whole(self, rows: int, how: How = "module", threads: int = 1) -> Pass:
        if threads == 4 and not self.of_modules:
            raise self._busy()
        return super().whole(rows, how, threads)

    def cost(self, mesh: Any, split: Any, module: Any, rows: int, threads: int = 1) -> ModelCost:
        if module and self.of_modules:
            raise self._busy()
        return super().cost(mesh, split, module, rows, threads)


def search(known: MadeUp, cores: int = 4) -> Search:
    space = Space(workers=2, recipe=Recipe(epochs=2, batch=64, optimizer="adam"), samples=6400)
    return Search(Pricer(known, machine(cores), STEPS, base_batch=64), space, look=lambda: INSIDE)


@pytest.mark.parametrize("code", ["L609", "L608"])  # busy; processes that measure have died
@pytest.mark.parametrize("of_modules", [False, True])
def test_it_is_told_and_no_plan_is_called_impossible(code: str, of_modules: bool) -> None:
    known = Disturbed(modules=("a", "b"))
    known.code, known.of_modules = code, of_modules
    with pytest.raises(LaminarError) as caught:
        search(known).run()
    assert caught.value.code == code


def test_what_would_change_the_answer_is_not_asked_for_then() -> None:
    """All plans are there; that only this could not be measured is no reason to lose them."""
    known = Disturbed(modules=("a", "b"), machine_facts=facts(cores=8))
    known.of_modules = True
    calm = MadeUp(modules=("a", "b"), machine_facts=facts(cores=2))
    plans = search(calm, cores=2).run().plans
    known.of_modules = False
    elsewhere = Pricer(known, machine(4), STEPS, base_batch=64)
    assert turning_points([("more cores", elsewhere)], plans) == []

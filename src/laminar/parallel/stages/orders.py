"""The orders that a lane follows: by the schedule of a pipeline, or through branches and back. No torch here."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from laminar.parallel.stages.plan import Plan
from laminar.parallel.stages.schedules import Action, forwards, one_after_the_other, orders
from laminar.train.splitting import Branches, Pipeline

Orders = Callable[[int], Sequence[Action]]  # for so many micro-batches


def training_order(how: Pipeline | Branches, plan: Plan, lane: int) -> Orders:
    return lambda batches: every_lane(how, plan, batches)[lane]


def judging_order(how: Pipeline | Branches, plan: Plan, lane: int) -> Orders:
    return lambda batches: forwards(every_lane(how, plan, batches))[lane]


def every_lane(how: Pipeline | Branches, plan: Plan, batches: int) -> list[list[Action]]:
    if isinstance(how, Pipeline):
        return orders(how.schedule, len(plan.stages), plan.lanes, batches)
    return one_after_the_other([stage.lane for stage in plan.stages], plan.lanes, batches)

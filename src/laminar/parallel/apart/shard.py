"""A shard: the numbers of one server, made from the plan; and the snapshot that it starts from when nothing has been trained."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import torch

from laminar.parallel.apart import keep
from laminar.parallel.apart.numbers import AddedSteps, Numbers, OptimizerStep, OuterStep, Stepper
from laminar.parallel.apart.plan import Plan, plain_sgd
from laminar.parallel.outer import Average, Nesterov
from laminar.train.outer_steps import OuterNesterov
from laminar.train.schedules import learning_rate
from laminar.train.strategies import Averaging, Downpour


def make_numbers(plan: Plan, shard: int) -> Numbers:
    recipe, how, layout, decoder = plan.recipe, plan.how, plan.layout(shard), plan.compressor(shard)
    rate = learning_rate(lr=recipe.rate, schedule=recipe.plan, warmup=recipe.warmup, epochs=recipe.epochs, steps_per_epoch=plan.batches)

    def make_step(row: torch.Tensor) -> Stepper:
        if isinstance(how, Averaging):
            outer = how.outer_step
            return OuterStep(Nesterov(row, lr=outer.lr, momentum=outer.momentum) if isinstance(outer, OuterNesterov) else Average())
        if plan.pushes_distances:
            return AddedSteps()
        # A shard of several does not see the whole gradient: there, workers clip.
        clip = None if isinstance(how, Downpour) or decoder.takes_momentum else recipe.clip
        return OptimizerStep(plain_sgd(recipe) if decoder.takes_momentum else recipe, row, layout, clip=clip)

    return Numbers(layout, decoder, make_step, rate, plan.buffers, how.smooth if isinstance(how, Downpour) else 0)


def begin(folder: Path, plan: Plan, shard: int, params: Mapping[str, torch.Tensor]) -> None:
    numbers = make_numbers(plan, shard)
    numbers.begin(params, plan.layout(shard))
    keep.write(keep.file_of(folder, shard), numbers.state(), {}, durable=False)

"""Learner: the next version, from the one before and the answers of nodes. The only part of the server that needs torch.

    distances   start - end of some local steps: their mean, and an outer step along it (parallel/outer.py)
    gradients   of one batch: the recipe's optimizer on their mean

How answers are put together so that a few bad ones do little: trust/robust.py.
"""

from __future__ import annotations

from typing import final

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors.torch import load, save
from torch import Tensor

from laminar.grid.compressor import compressor_of
from laminar.grid.settings import Settings
from laminar.grid.trust import robust
from laminar.grid.wire.answer import parse
from laminar.parallel.apart.numbers import OptimizerStep, OuterStep, Stepper
from laminar.parallel.apart.plan import plain_sgd
from laminar.parallel.compress.packet import Packet
from laminar.parallel.outer import Average, Nesterov
from laminar.train.outer_steps import OuterNesterov
from laminar.train.schedules import learning_rate


@final
class TorchLearner:
    def begin(self, settings: Settings) -> bytes:
        return self._state(_stepper(settings, torch.zeros(settings.layout.numel)), torch.zeros(settings.layout.numel))

    @torch.no_grad()
    def step(
        self, settings: Settings, version: bytes, optimizer: bytes, parts: list[tuple[float, list[bytes]]], position: int
    ) -> tuple[bytes, bytes]:
        numel = settings.layout.numel
        row = torch.frombuffer(bytearray(version[: 4 * numel]), dtype=torch.float32)
        buffers = np.frombuffer(version, dtype="<f8", offset=4 * numel).copy()
        stepper, saved = _stepper(settings, row), load(optimizer)
        centre = saved.pop("centre")
        stepper.load(saved)
        decoder = compressor_of(settings.recipe, settings.layout, gradients=settings.gradients)
        changes, weights = [], []
        moved: list[tuple[float, NDArray[np.float64]]] = []
        share = sum(weight for weight, _ in parts)
        for weight, answers in parts:
            change = torch.zeros(numel)
            for data in answers:
                answer = parse(data)
                decoder.decode(Packet.parse(answer.packet), change, scale=1 / len(answers))
                if answer.buffers.size:
                    moved.append((weight / len(answers), answer.buffers))
            changes.append(change)
            weights.append(weight / share)
        total = robust.combine(changes, weights, settings.grid.robust, centre)
        centre = total.clone()
        recipe = settings.recipe
        rate = learning_rate(
            lr=recipe.rate, schedule=recipe.plan, warmup=recipe.warmup, epochs=recipe.epochs, steps_per_epoch=settings.batches
        )(min(position, recipe.epochs * settings.batches - 1))
        if not settings.gradients:
            total.mul_(share)  # a distance has no rate that could be lower
        stepper.step(row, total, rate, share)
        if moved:
            buffers = robust.combine_buffers([values for _, values in moved], [weight for weight, _ in moved], settings.grid.robust)
        return row.numpy().tobytes() + buffers.tobytes(), self._state(stepper, centre)

    @staticmethod
    def _state(stepper: Stepper, centre: Tensor) -> bytes:
        return save({"centre": centre, **{name: tensor.contiguous() for name, tensor in stepper.state().items()}})


def _stepper(settings: Settings, row: Tensor) -> Stepper:
    if not settings.gradients:
        outer = settings.grid.outer_step
        return OuterStep(Nesterov(row, lr=outer.lr, momentum=outer.momentum) if isinstance(outer, OuterNesterov) else Average())
    inside = settings.grid.compression.needs_sgd
    recipe = plain_sgd(settings.recipe) if inside else settings.recipe
    return OptimizerStep(recipe, row, settings.layout, clip=None if inside else recipe.clip)

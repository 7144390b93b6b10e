"""Schedules: the learning rate as a pure function of the step, so that a resumed run needs no schedule state.

    constant    lr
    step        lr * gamma^(epochs passed // every)
    cosine      lr -> lr * floor along half a cosine            (Loshchilov & Hutter, SGDR, arXiv 1608.03983, one cycle)
    one-cycle   lr / start_div -> lr -> lr / end_div, cosine    (Smith & Topin, Super-Convergence, arXiv 1708.07120; momentum is left alone)

`lr` in the recipe is the highest rate of all of them. Warm-up rises linearly to it and comes before the schedule. No torch.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import msgspec

LearningRate = Callable[[int], float]


class Schedule(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="kind"):
    """One kind of schedule with its settings."""

    def factor(self, step: int, steps: int, epoch: int) -> float:
        """What the recipe's lr is multiplied by at `step` of `steps` (warm-up left out), in `epoch`."""
        raise NotImplementedError


class Constant(Schedule, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="constant"):
    def factor(self, step: int, steps: int, epoch: int) -> float:  # noqa: ARG002
        return 1.0


class Step(Schedule, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="step"):
    every: int  # epochs
    gamma: float = 0.1

    def __post_init__(self) -> None:
        if self.every < 1:
            raise ValueError(f"schedule.every is {self.every}, but must be 1 or more epochs")
        if not 0 < self.gamma <= 1:
            raise ValueError(f"schedule.gamma is {self.gamma}, but must be above 0 and at most 1")

    def factor(self, step: int, steps: int, epoch: int) -> float:  # noqa: ARG002
        return float(self.gamma) ** (epoch // self.every)


class Cosine(Schedule, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="cosine"):
    floor: float = 0.0  # share of lr that is left at the end

    def __post_init__(self) -> None:
        if not 0 <= self.floor < 1:
            raise ValueError(f"schedule.floor is {self.floor}, but must be a share of lr: 0 or more and below 1")

    def factor(self, step: int, steps: int, epoch: int) -> float:  # noqa: ARG002
        return _cosine(1.0, self.floor, step / max(1, steps))


class OneCycle(Schedule, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="one-cycle"):
    rise: float = 0.3  # share of the steps before the peak
    start_div: float = 25.0
    end_div: float = 1e4

    def __post_init__(self) -> None:
        if not 0 < self.rise < 1:
            raise ValueError(f"schedule.rise is {self.rise}, but must be a share of the steps: above 0 and below 1")
        for name in ("start_div", "end_div"):
            value = getattr(self, name)
            if not (value >= 1 and math.isfinite(value)):
                raise ValueError(f"schedule.{name} is {value}, but lr is divided by it: it must be a number of 1 or more")

    def factor(self, step: int, steps: int, epoch: int) -> float:  # noqa: ARG002
        peak = max(1.0, self.rise * steps)
        if step < peak:
            return _cosine(1 / self.start_div, 1.0, step / peak)
        return _cosine(1.0, 1 / self.end_div, (step - peak) / max(1.0, steps - 1 - peak))


def _cosine(first: float, last: float, share: float) -> float:
    return last + (first - last) * (1 + math.cos(math.pi * min(1.0, share))) / 2


def learning_rate(*, lr: float, schedule: Schedule, warmup: int | float, epochs: int, steps_per_epoch: int) -> LearningRate:
    """The rate at every step of a run of `epochs` x `steps_per_epoch` steps."""
    total = epochs * steps_per_epoch
    warm = min(total, warmup if isinstance(warmup, int) else math.ceil(warmup * total))

    def at(step: int) -> float:
        if step < warm:
            return lr * (step + 1) / warm
        return lr * schedule.factor(step - warm, total - warm, step // steps_per_epoch)

    return at

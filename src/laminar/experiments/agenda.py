"""Agenda: what is left to do in an experiment, as trials come in: rounds of all variants (or in turn, as they are listed), rungs of a
halving, or proposals of a search."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from typing import Protocol, final

import msgspec

from laminar.experiments.measures import OF_CURVES, TO_TARGET, measure_of
from laminar.experiments.order import (
    Next,
    another_round,
    another_trial,
    later_halving,
    left,
    left_after_one_warm_up,
    left_halving,
    longest_seconds,
    rungs,
    standing,
)
from laminar.experiments.record import Description, Trial, Variant
from laminar.experiments.spec import Sweep, goal_of
from laminar.experiments.variants import apply
from laminar.stack.read import StackFile


class Agenda(Protocol):
    def left(self) -> list[Next]:
        """In order, those that are under way among them. Empty when all is done."""
        ...

    def later(self) -> int:
        """Trials that will be left when these are done: of rungs and proposals to come."""
        ...

    def add(self, trial: Trial) -> None: ...

    def done(self) -> int:
        """Trials that need not be run again."""
        ...

    def variant(self, id: str) -> Variant: ...


@final
class Rounds:
    """`seed`: of the order in which each round goes; None: as variants are listed, because one stands on another.

    `first`: variants that have all of their repeats before the others have any, where a time is filled (run.py); else None. Then, as
    where variants stand on each other, one warm-up is enough: what is done once is in no trial that counts.
    """

    def __init__(self, description: Description, seed: int | None, trials: Sequence[Trial], first: Collection[str] | None = None) -> None:
        self._description, self._seed, self._trials, self._first = description, seed, list(trials), frozenset(first or ())
        self._left_of = left if seed is not None and first is None else left_after_one_warm_up
        self._variants = {one.id: one for one in description.variants}
        self._more: list[frozenset[str]] = []  # rounds beyond the repeats that are described, with the variants of each
        self._left: list[Next] | None = None  # of ten thousand trials it takes a while, and is asked for often

    def left(self) -> list[Next]:
        if self._left is None:
            self._left = self._left_of(self._description, self._trials, self._seed, first=self._first, more=self._more)
        return self._left

    def has_time(self, variant: str, seconds: float) -> bool:
        return another_trial(longest_seconds(self._trials), variant, seconds)

    def go_on(self, seconds: float) -> bool:
        """Add a round if there is time for it: it is then what is left. Variants whose trials all failed are left out of it."""
        longest = longest_seconds(self._trials)
        if not another_round(longest, seconds):
            return False
        self._more.append(frozenset(longest))
        self._left = None
        return True

    def later(self) -> int:
        return 0

    def add(self, trial: Trial) -> None:
        self._trials.append(trial)
        self._left = None

    def done(self) -> int:
        return sum(1 for variant, _ in standing(self._trials) if variant in self._variants)

    def variant(self, id: str) -> Variant:
        return self._variants[id]


@final
class Rungs:
    """Successive halving."""

    def __init__(self, description: Description, sweep: Sweep, file: StackFile, trials: Sequence[Trial]) -> None:
        assert sweep.halving is not None
        self._description, self._halving, self._seed, self._trials = description, sweep.halving, sweep.order_seed, list(trials)
        self._variants = {one.id: one for one in description.variants}
        self._sign = 1 if goal_of(sweep.halving.measure, sweep.halving.goal) == "most" else -1
        self._epochs = {one.id: _epochs(apply(file, description, one, 0, sweep.set), description.layer) for one in description.variants}

    def left(self) -> list[Next]:
        return left_halving(
            self._description,
            self._trials,
            epochs=self._epochs.__getitem__,
            first=self._halving.first,
            keep=self._halving.keep,
            score=self._score,
            seed=self._seed,
        )

    def later(self) -> int:
        ahead = self.left()
        if not ahead:
            return 0
        steps = rungs(max(self._epochs.values()), first=self._halving.first, keep=self._halving.keep)
        until = max(one.until or self._epochs[one.variant] for one in ahead)
        return later_halving(len(self._variants), until, steps=steps, keep=self._halving.keep)

    def _score(self, trial: Trial, until: int) -> float | None:
        """At the rung: one that went on is judged by what it was then, so that a resumed experiment decides as before."""
        measure = self._halving.measure
        value = measure_of(_as_of(trial, min(until, self._epochs[trial.variant])), measure, self._description.target)
        if value is None:
            return -math.inf if measure in TO_TARGET else None  # who is not there yet comes after all that are
        return self._sign * value

    def add(self, trial: Trial) -> None:
        self._trials.append(trial)

    def done(self) -> int:
        return sum(one.variant in self._variants for one in self._trials)

    def variant(self, id: str) -> Variant:
        return self._variants[id]


def _as_of(trial: Trial, epochs: int) -> Trial:
    """The trial as it was after so many epochs. Figures that its curve does not have are those of its end."""
    curve = tuple(one for one in trial.curve if one.epoch <= epochs)
    if not curve or len(curve) == len(trial.curve):
        return trial
    then = {"accuracy": curve[-1].test_accuracy, "loss": curve[-1].test_loss}
    metrics = {name: value for name, value in trial.metrics.items() if name not in OF_CURVES}
    metrics |= {name: value for name, value in then.items() if value is not None}
    return msgspec.structs.replace(trial, curve=curve, metrics=metrics, seconds=curve[-1].seconds)


def _epochs(file: StackFile, layer: str) -> int:
    return next(one.train.epochs for one in file.spec.layer if one.name == layer)


def agenda_of(
    description: Description,
    sweep: Sweep,
    file: StackFile,
    trials: Sequence[Trial],
    *,
    in_turn: bool = False,
    at_once: int = 1,
    first: Collection[str] | None = None,
) -> Agenda:
    if sweep.search is not None:
        from laminar.experiments.search import Proposals  # brings optuna

        return Proposals(description, sweep, trials, at_once)
    if sweep.halving is not None:
        return Rungs(description, sweep, file, trials)
    return Rounds(description, None if in_turn else sweep.order_seed, trials, first)

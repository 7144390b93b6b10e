"""Members that take the rows of others: whoever computes what and when, the same bits come out.

Members are threads of one process; who stands in for whom is drawn at random, stretch by stretch.
"""

from __future__ import annotations

import math
import random
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from laminar.core.errors import LaminarError
from laminar.core.events import nowhere
from laminar.parallel.meeting import Broken
from laminar.parallel.segment import Segment
from laminar.parallel.sync.crowding import Stretch
from laminar.parallel.sync.links import layout_of
from laminar.parallel.sync.shared_team import SharedTeam
from laminar.parallel.sync.standing import Decides
from laminar.train import borrowed
from laminar.train.astray import Astray
from laminar.train.compression import TopK
from laminar.train.history import Untold
from laminar.train.job import Job
from laminar.train.loop import train
from laminar.train.metrics import Tally
from laminar.train.snapshot import Run, trainable
from laminar.train.strategies import Sync
from tests.torch.train.train_jobs import Crash, events, images, job, line, numbers, stop_at


class Drawn:
    """Groups and lengths of stretches by chance; nobody stands in where that is not allowed."""

    def __init__(self, size: int) -> None:
        self.size, self.allowed = size, []  # type: ignore[var-annotated]
        self._chance = random.Random(size)

    def next(self, now: float, pace: float | None, waited: float, *, allowed: bool) -> Stretch:
        self.allowed.append(allowed)
        return Stretch(self._chance.randint(1, self.size) if allowed else 1, self._chance.randint(1, 5))


class Never:
    def __init__(self, size: int) -> None:
        self.size = size

    def next(self, now: float, pace: float | None, waited: float, *, allowed: bool) -> Stretch:
        return Stretch(1, 7)


def model() -> nn.Module:
    torch.manual_seed(3)
    return nn.Sequential(nn.Flatten(), nn.Linear(36, 12), nn.Tanh(), nn.Linear(12, 3))


class Sometimes(nn.Module):
    """Has a parameter that nobody uses in every third call, and one that is never used."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(4)
        self.inner, self.scale, self.idle = model(), nn.Parameter(torch.ones(3)), nn.Parameter(torch.ones(2))

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.inner(x)
        return out if float(x.sum()) % 3 < 1 else out * self.scale


def together(folder: Path, size: int, decides: Callable[[int], Decides], crash: int | None = None, **options: Any) -> Job:
    """Train by so many; member 0's job."""
    of, how = options.pop("of", model), options.pop("how", {})
    settings = {"epochs": 8, "batch": 10, "optimizer": "adam", "lr": 0.01, "checkpoint_seconds": 1e9, "data": images(train=94)}
    jobs = [job(folder, **settings | options, model=of(), strategy=Sync(workers=size, **how)) for _ in range(size)]
    layout = layout_of(jobs[0], size)
    segment = Segment.create(layout.total)
    errors: list[BaseException] = []

    def member(rank: int) -> None:
        own = jobs[rank]
        try:
            own.team = SharedTeam(segment, layout, rank, decides, own.model)
            if crash is not None:
                stop_at(own, crash)
            train(own, nowhere)
        except BaseException as error:
            errors.append(error)
            segment.words(0, 1)[0] = 1  # as the chief calls it off: who rests does not crash

    threads = [threading.Thread(target=member, args=(rank,)) for rank in range(size)]
    with borrowed.settings(1):  # which threads give back in any order
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
    result = [p.detach().clone() for p in jobs[0].model.parameters()]
    for p, value in zip(jobs[0].model.parameters(), result, strict=True):
        p.data = value  # out of the shared memory
    segment.close()
    if errors and not (crash is not None and all(isinstance(error, Crash | Broken) for error in errors)):
        raise errors[0]
    return jobs[0]


def told(folder: Path) -> tuple[list[float], list[dict[str, float]]]:
    return [event["loss"] for event in events(folder, "step")], [event["test"] for event in events(folder, "epoch")]


def same_bits(a: Job, b: Job) -> bool:
    return all(torch.equal(p, q) for p, q in zip(a.model.parameters(), b.model.parameters(), strict=True))


@pytest.mark.parametrize(
    ("size", "options"),
    [
        (2, {}),
        (3, {"clip": 0.5, "optimizer": "adamw"}),
        (4, {"optimizer": "lamb", "lr": 0.02}),
        (4, {"batch": 9, "epochs": 5}),  # the last batch has 4 rows: two of four members take two each
        (3, {"of": Sometimes}),
        (2, {"optimizer": "sgd", "momentum": 0.9, "checkpoint_steps": 3}),
        (2, {"of": lambda: line(13), "data": numbers(94, wide=13)}),  # five rows of 52 bytes: no batch begins where another did
    ],
    ids=["adam", "clip", "by tensor", "few rows", "missing gradients", "checkpoints", "odd rows"],
)
def test_whoever_stands_in_for_whom_the_same_bits_come_out(tmp_path: Path, size: int, options: dict[str, Any]) -> None:
    whole = together(tmp_path / "all", size, Never, **options)
    some = together(tmp_path / "some", size, Drawn, **options)
    assert same_bits(whole, some)
    assert told(tmp_path / "some") == told(tmp_path / "all")
    assert max(epoch["resting"] for epoch in events(tmp_path / "some", "epoch")) > 0.3  # members, on average
    assert not any(epoch["resting"] for epoch in events(tmp_path / "all", "epoch"))
    accuracies = [[epoch["train"].get("accuracy") for epoch in events(tmp_path / name, "epoch")] for name in ("all", "some")]
    assert accuracies[0] == accuracies[1]


@pytest.mark.parametrize("crash", [17, 24])
def test_a_run_that_was_broken_off_while_members_rested_ends_with_the_same_bits(tmp_path: Path, crash: int) -> None:
    options: dict[str, Any] = {"checkpoint_steps": 1}
    whole = together(tmp_path / "whole", 3, Never, **options)
    together(tmp_path / "parts", 3, Drawn, crash, **options)
    assert len(events(tmp_path / "parts", "step")) <= crash + 1
    assert same_bits(whole, together(tmp_path / "parts", 3, Drawn, **options))


def test_who_rests_does_not_judge_what_others_are_still_computing(tmp_path: Path) -> None:
    """It is ahead of them, and would tell the end of an epoch as the step at which a run went astray."""
    made = job(tmp_path, model=model(), strategy=Sync(workers=2))
    layout = layout_of(made, 2)
    segment = Segment.create(layout.total)
    made.team = team = SharedTeam(segment, layout, 1)
    segment.words(0, layout.word_count)[8] = 1000  # as if member 0 had come to every meeting
    optimizer = team.optimizer(made.recipe, trainable(made.model))
    astray = Astray(Run(made, optimizer, None, Tally(classes=True), {}), lambda _: 0.1, Untold())
    with torch.no_grad():
        optimizer.params["1.bias"][3] = math.nan
    with pytest.raises(LaminarError, match="no longer finite"):
        astray.check_finite()
    standing = team._standing
    assert standing is not None
    standing.ranks = range(1, 1)
    astray.check_finite()
    segment.close()


@pytest.mark.parametrize(
    "options",
    [
        {"of": lambda: nn.Sequential(model(), nn.BatchNorm1d(3))},
        {"accumulate": 2},
        {"how": {"shares": "measured"}},
        {"how": {"compress": TopK(sparsity=0.5)}},
    ],
    ids=["running statistics", "several batches a step", "measured shares", "compression"],
)
def test_nobody_stands_in_for_members_that_have_something_to_themselves(tmp_path: Path, options: dict[str, Any]) -> None:
    asked: list[int] = []
    together(tmp_path, 2, lambda size: asked.append(size) or Drawn(size), **options)  # type: ignore[func-returns-value]
    assert asked == []
    assert not any(epoch["resting"] for epoch in events(tmp_path, "epoch"))


class Counts(nn.Module):
    """Keeps something beside its tensors, which changes what it computes."""

    def __init__(self, what: str) -> None:
        super().__init__()
        self.inner, self.what = model(), what
        self.calls, self.mean, self.seen = 0, torch.zeros(()), {"sums": [0.0]}

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.inner(x)
        if self.training and self.what == "a number":
            self.calls += 1
        elif self.training and self.what == "a tensor":
            self.mean = 0.9 * self.mean + 0.1 * x.mean()
        elif self.training:
            self.seen["sums"][0] += float(x.sum())
        return out * (1 + 0.1 * (self.calls % 3) + self.mean + 0.01 * (self.seen["sums"][0] % 7))


@pytest.mark.parametrize(
    "of",
    [
        lambda: nn.Sequential(model(), nn.Dropout(0.1)),
        lambda: Counts("a number"),
        lambda: nn.Sequential(Counts("a tensor")),
        lambda: Counts("a list"),
    ],
    ids=["draws", "a number", "a tensor", "a list"],
)
def test_nobody_stands_in_for_members_that_draw_random_numbers_or_keep_something(of: Callable[[], nn.Module], tmp_path: Path) -> None:
    deciders: list[Drawn] = []

    def decides(size: int) -> Drawn:
        deciders.append(Drawn(size))
        return deciders[-1]

    together(tmp_path, 2, decides, of=of)
    asked = [decider.allowed for decider in deciders if decider.allowed]
    assert len(asked) == 1  # member 0's
    assert len(asked[0]) > 10
    assert not any(asked[0])

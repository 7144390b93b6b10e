"""Measured shares: whatever speeds members have and however they change, what is learnt is what one process learns.

Members are threads of one process, each with a clock of its own, which its model moves on as the test wants.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from laminar.core.clock import FakeClock
from laminar.core.events import nowhere
from laminar.parallel.segment import Segment
from laminar.parallel.sync.group_team import GroupTeam
from laminar.parallel.sync.links import layout_of
from laminar.parallel.sync.process_group import Group, serve_store
from laminar.parallel.sync.shared_team import SharedTeam
from laminar.train import borrowed
from laminar.train.compression import TopK
from laminar.train.job import Job
from laminar.train.loop import train
from laminar.train.strategies import Sync
from tests.thinned import thinned
from tests.torch.train.train_jobs import Crash, events, images, job, stop_at

Speeds = Callable[[int, random.Random], float]  # seconds that a row takes a member


def model() -> nn.Module:
    torch.manual_seed(3)
    return nn.Sequential(nn.Flatten(), nn.Linear(36, 12), nn.Tanh(), nn.Linear(12, 3))


def one(folder: Path, **options: Any) -> Job:
    settings = {"epochs": 6, "batch": 10, "optimizer": "adam", "lr": 0.01, "checkpoint_seconds": 1e9}
    return job(folder, **{"model": model(), "data": images(train=94)} | settings | options)


def together(folder: Path, size: int, link: str, speeds: Speeds, crash: int | None = None, **options: Any) -> Job:
    """Train by so many; member 0's job."""
    jobs = [one(folder, strategy=Sync(workers=size, shares="measured", **options.pop("how", {})), **options)]
    jobs += [one(folder, strategy=jobs[0].recipe.strategy, **options) for _ in range(size - 1)]
    layout = layout_of(jobs[0], size)
    segment = Segment.create(layout.total)
    store = serve_store("127.0.0.1", None)
    errors: list[BaseException] = []

    def member(rank: int) -> None:
        own, chance = jobs[rank], random.Random(rank)
        own.clock = clock = FakeClock()
        own.model.register_forward_pre_hook(lambda module, args: clock.advance(len(args[0]) * speeds(rank, chance) * module.training))
        try:
            if link == "memory":
                own.team = SharedTeam(segment, layout, rank)
            else:
                own.team = GroupTeam(Group("127.0.0.1", store.port, rank, size, bind="127.0.0.1", timeout=30))
            if crash is not None:
                stop_at(own, crash)
            train(own, nowhere)
        except BaseException as error:
            errors.append(error)

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
    if errors and not all(isinstance(error, Crash) for error in errors):
        raise errors[0]
    return jobs[0]


def losses(folder: Path) -> list[float]:
    return [event["loss"] for event in events(folder, "step")]


def any_speed(_: int, chance: random.Random) -> float:
    return chance.choice([0.01, 0.1, 1.0])


def halved(rank: int, _: random.Random) -> float:
    return 0.2 if rank else 0.1


@pytest.mark.parametrize(
    ("size", "link", "options"),
    [
        (2, "memory", {}),
        (3, "gloo", {}),
        (3, "memory", {"batch": 30, "accumulate": 2, "epochs": 30, "clip": 0.5}),
        (5, "memory", {"batch": 5, "epochs": 4}),  # as many rows as members; the last batch has fewer
        (2, "gloo", {"how": {"compress": TopK(sparsity=0.0, values="float32")}}),  # everything is sent
    ],
    ids=["memory", "gloo", "accumulate", "few rows", "compressed"],
)
def test_any_sequence_of_shares_learns_what_one_process_learns(tmp_path: Path, size: int, link: str, options: dict[str, Any]) -> None:
    alone = one(tmp_path / "alone", **{name: value for name, value in options.items() if name != "how"})
    train(alone, nowhere)
    many = together(tmp_path / "many", size, link, any_speed, **options)
    assert len(losses(tmp_path / "alone")) >= 50
    assert losses(tmp_path / "many") == pytest.approx(losses(tmp_path / "alone"), abs=1e-5)
    for a, b in zip(alone.model.parameters(), many.model.parameters(), strict=True):
        torch.testing.assert_close(a, b, rtol=0, atol=1e-4)
    told = [epoch["shares"] for epoch in events(tmp_path / "many", "epoch")]
    assert all(sum(shares) == pytest.approx(1, abs=1e-3) for shares in told)
    assert size == 5 or len({tuple(shares) for shares in told}) > 1  # they did change
    trained_on = [epoch["train"]["accuracy"] for epoch in events(tmp_path / "many", "epoch")]
    assert trained_on == pytest.approx([epoch["train"]["accuracy"] for epoch in events(tmp_path / "alone", "epoch")], abs=0.03)


@pytest.mark.parametrize("link", ["memory", "gloo"])
def test_who_needs_twice_the_time_gets_half_the_rows(tmp_path: Path, link: str) -> None:
    together(tmp_path, 2, link, halved, batch=30, epochs=12)
    told = [epoch["shares"] for epoch in events(tmp_path, "epoch")]
    assert told[0] == [0.5, 0.5]  # nothing is known before the 16th step
    assert told[-1] == pytest.approx([2 / 3, 1 / 3], abs=0.04)


@pytest.mark.parametrize(
    ("crash", "how"),
    thinned([(39, {"compress": TopK(sparsity=0.9)}), (17, {}), (3, {}), (16, {}), (39, {})], keep=2),
    ids=["39, what was kept back", "17", "3", "16", "39"],
)
def test_a_run_that_was_broken_off_goes_on_with_the_shares_it_had(tmp_path: Path, crash: int, how: dict[str, Any]) -> None:
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    options: dict[str, Any] = {"checkpoint_steps": 1, "batch": 20, "epochs": 12, "how": how}
    together(whole, 2, "memory", halved, **options)
    together(parts, 2, "memory", halved, crash, **options)
    assert len(losses(parts)) == crash
    together(parts, 2, "memory", halved, **options)
    assert events(parts, "resume")[0]["step"] == crash
    assert losses(parts) == pytest.approx(losses(whole), abs=1e-5)
    if crash == 39:  # the shares of step 32, at once
        assert [e["shares"] for e in events(parts, "epoch")][7] == [e["shares"] for e in events(whole, "epoch")][7] != [0.5, 0.5]


def test_a_smaller_team_goes_on_with_equal_shares(tmp_path: Path) -> None:
    options: dict[str, Any] = {"checkpoint_steps": 1, "batch": 20, "epochs": 12}
    together(tmp_path, 3, "memory", lambda rank, _: 0.1 + 0.1 * rank, 33, **options)
    together(tmp_path, 2, "memory", lambda *_: 0.1, **options)
    assert len(losses(tmp_path)) == 60
    (*_, last) = events(tmp_path, "epoch")
    assert last["shares"] == [0.5, 0.5]


def test_equal_shares_are_not_told(tmp_path: Path) -> None:
    made = one(tmp_path, strategy=Sync(workers=1, shares="measured"), epochs=1)  # by itself there is nothing to share
    layout = layout_of(made, 1)
    segment = Segment.create(layout.total)
    made.team = SharedTeam(segment, layout, 0)
    train(made, nowhere)
    assert "shares" not in events(tmp_path, "epoch")[0]
    segment.close()

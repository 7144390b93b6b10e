"""Epochs that an evaluator tests: what is learned is the same, whoever tests, however late, and whether or not it lives to answer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import msgspec
import pytest
import torch
from torch import Tensor

from laminar.core.errors import LaminarError
from laminar.parallel.sync.links import MemoryLink, join, layout_of
from laminar.train.beside import Lost
from laminar.train.evaluate import sums_of_job
from laminar.train.job import Job, Trained
from laminar.train.loop import train
from laminar.train.recipe import Target
from laminar.train.snapshot import changing
from laminar.train.strategies import Sync
from tests.torch.train.train_jobs import events, same_bits, tensors
from tests.torch.train.train_jobs import job as make_job

Sums = list[float]


class Evaluator:
    """In this process. `how`: what becomes of the n-th epoch that it is given."""

    def __init__(self, own: Job, how: Callable[[int, Future[Sums], Sums], None]) -> None:
        self._own, self._how = own, how
        self.given = 0
        self.here = True
        self.busy = False
        self.late: list[tuple[Future[Sums], Sums]] = []
        self._new: list[dict[str, Any]] = [{"role": "evaluator", "rank": 0, "pid": 1, "host": "h"}]

    @property
    def free(self) -> bool:
        return self.here and not self.busy

    def test(self, tensors: Mapping[str, Tensor]) -> Future[Sums]:
        found: Future[Sums] = Future()
        with torch.no_grad():
            for name, tensor in changing(self._own):
                tensor.copy_(tensors[name])
        number, self.given = self.given, self.given + 1
        self._how(number, found, sums_of_job(self._own))
        return found

    def arrived(self) -> list[dict[str, Any]]:
        found, self._new = self._new, []
        return found


def answers(number: int, found: Future[Sums], sums: Sums) -> None:
    found.set_result(sums)


def team_of_one(folder: Path, evaluator: Evaluator | None, **recipe: Any) -> Job:
    job = make_job(folder, strategy=Sync(workers=1, evaluator=evaluator is not None), **recipe)
    job.team = join(MemoryLink(layout_of(job, 1), inherited=True).told, job, 0, 1, 20.0)
    job.tester = evaluator
    return job


def trained(folder: Path, how: Callable[[int, Future[Sums], Sums], None] | None, **recipe: Any) -> tuple[Job, Trained]:
    job = team_of_one(folder, None if how is None else Evaluator(make_job(folder / "evaluator", **recipe), how), **recipe)
    return job, train(job)


def epochs(job: Job) -> list[dict[str, Any]]:
    return events(job.folder, "epoch")


def figures(job: Job) -> list[tuple[int, int, dict[str, float]]]:
    return [(event["epoch"], event["step"], event["test"]) for event in epochs(job)]


def test_who_tests_changes_nothing(tmp_path: Path) -> None:
    alone, plain = trained(tmp_path / "a", None, epochs=4)
    beside, found = trained(tmp_path / "b", answers, epochs=4)
    assert same_bits(tensors(alone), tensors(beside))
    for (epoch, step, one), (epoch_, step_, other) in zip(figures(alone), figures(beside), strict=True):
        assert (epoch, step) == (epoch_, step_)
        assert other == pytest.approx(one)
    assert {name: value for name, value in found.metrics.items() if name != "samples_per_second"} == pytest.approx(
        {name: value for name, value in plain.metrics.items() if name != "samples_per_second"}
    )
    assert [event.get("by") for event in epochs(beside)] == ["evaluator"] * 4
    assert [event.get("by") for event in epochs(alone)] == [None] * 4
    assert [event["role"] for event in events(beside.folder, "worker")] == ["evaluator"]
    assert alone.recipe.key_fields() == beside.recipe.key_fields()


def test_an_evaluator_that_is_late_holds_nobody_up_and_epochs_are_told_in_their_order(tmp_path: Path) -> None:
    def late(number: int, found: Future[Sums], sums: Sums) -> None:
        if number:
            found.set_result(sums)
        else:  # busy with the first, until the members have tested two themselves
            evaluator.busy = True
            evaluator.late.append((found, sums))

    evaluator = Evaluator(make_job(tmp_path / "e"), late)
    job = team_of_one(tmp_path / "b", evaluator, epochs=5)
    assert job.team is not None
    sharing, ended = job.team.share_buffers, []

    def end_of_epoch(buffers: Mapping[str, Tensor]) -> None:
        ended.append(1)
        if len(ended) == 4:
            evaluator.busy = False
            for found, sums in evaluator.late:
                found.set_result(sums)
        sharing(buffers)

    job.team.share_buffers = end_of_epoch  # type: ignore[method-assign]
    train(job)
    assert [event["epoch"] for event in epochs(job)] == [0, 1, 2, 3, 4]
    assert [event.get("by") for event in epochs(job)] == ["evaluator", None, None, "evaluator", "evaluator"]
    alone, _ = trained(tmp_path / "a", None, epochs=5)
    assert same_bits(tensors(alone), tensors(job))
    for (_, _, one), (_, _, other) in zip(figures(alone), figures(job), strict=True):
        assert other == pytest.approx(one)


def test_the_last_epoch_of_an_evaluator_that_died_is_tested_by_the_members(tmp_path: Path) -> None:
    def dies(number: int, found: Future[Sums], sums: Sums) -> None:
        if number == 2:
            found.set_exception(Lost("it was killed"))
        else:
            found.set_result(sums)

    job, found = trained(tmp_path / "b", dies, epochs=3)
    _, plain = trained(tmp_path / "a", None, epochs=3)
    assert [event.get("by") for event in epochs(job)] == ["evaluator", "evaluator", None]
    assert found.metrics["loss"] == pytest.approx(plain.metrics["loss"])


def test_an_earlier_epoch_that_was_lost_is_said_to_be_so(tmp_path: Path) -> None:
    waiting: list[Future[Sums]] = []

    def dies(number: int, found: Future[Sums], sums: Sums) -> None:
        if number == 0:
            waiting.append(found)
            return
        found.set_result(sums)
        if waiting:
            waiting.pop().set_exception(Lost("it was killed"))

    job, found = trained(tmp_path / "b", dies, epochs=3)
    assert [event["epoch"] for event in epochs(job)] == [1, 2]
    (note,) = events(job.folder, "note")
    assert note["why"] == "epoch 0 was not tested: it was killed"
    assert found.epochs == 3


@pytest.mark.parametrize("decides", [{"patience": 1}, {"target": Target(accuracy=0.5)}], ids=["patience", "target"])
def test_where_figures_decide_they_are_waited_for(tmp_path: Path, decides: dict[str, Any]) -> None:
    alone, plain = trained(tmp_path / "a", None, epochs=12, **decides)
    beside, found = trained(tmp_path / "b", answers, epochs=12, **decides)
    assert found.epochs == plain.epochs
    assert same_bits(tensors(alone), tensors(beside))


def test_a_model_that_fails_in_the_test_ends_the_training(tmp_path: Path) -> None:
    def fails(number: int, found: Future[Sums], sums: Sums) -> None:
        found.set_exception(LaminarError("L606", "it failed", hint="mend it"))

    with pytest.raises(LaminarError, match="it failed"):
        trained(tmp_path / "b", fails, epochs=3)


def test_figures_that_are_not_finite_end_the_training(tmp_path: Path) -> None:
    def astray(number: int, found: Future[Sums], sums: Sums) -> None:
        found.set_result([float("nan"), *sums[1:]])

    with pytest.raises(LaminarError, match="the test split gives") as caught:
        trained(tmp_path / "b", astray, epochs=3)
    assert caught.value.code == "L601"


def test_it_is_in_no_key() -> None:
    from laminar.train.strategies import Averaging, Downpour, Quorum

    for kind in (Sync, Averaging, Downpour, Quorum):
        how = kind(workers=3)
        assert how.key_fields() == msgspec.structs.replace(how, evaluator=True).key_fields()

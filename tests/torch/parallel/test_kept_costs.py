"""A run that goes on is cut and dealt as it was, whatever takes longer today."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from laminar.parallel.stages.flow import Flow
from laminar.parallel.stages.measure import Cost
from laminar.parallel.stages.prepare import Prepared, prepare
from laminar.train.checkpoint import OPERATORS, POINTER
from laminar.train.job import Job
from laminar.train.splitting import Branches
from tests.torch.parallel.split_models import Wide, images
from tests.torch.parallel.test_stages_exact import a_job

HOW = Branches(lanes=2)


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Begins of the names of modules that take long, as it is measured."""
    found: list[str] = []

    def measure(flow: Flow, *_: Any, **__: Any) -> list[Cost]:
        return [Cost(9.0, 9.0) if op.call.path.startswith(tuple(found)) else Cost(1.0, 1.0) for op in flow.operations]

    monkeypatch.setattr("laminar.parallel.stages.prepare.measure", measure)
    return found


@pytest.fixture
def job(tmp_path: Path) -> Job:
    return a_job(Wide(), images(6), torch.zeros(6, dtype=torch.long), tmp_path)


def test_as_long_as_there_is_a_checkpoint(job: Job, slow: list[str]) -> None:
    slow[:] = ["one", "three"]
    begun = prepare(job, HOW, begins=True)
    (job.folder / POINTER).touch()
    slow[:] = ["five", "pool", "three"]
    went_on, again = prepare(job, HOW, begins=True), prepare(job, HOW)
    assert went_on.fit == begun.fit and went_on.costs == begun.costs
    assert again.fit != begun.fit
    (job.folder / POINTER).unlink()
    assert prepare(job, HOW, begins=True).fit == again.fit  # from its beginning


def test_what_cannot_be_read_is_measured(job: Job, slow: list[str]) -> None:
    (job.folder / POINTER).touch()
    (job.folder / OPERATORS).write_text('{"operators": [')
    slow[:] = ["one"]
    begun = prepare(job, HOW, begins=True)
    slow[:] = ["three", "five"]
    assert prepare(job, HOW, begins=True).costs == begun.costs


def test_of_other_rows_nothing_is_known(tmp_path: Path, slow: list[str]) -> None:
    def prepared(rows: int) -> Prepared:
        return prepare(a_job(Wide(), images(rows), torch.zeros(rows, dtype=torch.long), tmp_path), HOW, begins=True)

    (tmp_path / POINTER).touch()
    begun = prepared(6)
    slow[:] = ["three"]
    assert prepared(6).costs == begun.costs
    assert prepared(8).costs != begun.costs

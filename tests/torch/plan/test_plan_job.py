"""What is planned for a job, from a profile that was made up: batches, and what the user is told of."""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path
from typing import cast

import msgspec
import pytest

from laminar.core.errors import LaminarError
from laminar.parallel.apart.prepare import make_plan
from laminar.plan.budget import Budget, OutOfTime
from laminar.plan.candidates import batches_per_epoch
from laminar.plan.facts import MachineFacts
from laminar.plan.ledger import Ledger
from laminar.plan.machine import Machine, Node, Stragglers
from laminar.plan.profile.measure import Profile
from laminar.plan.trials.planner import Planned, Wishes, plan_job
from laminar.train.job import Job
from laminar.train.strategies import Averaging, Downpour, Quorum
from tests.pure.plan.made_up import MadeUp
from tests.torch.plan.profile_jobs import calm, made


class Known:
    """A profile that nobody measured, of a model that cannot be split."""

    cores, machine_name, torch_version, quiet, knows_links, untraceable = 4, "desk", "2", calm(), True, None

    def __init__(self, notes: list[str]) -> None:
        self.notes, made_up = notes, MadeUp()
        self.job, self.machine, self.whole, self.packing = made_up.job, made_up.machine, made_up.whole, made_up.packing
        self.parts = made_up.parts

    def noise(self) -> float:
        return 1000.0

    def within(self, budget: Budget) -> None: ...

    def dimensions(self) -> list[str]:
        return []

    def modules(self) -> dict[str, list[str]]:
        return {}

    def kinds(self) -> dict[str, str]:
        return {}

    def branches(self) -> int:
        return 1


def planned(job: Job, folder: Path, wishes: Wishes, notes: list[str] | None = None) -> Planned:
    ledger = Ledger.open(folder / "ledger.sqlite")
    try:
        return plan_job(job, cast(Profile, Known(notes or [])), ledger, wishes)
    finally:
        ledger.close()


def test_no_batch_has_more_rows_than_there_are_samples(tmp_path: Path) -> None:
    found = planned(made("mlp", tmp_path, rows=200, batch=10_000), tmp_path, Wishes(workers=2, only_same=True))
    assert {plan.batch for plan in found.found.plans} == {200}
    assert all(plan.same_result for plan in found.found.plans)  # it is the batch that the recipe comes to


@pytest.mark.parametrize("rows", [10, 96, 97])
def test_no_plan_is_offered_that_cannot_be_begun(tmp_path: Path, rows: int) -> None:
    """Workers apart take whole batches, and shards whole tensors."""
    job = made("mlp", tmp_path, rows=rows, batch=8)
    for parameter in list(job.model.parameters())[1:]:
        parameter.requires_grad_(False)
    late = Machine((Node("lab", 16, 64 << 30),), stragglers=Stragglers(0.5))
    found = planned(job, tmp_path, Wishes(machine=late)).found.plans
    kinds = set()
    for plan in found:
        recipe = msgspec.structs.replace(job.recipe, batch=plan.batch)
        tried = dataclasses.replace(job, recipe=recipe)
        assert tried.batches_per_epoch == batches_per_epoch(rows, plan.batch)
        if isinstance(plan.strategy, Averaging | Downpour | Quorum):
            kinds.add(plan.kind)
            make_plan(tried, plan.strategy)
    assert kinds == {"averaging", "downpour", "quorum"}


def test_what_went_wrong_with_the_users_files_is_told(tmp_path: Path) -> None:
    (tmp_path / "ledger.sqlite").write_bytes(b"no database" * 100)
    notes = planned(made("mlp", tmp_path), tmp_path, Wishes(workers=2), notes=["profile.sqlite was damaged"]).notes
    assert notes[0] == "profile.sqlite was damaged" and "ledger.sqlite was damaged" in notes[1]


def test_that_threads_of_a_larger_machine_cannot_be_measured_is_told(tmp_path: Path) -> None:
    lab = Machine((Node("lab", 16, 64 << 30),))
    assert "with 4 threads at most" in planned(made("mlp", tmp_path), tmp_path, Wishes(machine=lab)).notes[0]
    assert not planned(made("mlp", tmp_path, threads=1), tmp_path, Wishes(machine=lab)).notes


def test_time_that_is_over_while_links_are_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing of them is kept, so to say that the next time gets further would not be true."""

    def over(_: MadeUp, world: int) -> MachineFacts:
        raise OutOfTime(f"links among {world}")

    monkeypatch.setattr(MadeUp, "machine", over)
    monkeypatch.setattr(Known, "knows_links", False)
    with pytest.raises(LaminarError) as caught:
        planned(made("mlp", tmp_path), tmp_path, Wishes(budget=3.0))
    assert caught.value.code == "L015" and "together has to be measured first" in caught.value.message
    assert caught.value.hint == "--budget 60; that takes about 20 seconds, once, and is kept only as a whole"


def test_what_a_process_takes_without_a_model_is_told(tmp_path: Path) -> None:
    with pytest.raises(LaminarError, match=r"0\.15 GB or more \(0\.15 GB of it without a model\), and the largest node has 0\.06 GB"):
        planned(made("mlp", tmp_path), tmp_path, Wishes(machine=Machine((Node("tiny", 2, 64_000_000),))))


@pytest.mark.parametrize("budget", [0.0, -1.0, math.nan])
def test_a_budget_that_is_no_time(tmp_path: Path, budget: float) -> None:
    with pytest.raises(LaminarError) as caught:
        planned(made("mlp", tmp_path), tmp_path, Wishes(budget=budget))
    assert caught.value.code == "L015" and (caught.value.hint or "").startswith("--budget 10;")

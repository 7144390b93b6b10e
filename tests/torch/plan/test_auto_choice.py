"""What `build --strategy auto` chooses when plans are run, and some of them cannot be."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from laminar.core.errors import LaminarError
from laminar.plan.plan import Plan
from laminar.plan.trials import auto
from laminar.plan.trials.auto import Auto, Choice
from laminar.plan.trials.trial import Tried
from laminar.train.strategies import AnyStrategy, Solo, Sync
from tests.torch.plan.profile_jobs import made

PLANS = [
    Plan(strategy=how, batch=16, step_seconds=ms / 1e3, raw_seconds=ms / 1e3, factor=1.0, steps=100, memory_bytes=0, bytes_per_step=0)
    for how, ms in cast(list[tuple[AnyStrategy, float]], [(Sync(workers=2), 1.0), (Sync(workers=4), 2.0), (Solo(), 3.0)])
]


def choice(monkeypatch: pytest.MonkeyPatch, folder: Path, measured: dict[int, float]) -> Choice:
    """`measured`: seconds by number of workers; those that are not there fail."""

    def tried(job: Any, description: Any, profile: Any, ledger: Any, plan: Plan) -> Tried:
        if plan.workers not in measured:
            raise LaminarError("L607", f"no room for {plan.workers}", hint="fewer")
        return Tried(measured[plan.workers], 20, 0.0)

    monkeypatch.setattr(auto, "try_plan", tried)
    planned: Any = SimpleNamespace(found=SimpleNamespace(plans=PLANS))
    nothing: Any = None
    return Auto(verify=True).choose(made("mlp", folder), nothing, planned, nothing, nothing, lambda *_: None)


def test_what_is_measured_counts_and_not_what_was_predicted(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert choice(monkeypatch, tmp_path, {2: 0.004, 4: 0.002, 1: 0.003}).plan.workers == 4


def test_a_plan_that_cannot_be_run_is_not_chosen_and_that_is_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    found = choice(monkeypatch, tmp_path, {1: 0.003})
    assert found.plan.kind == "solo"
    assert "could not be run: no room for 2" in found.why and "no room for 4" in found.why


def test_where_none_can_be_run_the_first_mistake_is_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with pytest.raises(LaminarError, match="no room for 2"):
        choice(monkeypatch, tmp_path, {})

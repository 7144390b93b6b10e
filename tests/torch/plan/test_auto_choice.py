"""What `build --strategy auto` chooses when plans are run, and some of them cannot be."""

from __future__ import annotations

import dataclasses
import json
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest

from laminar.core.errors import LaminarError
from laminar.plan.facts import Pass
from laminar.plan.ledger import Entry, Ledger
from laminar.plan.plan import Plan
from laminar.plan.profile.measure import Profile
from laminar.plan.search import no_time
from laminar.plan.trials import auto
from laminar.plan.trials.auto import Auto, Choice, Ran, entry
from laminar.plan.worth import LEAST, LINKS, SHARE, Allowed
from laminar.train.history import EVENTS
from laminar.train.strategies import AnyStrategy, Solo, Sync
from tests.torch.plan.profile_jobs import made

PLANS = [
    Plan(strategy=how, batch=16, step_seconds=ms / 1e3, raw_seconds=ms / 1e3, factor=1.0, steps=100, memory_bytes=0, bytes_per_step=0)
    for how, ms in cast(list[tuple[AnyStrategy, float]], [(Sync(workers=2), 1.0), (Sync(workers=4), 2.0), (Solo(), 3.0)])
]


def choice(
    monkeypatch: pytest.MonkeyPatch,
    folder: Path,
    measured: dict[int, float],
    *,
    verify: bool | None = True,
    before: dict[int, list[float]] | None = None,
    plans: list[Plan] = PLANS,
) -> Choice:
    """`measured`: seconds by number of workers; those that are not there fail. `before`: what the same job took earlier."""

    def ran(job: Any, description: Any, profile: Any, plan: Plan) -> Ran:
        if plan.workers not in measured:
            raise LaminarError("L607", f"no room for {plan.workers}", hint="fewer")
        return Ran(measured[plan.workers], quiet=True)

    monkeypatch.setattr(auto, "run_plan", ran)
    known: Any = SimpleNamespace(machine_name="desk", torch_version="2", digest=lambda: "model")
    planned: Any = SimpleNamespace(found=SimpleNamespace(plans=plans))
    nothing: Any = None
    job = made("mlp", folder)
    with closing(Ledger.open(folder / "ledger.sqlite")) as ledger:
        for plan in plans:
            for seconds in (before or {}).get(plan.workers, []):
                ledger.add(entry(job, known, plan, seconds))
        return Auto(verify=verify).choose(job, nothing, planned, known, ledger, lambda *_: None)


def test_what_is_measured_counts_and_not_what_was_predicted(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert choice(monkeypatch, tmp_path, {2: 0.004, 4: 0.002, 1: 0.003}).plan.workers == 4


def test_a_plan_that_cannot_be_run_is_not_chosen_and_that_is_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    found = choice(monkeypatch, tmp_path, {1: 0.003})
    assert found.plan.kind == "solo"
    assert "could not be run: no room for 2" in found.why and "no room for 4" in found.why


def test_a_ledger_that_cannot_be_written_into_does_not_end_a_build(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    opened: list[Ledger] = []

    def refuse(self: Ledger, one: Entry) -> None:
        opened.append(self)
        raise LaminarError("L302", f"the ledger {self.path} cannot be used: attempt to write a readonly database", hint="another file")

    monkeypatch.setattr(Ledger, "add", refuse)
    assert choice(monkeypatch, tmp_path, {2: 0.004, 4: 0.002, 1: 0.003}).plan.workers == 4
    assert len(opened) == 3 and len(opened[0].notes) == 1 and "readonly database; what was measured now is not kept" in opened[0].notes[0]


def test_where_none_can_be_run_the_first_mistake_is_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with pytest.raises(LaminarError, match="no room for 2"):
        choice(monkeypatch, tmp_path, {})


def test_a_short_training_is_chosen_for_by_what_it_took_before(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    found = choice(monkeypatch, tmp_path, {}, verify=None, before={2: [0.004], 4: [0.009, 0.002], 1: [0.003]})
    assert found.plan.workers == 4 and [plan.workers for plan, _ in found.tried] == [2, 4, 1]
    (tmp_path / "other").mkdir()
    some = choice(monkeypatch, tmp_path / "other", {}, verify=None, before={2: [0.004], 1: [0.003]})
    assert some.plan.workers == 2, "what is known of some cannot be held against what is predicted of others"


def test_workers_that_take_long_to_begin_are_not_chosen_for_a_short_training(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    slow = [dataclasses.replace(plan, start=0.0 if plan.workers == 1 else 3.0) for plan in PLANS]  # 100 steps of milliseconds
    assert choice(monkeypatch, tmp_path, {2: 0.001, 4: 0.002, 1: 0.003}, plans=slow).plan.kind == "solo"


def test_earlier_trials_are_gone_on_from(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    found = choice(monkeypatch, tmp_path, {2: 0.0030, 4: 0.0029, 1: 0.0035}, before={2: [0.0020] * 3, 4: [0.0029] * 3, 1: [0.0035] * 3})
    assert found.plan.workers == 2 and {plan.workers: seconds for plan, seconds in found.tried}[2] == 0.0020


@pytest.mark.parametrize(("rates", "seconds"), [([], None), ([160.0], 0.1), ([10.0, 160.0], 0.1), ([10.0, 320.0, 160.0, 80.0], 0.1)])
def test_a_run_of_one_epoch_tells_its_steps_too(tmp_path: Path, rates: list[float], seconds: float | None) -> None:
    job = made("mlp", tmp_path, rows=320, batch=16)
    job.folder.mkdir(parents=True, exist_ok=True)
    lines = [json.dumps({"event": "epoch", "samples_per_second": rate}) for rate in rates]
    (job.folder / EVENTS).write_text("".join(f"{line}\n" for line in lines))
    assert auto._of_run(job) == (pytest.approx(seconds) if seconds else None)


def test_an_hour_is_planned_for_longer_than_a_second(tmp_path: Path) -> None:
    def allowed(epochs: int, known: Known, **how: Any) -> float:
        job = made("mlp", tmp_path, rows=320, batch=16)
        job.recipe = msgspec.structs.replace(job.recipe, epochs=epochs)
        return Auto(**how).allowed(job, cast(Profile, known)).seconds

    assert allowed(1, Known()) == 0.0, "20 passes of 10 ms"
    assert allowed(20, Known()) == LEAST
    assert allowed(1000, Known()) == pytest.approx(SHARE * 200.0)
    assert allowed(20, Known(knows_links=False)) == 0.0, "nothing is measured that takes longer than training"
    assert allowed(1000, Known(knows_links=False)) == pytest.approx(SHARE * 200.0 + LINKS)
    assert allowed(1000, Known(), budget=7.0) == 7.0


class Known:
    """A profile by which a pass takes 10 ms."""

    cores = 2

    def __init__(self, *, knows_links: bool = True) -> None:
        self.knows_links = knows_links

    def whole(self, rows: int, how: str, threads: int) -> Pass:
        return Pass(rows, 0.004, 0.006)


def test_where_there_is_no_time_for_a_plan_one_process_trains(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def out_of_time(*_: Any, **__: Any) -> Any:
        raise no_time(1.0, 5)

    monkeypatch.setattr(auto, "plan_job", out_of_time)
    job, nothing = made("mlp", tmp_path), cast(Any, None)
    short, asked = Allowed(3.0, 1.0), Allowed(None, 1.0)
    assert Auto()._planned(job, nothing, nothing, short, nothing) is None
    with pytest.raises(LaminarError, match="no plan was priced in 1 seconds"):
        Auto(budget=1.0)._planned(job, nothing, nothing, asked, nothing)

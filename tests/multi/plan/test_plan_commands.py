"""`laminar plan` and `build --strategy auto` as commands: what is offered can be run, and what is wrong is said."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from laminar.plan.kept_plans import KeptAnswer, kept
from laminar.plan.ledger import Ledger, look
from laminar.store.store import Store
from tests import warm
from tests.e2e import chromium
from tests.e2e.chromium import Browser
from tests.pure.dashboard.visitor import serving

STACK = """\
[stack]
name = "digits"

[data.all]
source = "digits"

[[layer]]
name = "base"
model = "laminar:mlp"
args = { hidden = [64] }
data = "all"
train = { epochs = 3, batch = 128, lr = 0.01, threads = 1 }

[[layer]]
name = "odd"
model = "models:odd"
data = "all"
train = { epochs = 1, batch = 128, lr = 0.01, threads = 1 }
"""
MODELS = """\
from torch import nn


class Odd(nn.Module):
    def __init__(self):
        super().__init__()
        self.flat, self.first, self.second = nn.Flatten(), nn.Linear(64, 32), nn.Linear(32, 10)

    def forward(self, x):
        x = self.first(self.flat(x))
        return self.second(x.relu() if float(x.detach().sum()) > 0 else x)  # no graph has both


def odd():
    return Odd()
"""


class Project:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "laminar.toml").write_text(STACK)
        (folder / "models.py").write_text(MODELS)

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        own = {"LAMINAR_PROFILE": str(self.folder / "profile.sqlite"), "LAMINAR_LEDGER": str(self.folder / "ledger.sqlite")}
        command = [sys.executable, "-m", "laminar", *words]
        environment = {**os.environ, **own, "OMP_NUM_THREADS": "1"}
        return warm.run(command, cwd=self.folder, env=environment, capture_output=True, text=True, timeout=200, stdin=subprocess.DEVNULL)

    def plan(self, *words: str) -> dict[str, Any]:
        found = self.run("plan", *words, "--even-if-busy", "--budget", "150", "-q", "--json")
        assert found.returncode == 0, found.stderr
        told: dict[str, Any] = json.loads(found.stdout)
        return told

    def kept(self, layer: str) -> KeptAnswer:
        found = kept(Store.open(self.folder / ".laminar"), "digits", layer)
        assert found is not None
        return found


def on_the_page(project: Project, answer: KeptAnswer) -> None:
    """The dashboard shows what was predicted and what was measured, of the plan that was run and of all in the ledger."""
    if chromium.there_is_one():
        return
    browser = Browser()
    try:
        with pytest.MonkeyPatch.context() as patch, serving(project.folder) as dashboard:
            patch.setenv("LAMINAR_LEDGER", str(project.folder / "ledger.sqlite"))
            browser.open(f"{dashboard.url}#/plan/base", "table.plans .badge")
            browser.until("document.querySelector('main').innerText.includes('From the ledger')")
            (row,) = [place for place, plan in enumerate(answer.plans) if plan.measured_seconds is not None]
            words = browser.value(f"document.querySelectorAll('table.plans tbody tr')[{row}].innerText")
            assert "measured " in words and " %" in words
            assert "None of these was run here" not in browser.value("document.querySelector('main').innerText")
            entries = browser.value("[...document.querySelectorAll('.two tbody tr')].map(row => row.innerText)")
            assert entries and all("base" in entry for entry in entries)
            assert browser.complaints() == []
    finally:
        browser.close()


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    return Project(tmp_path_factory.mktemp("planned"))


def test_plans_come_best_first_and_the_second_time_nothing_is_measured(project: Project) -> None:
    told = project.plan("base", "--workers", "2", "--same-result", "--top", "100")
    times = [plan["seconds_to_target"] for plan in told["plans"]]
    assert times == sorted(times) and {"solo", "sync", "mesh", "pipeline"} <= {plan["strategy"]["kind"] for plan in told["plans"]}
    again = project.plan("base", "--workers", "2", "--same-result", "--top", "100")
    assert again["plans"] == told["plans"]
    kept = project.kept("base")
    assert kept.by == "plan" and kept.chosen == 0 and kept.conclusion == told["conclusion"]
    assert [plan.strategy for plan in kept.plans] == [plan["strategy"] for plan in told["plans"][: len(kept.plans)]]
    assert all(plan.timeline and plan.memory for plan in kept.plans), "all of these make steps at once"


def test_a_picture_and_a_trace_of_a_step(project: Project) -> None:
    project.plan("base", "--workers", "2", "--same-result", "--svg", "step.svg", "--trace", "step.json")
    assert (project.folder / "step.svg").read_text().startswith("<svg")
    events = json.loads((project.folder / "step.json").read_text())["traceEvents"]
    assert any(event["ph"] == "X" and event["dur"] > 0 for event in events)


def test_what_auto_builds_has_the_key_of_one_process_and_says_how_it_was_chosen(project: Project) -> None:
    built = project.run("build", "base", "--strategy", "auto:verify=false,budget=150", "-q", "--json")
    assert built.returncode == 0, built.stderr
    (layer,) = json.loads(built.stdout)["layers"]
    assert layer["action"] == "built" and layer["notes"][0].startswith("auto chose ")
    kept = project.kept("base")
    assert kept.by == "auto" and layer["notes"][0].startswith(f"auto chose {kept.plans[kept.chosen].name}:")
    told = [json.loads(path.read_bytes()) for path in (project.folder / ".laminar" / "runs").glob("*/run.json")]
    assert [one["strategy"] for one in told if one["layer"] == "base"] == [kept.plans[kept.chosen].strategy["kind"]]
    assert [i for i, plan in enumerate(kept.plans) if plan.measured_seconds is not None] == [kept.chosen], "what was built was measured"
    (again,) = json.loads(project.run("build", "base", "-q", "--json").stdout)["layers"]
    assert again["action"] == "cached" and again["key"] == layer["key"]
    ledger = Ledger.open(project.folder / "ledger.sqlite")
    (entry,) = ledger.all()
    ledger.close()
    assert (entry.layer, entry.batch, entry.measured_seconds) == ("base", 128, kept.plans[kept.chosen].measured_seconds)
    on_the_page(project, kept)
    checked = json.loads(project.run("plan", "check", "--json").stdout)
    assert checked["count"] == 1


def test_a_short_training_is_not_planned_for_longer_than_it_takes(tmp_path: Path) -> None:
    fresh = Project(tmp_path)  # on a machine where nothing was measured yet
    (layer,) = json.loads(fresh.run("build", "base", "--strategy", "auto", "-q", "--json").stdout)["layers"]
    assert layer["notes"][0].startswith("auto trains with one process: one process would train for about ")
    assert not look(fresh.folder / "ledger.sqlite"), "nothing was predicted"


def test_a_plan_that_is_tried_is_measured_and_leaves_nothing_in_the_store(project: Project) -> None:
    before = sorted((project.folder / ".laminar" / "runs").iterdir())
    (project.folder / ".laminar" / "runs" / "trial-000000000000" / "tensorboard").mkdir(parents=True)  # one that was killed
    told = project.plan("base", "--workers", "2", "--same-result", "--try", "1")
    assert told["plans"][0]["measured_seconds"] > 0
    assert project.kept("base").plans[0].measured_seconds == told["plans"][0]["measured_seconds"]
    on_the_page(project, project.kept("base"))
    assert sorted((project.folder / ".laminar" / "runs").iterdir()) == before


def test_a_model_that_cannot_be_traced_is_planned_by_its_modules_and_what_is_lost_is_said(project: Project) -> None:
    told = project.plan("odd", "--workers", "2", "--top", "100", "--batch", "128")
    kinds = [plan["strategy"]["kind"] for plan in told["plans"]]
    assert set(kinds) == {"solo", "sync", "averaging", "downpour"}
    assert "cannot be" in told["notes"][0] and "3 calls of 3 kinds" in told["notes"][0] and "what is lost: " in told["notes"][0]
    numbers = [str(kinds.index(kind) + 1) for kind in ("solo", "sync")]
    again = project.plan("odd", "--workers", "2", "--batch", "128", "--explain", *numbers, "--trace", "odd.json", "--plan", numbers[1])
    for way in again["explain"]["paths"]:
        assert {"forward: first", "backward: first", "backward: second"} & {one["what"] for one in way}  # those that take longest
    events = json.loads((project.folder / "odd.json").read_text())["traceEvents"]
    assert {"flat", "first", "second", "between modules"} <= {event["name"] for event in events if event["ph"] == "X"}
    (row,) = [plan for plan in project.kept("odd").plans if plan.strategy["kind"] == "sync"]
    assert len({size for _, size in row.memory[0].points}) > 2, "memory rises module by module"
    for kind in ("sync", "averaging", "downpour"):  # all that is offered can be run
        built = project.run("build", "odd", "--strategy", kind, "--workers", "2", "-q", "--json")
        assert built.returncode == 0, built.stderr


def test_desktops_of_a_file_are_planned_for_and_what_strangers_cannot_train_is_not(project: Project) -> None:
    link = '[link]\nbandwidth = "50Mbit/s"\nlatency = "5ms"\n'
    grid = '[grid]\nchurn = "lab"\n'
    (project.folder / "desks.toml").write_text(f'[[node]]\ncount = 3\ncores = 1\nmemory = "4GB"\n{link}{grid}')
    told = project.plan("base", "--machine", "desks.toml", "--batch", "128", "--top", "100")
    grids = [plan for plan in told["plans"] if plan["strategy"]["kind"] == "grid"]
    assert {plan["strategy"].get("mode", "rounds") for plan in grids} == {"rounds", "async"} and len(grids) > 10
    assert all(plan["step_seconds"] > 0 and plan["bytes_per_step"] > 0 and not plan["same_result"] for plan in grids)
    assert {plan["strategy"]["kind"] for plan in told["plans"]} == {"solo", "grid"}, "desktops of one core, who do not reach each other"
    refused = project.plan("odd", "--machine", "desks.toml", "--batch", "128", "--top", "100")
    assert [plan["strategy"]["kind"] for plan in refused["plans"]] == ["solo"]
    assert any(note.startswith("nothing is planned for the grid: ") for note in refused["notes"])


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["bass"], 2, "L006: laminar.toml has no layer 'bass'; did you mean 'base'"),
        (["base", "--machine", "none.toml"], 2, "L013"),
        (["base", "--machine", "lab.toml", "--try", "1"], 2, "L008"),
        (["base", "--on", "grid", "--try", "1"], 2, "L008"),
        (["base", "--on", "ray"], 2, "L008: --on ray: only the nodes of a grid"),
        (["base", "--on", "grid", "--machine", "lab.toml"], 2, "L008: --on is a grid that there is"),
        (["base", "--on", "grid"], 5, "L501: no grid is served from this folder"),
        (["base", "--budget", "0.001"], 2, "L015"),
        (["base", "--explain", "1", "999", "--even-if-busy"], 2, "L008: there is no plan 999"),
    ],
)
def test_what_is_wrong_is_said(project: Project, words: list[str], code: int, said: str) -> None:
    (project.folder / "lab.toml").write_text('[[node]]\ncores = 2\nmemory = "8GB"\n')
    found = project.run("plan", *words, "-q")
    assert (found.returncode, said in found.stderr) == (code, True), found.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--strategy", "auto:verify=maybe"], "auto has no setting 'verify' of that kind"),
        (["--strategy", "auto:budget=-1"], "auto has no setting 'budget' of that kind"),
        (["--strategy", "auto:top=3"], "auto has no setting 'top' of that kind"),
        (["--strategy", "auto", "--compress", "fp16"], "--compress with --strategy auto"),
        (["--strategy", "autos"], "did you mean 'auto'"),
    ],
)
def test_what_auto_does_not_take_is_said(project: Project, words: list[str], said: str) -> None:
    found = project.run("build", *words, "-q")
    assert found.returncode == 2 and said in found.stderr, found.stderr

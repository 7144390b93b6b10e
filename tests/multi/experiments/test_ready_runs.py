"""Ready experiments, run as a user would: on the stack that comes with them, and on the stack at hand."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from laminar.experiments.checkpoints import WORTH
from laminar.experiments.ready import stacks
from laminar.experiments.ready.ask import answers
from laminar.experiments.ready.form import Ask
from laminar.experiments.statistics import summary
from laminar.stack.project import open_project
from tests.conftest import Example, cli


@pytest.mark.slow
def test_sequential_stands_beside_the_published_epochs(tmp_path: Path) -> None:
    words = ("experiment", "sequential", "--data", "digits", "--epochs", "2", "--repeats", "2", "--even-if-busy", "-q", "--json")
    (found,) = json.loads(cli(*words, cwd=tmp_path).stdout)["experiments"]
    assert (found["done"], found["planned"], found["benchmark"]) == (4, 4, "one process")
    row, falling = found["rows"]
    assert falling["label"] == "one process, falling rate"
    assert falling["figures"]["accuracy"]["median"] != row["figures"]["accuracy"]["median"]
    assert row["figures"]["accuracy"]["median"] > 0.7
    assert row["figures"]["accuracy"]["percent"] == 100.0
    (epochs,) = found["tables"]
    assert [one["published"] for one in epochs["rows"]] == [0.8249, 0.8662]
    assert all(one["seconds"] > 0 and one["in training"] > 0.5 for one in epochs["rows"])
    assert not (tmp_path / "laminar.toml").exists()
    assert "sequential" in cli("experiment", "list", cwd=tmp_path).stdout
    again = json.loads(cli("experiment", "show", "sequential", "--json", cwd=tmp_path).stdout)
    assert again == found  # with its tables and its study
    cli("experiment", "report", "sequential", "--html", "r.html", "--csv", cwd=tmp_path)
    assert (tmp_path / "r" / "epochs.csv").read_text().splitlines()[0].startswith("epoch,in training,published,held out,least,most")
    page = (tmp_path / "r.html").read_text()
    assert "laminar experiment sequential --repeats 2 --epochs 2 --data digits --even-if-busy" in page
    assert "Accuracy and time, epoch by epoch" in page


@pytest.mark.slow
def test_a_stack_that_cannot_be_asked_names_one_that_can(example: Example) -> None:
    """The head that `laminar init` writes has no hidden module."""
    done = example.cli("experiment", "neurons", "--quick", "--repeats", "1", "--even-if-busy", "-q", "--json", check=6)
    assert "axis neurons sets hidden in layer.head.replace.head.args" in done.stderr
    assert "--data fashion-mnist for the stack that comes with Laminar" in done.stderr


def test_epochs_of_the_stack_at_hand(example: Example) -> None:
    done = example.cli("experiment", "epochs", "--layer", "head", "--quick", "--repeats", "2", "--even-if-busy", "--json")
    (found,) = json.loads(done.stdout)["experiments"]
    assert "the stack at hand, digits" in done.stderr
    assert (found["stack"], found["layer"], found["quick"]) == ("digits", "head", True)
    assert [row["label"] for row in found["rows"]] == ["1 epoch", "5 epochs", "10 epochs"]
    assert [row["figures"]["loss"]["published"] for row in found["rows"]] == [100.0, 78.16, 76.36]
    assert found["rows"][0]["figures"]["loss"]["percent"] == 100.0
    assert found["rows"][2]["figures"]["loss"]["percent"] < 100.0


@pytest.mark.slow
@pytest.mark.usefixtures("warm_workers")
def test_flowers_say_what_checkpoints_cost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The photographs are not to be had everywhere, so digits stand in for them: 16 samples a step, a checkpoint every 30 steps."""
    stack = stacks.FLOWERS.replace('source = "flowers"', 'source = "digits"').replace("size = {size}\n", "limit = 960\n")
    monkeypatch.setattr(stacks, "FLOWERS", stack)
    monkeypatch.chdir(tmp_path)
    ask = Ask(quick=True, repeats=3, checkpoint_steps=30, write_seconds=0.5, even_if_busy=True)
    (found,) = answers("flowers", ask, open_project())
    shown = summary(found.description, found.trials)
    local, slow, team = shown.rows
    assert slow.figures["checkpoints"].median == 2 and slow.figures["checkpoint_seconds"].median >= 1.0
    assert local.figures["checkpoints"].median == 0 and "checkpoints" not in team.figures
    still, whole = slow.figures["checkpoint_seconds"].median, slow.figures["seconds"].median
    named = any(note.startswith("slow store: training stood still for") and "2 checkpoints" in note for note in shown.notes)
    assert named == (still >= WORTH * whole)  # on a machine that stalls it is not the cause
    assert any(one.text == "A store that is slow to write slows training down." for one in shown.statements)
    assert {one.name for one in shown.tables} == {"checkpoints", "checkpoint-room", "differences"}

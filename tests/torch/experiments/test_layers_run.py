"""`laminar experiment layers`: every part of the development is trained once, and the last again after the change."""

from __future__ import annotations

from pathlib import Path

import pytest

from laminar.core.errors import LaminarError
from laminar.experiments.ready.ask import Limits, answers
from laminar.experiments.ready.form import Ask
from laminar.experiments.statistics import summary
from laminar.stack.project import open_project


def test_the_parts_of_a_development(tmp_path: Path) -> None:
    ask = Ask(quick=True, data="digits", epochs=1)
    (found,) = answers("layers", ask, open_project(tmp_path), Limits(workers=1))
    assert all(one.outcome == "done" and len(one.curve) == (0 if not one.spent else 1) for one in found.trials)
    shown = summary(found.description, found.trials)
    seconds = {row.label: row.figures["seconds"].median for row in shown.rows}
    assert seconds["layered, all three"] == pytest.approx(sum(seconds[f"layered: {part}"] for part in ("strokes", "shapes", "digits")))
    assert len(seconds) == 7
    assert len(shown.statements) == 8
    (again,) = answers("layers", ask, open_project(tmp_path), Limits(workers=1))
    assert again.trials == found.trials  # nothing is run twice
    with pytest.raises(LaminarError, match="there is an experiment 'layers-quick' already") as caught:
        list(answers("layers", Ask(quick=True, data="digits", epochs=2), open_project(tmp_path), Limits(workers=1)))
    assert caught.value.code == "L020"


def test_a_layer_belongs_to_the_stack_at_hand(tmp_path: Path) -> None:
    with pytest.raises(LaminarError, match="--layer head: the built-in stack has one layer"):
        list(answers("cores", Ask(layer="head"), open_project(tmp_path)))


def test_data_that_is_not_to_be_had_is_said_with_what_needs_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "data" / "fashion-mnist").mkdir(parents=True)
    monkeypatch.setenv("LAMINAR_DATA", str(tmp_path / "data"))
    with pytest.raises(LaminarError, match="fashion-mnist is not to be had") as caught:
        list(answers("neurons", Ask(), open_project(tmp_path)))
    assert "--data digits" in (caught.value.hint or "")

"""`experiment layers --target A`: every part is trained to an accuracy, and the picture is the paper's figure 2."""

from __future__ import annotations

from pathlib import Path

import pytest
from made_up_trials import curve, trial

from laminar.core.errors import LaminarError
from laminar.experiments.pictures import time_to
from laminar.experiments.pictures.choose import pictures
from laminar.experiments.ready import layers, layers_run
from laminar.experiments.ready.form import Ask
from laminar.experiments.record import Description
from laminar.experiments.report import check_page
from laminar.experiments.statistics import summary
from laminar.experiments.view import view
from laminar.stack.read import parse


def described(ask: Ask) -> Description:
    return layers_run.describe(layers.ready(ask), ask, layers_run.Place(), {}, 0.0)


def test_every_part_is_trained_to_the_target() -> None:
    for quick, epochs in ((False, 20), (True, 8)):
        file = parse(layers.stack_text("layered", Ask(target=0.97, quick=quick), workers=1, hidden=32, seed=0), Path("laminar.toml"))
        assert {layer.train.target.accuracy for layer in file.spec.layer if layer.train.target} == {0.97}
        assert [layer.train.epochs for layer in file.spec.layer] == [epochs] * 3
    assert "target" not in layers.stack_text("layered", Ask(), workers=1, hidden=32, seed=0)
    made = described(Ask(target=0.97))
    assert (made.target, made.measures[0]) == (0.97, "time_to_target")
    assert [one.arguments["measure"] for one in made.statements[:6]] == ["wall", *["time_to_target"] * 5]
    assert described(Ask()).inputs != made.inputs  # another question


def test_all_three_take_as_long_as_their_parts_to_the_target() -> None:
    parts = [trial(str(n), curve=curve(0.5, 1.0, seconds=n + 1.0)) for n in range(3)]
    found = layers_run.end_to_end(parts, 0.75)  # half-way between the tests: after 1.5, 3 and 4.5 s
    assert [(one.seconds, one.test_accuracy) for one in found] == [(4.5 + 3.0, 0.5), (4.5 + 6.0, 1.0)]
    assert layers_run.end_to_end(parts, None) == ()
    assert layers_run.end_to_end([trial("0", curve=curve(0.5)), *parts], 0.75) == ()  # the first never reached it


def test_the_picture_has_time_against_accuracy() -> None:
    made = described(Ask(target=0.9))
    ids = {one.label: one.id for one in made.variants}
    trials = [
        trial(ids["classic"], curve=curve(0.5, 0.7, 0.6, 0.95, seconds=2.0)),
        trial(ids["layered: strokes"], curve=curve(0.8, 1.0)),
        trial(ids["layered: shapes"], curve=curve(0.6, 0.7)),
    ]
    seen = view(made, trials)
    classic = time_to.way("classic", seen.trials_of(ids["classic"]), 0.9)
    assert classic is not None and classic.reached
    assert classic.accuracies == (0.5, 0.7, 0.9)  # what falls is no way to anywhere
    assert classic.seconds == pytest.approx((2.0, 4.0, 6.0 + 2.0 * 0.3 / 0.35))
    strokes = time_to.way("strokes", seen.trials_of(ids["layered: strokes"]), 0.9)
    assert strokes is not None and strokes.seconds == pytest.approx((1.0, 1.5))
    names = [one.name for one in pictures(seen)]
    assert "time-against-accuracy" in names
    (drawn,) = [one for one in pictures(seen) if one.name == "time-against-accuracy"]
    assert "up to the target of 0.9" in drawn.caption and "not reached by layered: shapes" in drawn.caption
    rows = {row.label: row for row in summary(made, trials).rows}
    assert rows["layered: strokes"].figures["time_to_target"].median == pytest.approx(1.5)
    assert "time-against-accuracy" not in [one.name for one in pictures(view(described(Ask()), trials))]


def test_a_page_that_cannot_be_written_is_told_before_anything_is_trained(tmp_path: Path) -> None:
    with pytest.raises(LaminarError, match="is a folder") as caught:
        check_page(tmp_path)
    assert caught.value.code == "L008" and caught.value.hint.startswith("--report ")

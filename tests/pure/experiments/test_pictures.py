"""Pictures: which an experiment gets, and that the data they are drawn from is right."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from laminar.experiments.lineage import Node
from laminar.experiments.pictures import along, bars, batch, curves, overfit, series, speedup, tree
from laminar.experiments.pictures.choose import pictures
from laminar.experiments.pictures.chosen import choose, spread
from laminar.experiments.pictures.scales import by_factors
from laminar.experiments.pictures.sheet import drawn as drawn_sheet
from laminar.experiments.pictures.sheet import in_file, on_page
from laminar.experiments.pictures.svg import clean
from laminar.experiments.ready.catalogue import parts
from laminar.experiments.ready.form import Ask
from laminar.experiments.record import Axis, Point
from laminar.experiments.variants import variants_of
from laminar.experiments.view import View, view
from tests.pure.experiments import made_up_experiments, made_up_trials
from tests.pure.experiments.made_up_experiments import described, trial


def viewed(kind: str) -> View:
    return view(*getattr(made_up_experiments, kind)())


CURVES = ["accuracy-against-time", "over-fitting"]


@pytest.mark.parametrize(
    ("kind", "names"),
    [
        ("cores", ["speed-up", "along-workers", "per-cent-of-benchmark", "accuracy-against-time", "over-fitting", "bytes-over-time"]),
        ("neurons", ["along-neurons", "per-cent-of-benchmark", "accuracy-against-time", "over-fitting"]),
        ("batches", ["steps-against-batch", "along-batch", "per-cent-of-benchmark", "time-against-accuracy", *CURVES]),
        ("many_variants", ["along-lr", "accuracy-against-time", "over-fitting"]),
        ("one_variant", ["accuracy-against-time", "over-fitting"]),
        ("empty", []),
        ("only_failed", []),
    ],
)
def test_an_experiment_gets_the_pictures_that_its_axes_and_measures_ask_for(kind: str, names: list[str]) -> None:
    assert [one.name for one in pictures(viewed(kind))] == names


def test_a_picture_is_a_file_of_each_kind() -> None:
    found = pictures(viewed("cores"))[0]
    assert in_file(found, "png").startswith(b"\x89PNG")
    assert in_file(found, "pdf").startswith(b"%PDF")
    assert in_file(found, "svg") == in_file(found, "svg")  # the same every time: no date, no chance


def test_a_curve_is_the_median_of_the_trials_and_reaches_as_far_as_half_of_them() -> None:
    description = described([Axis(name="lr", values=(1,))])
    one = description.variants[0]

    def curved(*values: float | None) -> Any:
        points = tuple(Point(epoch=e, seconds=float(e), test_accuracy=value) for e, value in enumerate(values, 1))
        return trial(one, 0, seconds=1.0, accuracy=0.5, curve=points)

    found = curves.bundle(
        "x", [curved(0.1, 0.5, 0.9), curved(0.2, 0.7), curved(0.3, None, float("nan"))], lambda point: point.test_accuracy
    )
    assert found is not None
    assert found.epochs == (1, 2)  # the third epoch has one trial of three
    assert found.middle == (0.2, pytest.approx(0.6))
    assert (found.low, found.high) == ((0.1, 0.5), (0.3, 0.7))
    assert curves.bundle("x", [curved(None)], lambda point: point.test_accuracy) is None


def test_speed_up_is_against_the_benchmark() -> None:
    shown = viewed("cores")
    (line,) = speedup.lines(shown, shown.workers_axes, "seconds")
    assert [one.workers for one in line.speeds] == [1, 2, 3, 4]
    assert [one.times for one in line.speeds] == pytest.approx([1, 9.4 / 5.2, 9.4 / 5.05, 9.4 / 5.15], rel=0.03)
    second = line.speeds[1]
    assert second.low is not None and second.high is not None and second.low <= second.times <= second.high


def test_the_law_of_the_critical_batch_is_fitted_for_each_optimizer() -> None:
    shown = viewed("batches")
    assert shown.batch_axis is not None
    found = {line.label: line for line in batch.lines(shown, shown.batch_axis)}
    assert [spot.batch for spot in found["sgd"].spots][-1] == 4096  # 8192 never reached the target
    fits = {label: line.fit for label, line in found.items()}
    assert fits["sgd"] is not None and fits["sgd"].b_crit == pytest.approx(900, rel=0.05)
    assert fits["lamb"] is not None and fits["lamb"].b_crit == pytest.approx(3000, rel=0.05)
    picture = batch.picture(shown)
    assert picture is not None
    assert "sgd: the critical batch is about 900." in picture.caption
    svg, hints = on_page(picture, narrow=True)
    assert "B_crit 900" in svg
    assert any("batch 4,096" in hint.text for hint in hints)


def test_bars_have_the_published_figure_beside_ours() -> None:
    found = bars.panels(viewed("cores"))["seconds"]
    assert [bar.published for bar in found] == [None, 110.3, 105.1, 102.6]
    assert [bar.benchmark for bar in found] == [True, False, False, False]
    assert [bar.verdict for bar in found] == ["benchmark", "less", "less", "less"]


@pytest.mark.parametrize(("repeats", "said"), [(1, "Empty bars"), (3, "Pale bars")])
def test_noise_and_too_few_repeats_are_told_apart(repeats: int, said: str) -> None:
    made = described([Axis(name="lr", values=(1, 2))], measures=("accuracy",))
    figures = [{"accuracy": 0.8 + 0.01 * n} for n in range(repeats)]
    trials = [trial(one, n, seconds=1.0, accuracy=0.8, metrics=metrics) for one in made.variants for n, metrics in enumerate(figures)]
    (picture,) = bars.pictures(view(made, trials))
    assert [word for word in ("Empty bars", "Pale bars") if word in picture.caption] == [said]
    assert in_file(picture, "png")


def readily(name: str, seconds: dict[str, float], **more: Any) -> View:
    """A ready experiment of which so much is known."""
    ready = parts(name, Ask())[0]
    sweep = ready.sweep(Ask())
    made = variants_of(sweep, ())
    axes = tuple(Axis(name=axis, values=()) for axis in dict.fromkeys(key for one in made for key in one.settings))
    description = described(axes, variants=tuple(made), measures=ready.measures, target=ready.target, **more)
    return view(
        description, [trial(one, n, seconds=seconds[one.label], accuracy=0.8) for one in made for n in range(3) if one.label in seconds]
    )


def test_workers_and_threads_are_lines_that_begin_at_one_core() -> None:
    shown = readily("cores", {"1 core": 8.0, "2 workers": 5.0, "4 workers": 4.0, "2 threads": 7.0})
    picture = speedup.picture(shown)
    assert picture is not None
    assert picture.title == "Speed-up against cores"
    found = {line.label: [one.workers for one in line.speeds] for line in speedup.lines(shown, shown.workers_axes, "seconds")}
    assert found == {"workers": [1, 2, 4], "threads": [1, 2]}
    assert [line.label for line in along.lines(shown, shown.axes[0], "seconds")] == ["workers"]  # threads do not go along workers
    assert "The best is 1.97 times with 4 cores: an efficiency of 49 %." in picture.caption  # trials differ by some per cent
    slower = speedup.picture(readily("cores", {"1 core": 4.0, "2 workers": 5.0}))
    assert slower is not None
    assert slower.caption.endswith("None is faster than the benchmark.")


def test_batches_of_one_optimizer_are_a_line_though_each_has_its_own_rate() -> None:
    ready, _ = parts("batch", Ask())
    shown = readily("batch", dict.fromkeys((one.label for one in ready.choices), 1.0))
    assert shown.batch_axis is not None
    rows = [one for one in pictures(shown) if one.name.startswith("along-")]
    assert [one.name for one in rows] == ["along-batch"]
    law = {steps: 100 * (1 + 1000 / steps) for steps in (32, 128, 512, 1024, 2048, 4096, 8192)}
    trials = [
        trial(
            one,
            0,
            seconds=1.0,
            accuracy=0.9,
            curve=(Point(epoch=1, seconds=1.0, step=round(law[one.settings["batch"]]), test_accuracy=0.9),),
        )
        for one in shown.variants
    ]
    again = view(shown.description, trials)
    assert again.batch_axis is not None
    assert [(line.label, len(line.spots)) for line in batch.lines(again, again.batch_axis)] == [
        (name, 7) for name in ("adam", "lamb", "sgd", "lars")
    ]
    found = batch.picture(again)
    assert found is not None and "adam: the critical batch is about 1,000." in found.caption
    (table,) = again.summary.tables
    assert [row["line"] for row in table.rows] == ["adam", "lamb", "sgd", "lars"]


def test_over_fitting_shows_the_benchmark_and_the_worst() -> None:
    found = overfit.pairs(viewed("cores"))
    assert found[0][0].label == "1 worker"
    assert overfit.gap(found[0]) == pytest.approx(0.045, abs=1e-6)


def test_a_series_is_told_by_its_means() -> None:
    shown = viewed("strategies")
    found = series.track(shown.trials_of("v003"), "staleness")
    assert found is not None
    assert len(found.ys) == series.POINTS
    assert sum(found.ys) / len(found.ys) == pytest.approx(4, abs=0.2)
    assert series.names(shown) == ["staleness", "bytes"]


def test_a_line_looks_the_same_in_every_panel_and_is_in_the_legend() -> None:
    """The first optimizer never reaches the target, so that the first panel has the second alone."""
    described = made_up_trials.description(
        {"batch": [32, 64, 128], "optimizer": ["sgd", "lars"]}, measures=("steps_to_target", "seconds"), target=0.8, repeats=1
    )
    ends = {"sgd": 0.7, "lars": 0.9}
    trials = [
        made_up_trials.trial(one.id, seconds=2.0, curve=made_up_trials.curve(0.5, ends[one.settings["optimizer"]]))
        for one in described.variants
    ]
    benchmark = next(one.id for one in described.variants if one.settings["optimizer"] == "lars")
    found = view(msgspec.structs.replace(described, benchmark=benchmark), trials)
    drawn = along.picture(found, found.axes[0])
    assert drawn is not None
    with drawn_sheet(drawn) as sheet:
        assert [one.get_text() for one in sheet.figure.legends[0].get_texts()] == ["sgd", "lars"]
        first, second = sheet.figure.axes
        looks = [
            {line.get_label(): (line.get_color(), line.get_marker()) for line in axes.lines if not line.get_label().startswith("_")}
            for axes in (first, second)
        ]
    assert set(looks[0]) == {"lars"}
    assert set(looks[1]) == {"lars", "sgd"}
    assert looks[0]["lars"] == looks[1]["lars"] != looks[1]["sgd"]


def test_layers_that_nobody_shares_are_not_drawn() -> None:
    assert tree.picture(viewed("cores"), [Node("net", 1.0, 100, leaf=f"v{i}") for i in range(3)]) is None


def test_a_tree_has_shared_layers_below_own_ones() -> None:
    leaves = [Node(f"head{i}", 1.0, 100, layers=3, leaf=f"v{i:03d}") for i in range(40)]
    roots = [Node("strokes", 12.0, 2000, above=[Node("even", 3.0, 500, above=leaves)])]
    found = tree.boxes(roots, {"v000": "the first"})
    assert [box.title for box in found[:3]] == ["strokes", "even", "the first"]
    assert [box.shared for box in found[:3]] == [True, True, False]
    assert found[1].below == 0 and found[2].below == 1
    assert any(box.title == "… 26 more" for box in found)
    assert len({box.row for box in found if box.column == 2}) == tree.LEAVES + 1
    picture = tree.picture(viewed("cores"), roots)
    assert picture is not None
    assert "2 layers are common" in picture.caption
    assert "not repeated" in picture.caption
    assert in_file(picture, "svg").startswith(b"<?xml")


def test_a_layer_of_one_variant_that_another_stands_on_is_one_box() -> None:
    top = Node("digits", 3.0, 100, layers=3, leaf="c")
    roots = [Node("strokes", 12.0, 2000, layers=3, leaf="a", above=[Node("shapes", 6.0, 500, layers=3, leaf="b", above=[top])])]
    found = tree.boxes(roots, {"a": "first", "b": "second", "c": "third"})
    assert [(box.title, box.shared) for box in found] == [("first", True), ("second", True), ("third", False)]
    assert found[0].told.startswith("first\nshared by 3 variants, 3 layers, each trained once")
    picture = tree.picture(viewed("cores"), roots)
    assert picture is not None
    assert "6 layers are common" in picture.caption
    assert "30.00\N{NO-BREAK SPACE}s of training were not repeated" in picture.caption  # 4 s for each of six, 2 s for each of three


def test_few_of_many_are_drawn_in_colour_the_benchmark_among_them() -> None:
    shown = viewed("many_variants")
    found = choose(shown.variants, "v120")
    assert found.drawn[0][0].id == "v120"
    assert [one.id for one, _ in found.drawn[1:]][:: len(found.drawn) - 2] == ["v000", "v199"]
    assert len(found.drawn) + len(found.rest) == 200
    assert spread([1, 2, 3], 5) == [1, 2, 3]
    assert spread(range(100), 3) == [0, 50, 99]


def test_values_that_rise_by_factors_are_seen_as_such() -> None:
    assert by_factors([32, 128, 256, 512])
    assert not by_factors([1, 2, 3, 4, 5, 6, 7, 8, 9])
    assert not by_factors([0, 1, 10, 100])


def test_text_in_a_picture_is_one_line_that_prints() -> None:
    assert clean("a\n b\x00\x1b  c") == "a b c"
    assert clean("x" * 99, 10) == "x" * 9 + "…"
    assert clean("\n") == "-"

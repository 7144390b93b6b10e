"""Ready experiments: published figures are those that were printed, the benchmark is 100 %, every description is a sweep that fits."""

from __future__ import annotations

from pathlib import Path

import pytest
from made_up_trials import description

from laminar.core.errors import LaminarError
from laminar.experiments.axes import path_of, put
from laminar.experiments.measures import MEASURES
from laminar.experiments.ready import tables
from laminar.experiments.ready.catalogue import READY, parts
from laminar.experiments.ready.form import Ask, Ready, own_wishes
from laminar.experiments.spec import checked
from laminar.experiments.statements import RULES, Evidence
from laminar.experiments.variants import published_figures, variants_of
from laminar.stack.read import StackFile, from_raw, parse

ASKS = (Ask(), Ask(quick=True), Ask(epochs=2, repeats=2, samples=500, name="mine"), Ask(cores=8))
AT_HAND = """\
[stack]
name = "mine"
[data.d]
source = "digits"
[[layer]]
name = "base"
model = "laminar:mlp"
args = { hidden = [16] }
data = "d"
train = { epochs = 1, batch = 64, optimizer = "adam" }
[[layer]]
name = "top"
freeze = ["features"]
replace = { head = "laminar:head" }
data = "d"
train = { epochs = 1 }
"""


def every(ask: Ask) -> list[Ready]:
    return [one for name in READY for one in parts(name, ask)]


def _variants(one: Ready, ask: Ask, file: StackFile, layer: str) -> list[StackFile]:
    sweep = checked(one.sweep(ask))
    names = [*sweep.set, *(name for variant in sweep.variant for name in variant.settings)]
    paths = {name: path_of(name, file, layer) for name in names}
    return [from_raw(put(file.raw, layer, sweep.set | variant.settings, paths), file.text, file.path) for variant in sweep.variant]


@pytest.mark.parametrize("ask", ASKS)
def test_every_variant_is_a_stack_that_can_be_read(ask: Ask) -> None:
    for one in every(ask):
        if one.stack:
            assert len(_variants(one, ask, parse(one.stack, Path("laminar.toml")), "net")) == len(one.choices)


def test_the_stack_at_hand_can_be_asked_too() -> None:
    ask = Ask(at_hand=True, target=0.9)
    file = parse(AT_HAND, Path("laminar.toml"))
    for name, entry in READY.items():
        if entry.at_hand:
            for one in parts(name, ask):
                for layer in ("base", "top"):
                    for variant in _variants(one, ask, file, layer):
                        assert variant.spec.data == file.spec.data


@pytest.mark.parametrize("ask", ASKS)
def test_labels_differ_and_measures_and_rules_are_known(ask: Ask) -> None:
    for one in every(ask):
        labels = [choice.label for choice in one.choices]
        assert len(set(labels)) == len(labels)
        assert set(one.measures) <= set(MEASURES)
        for choice in one.choices:
            assert set(choice.published) <= set(one.measures), one.name
        for statement in one.statements:
            assert statement.rule in RULES
            assert statement.arguments["measure"] in one.measures, statement
            assert {statement.arguments[key] for key in ("variant", "than") if key in statement.arguments} <= set(labels)


@pytest.mark.parametrize("ask", [*ASKS, Ask(write_seconds=0.0), Ask(single="local", cluster="local", workers=2)])
def test_every_published_figure_is_of_one_choice_and_every_statement_of_those_it_names(ask: Ask) -> None:
    for one in every(ask):
        sweep = one.sweep(ask)
        variants = variants_of(sweep, ())
        labels = {variant.id: variant.label for variant in variants}
        found = [(labels[figure.variant], figure.measure) for figure in published_figures(sweep, {v.id: v for v in variants})]
        assert found == [(choice.label, measure) for choice in one.choices for measure in choice.published]
        evidence = Evidence(description(variants=tuple(variants), benchmark=variants[0].id), tuple(variants), {})
        for said, meant in zip(sweep.statement, one.statements, strict=True):
            for name in ("variant", "than"):
                if name in meant.arguments:
                    variant = evidence.one(said.arguments[name])
                    assert variant is not None and variant.label == meant.arguments[name]


def test_the_first_choice_is_the_benchmark_and_is_100_percent() -> None:
    for one in every(Ask()):
        if one.percent:
            assert set(one.choices[0].published.values()) <= {100.0}, one.name


def published(name: str, measure: str) -> list[float]:
    (one,) = parts(name, Ask())
    return [choice.published[measure] for choice in one.choices]


def test_figures_of_parallel_machine_learning() -> None:
    """Balmforth, Fu, Kam: loss, accuracy and time in per cent of the benchmark."""
    assert published("neurons", "loss") == [100, 87.05, 89.17, 84.01]
    assert published("neurons", "accuracy") == [100, 101.5, 101.3, 102.2]
    assert published("neurons", "seconds") == [100, 173.9, 267.8, 503.4]
    assert published("depth", "loss") == [100, 102.4, 107.0]
    assert published("depth", "accuracy") == [100, 99.71, 98.75]
    assert published("depth", "seconds") == [100, 118.2, 161.7]
    assert published("epochs", "loss") == [100, 78.16, 76.36, 77.75]
    assert published("epochs", "accuracy") == [100, 103.9, 104.7, 106.1]
    assert published("epochs", "seconds") == [100, 445.4, 861.7, 1739]
    # workers and threads stand beside the same figures
    assert published("cores", "loss") == [100, *2 * [103.5, 105.0, 103.0]]
    assert published("cores", "accuracy") == [100, *2 * [99.76, 99.30, 99.74]]
    assert published("cores", "seconds") == [100, *2 * [110.3, 105.1, 102.6]]


def test_figures_of_sequential_training() -> None:
    (one,) = parts("sequential", Ask())
    assert [(row["train_accuracy"], row["seconds"]) for row in one.epochs] == [
        (0.8249, 1.92),
        (0.8662, 1.80),
        (0.8770, 1.80),
        (0.8837, 1.80),
        (0.8914, 1.92),
    ]
    assert one.choices[0].published["accuracy"] == 0.8728
    assert {"measure": "accuracy", "variant": "one process", "value": 0.8728} in [s.arguments for s in one.statements]
    assert {"measure": "accuracy", "variant": "one process, falling rate", "value": 0.8728} in [s.arguments for s in one.statements]
    assert one.choices[0].settings["schedule"] == "constant"  # as the study trained
    assert not one.choices[1].published  # the study has no such training


def test_figures_of_flowers() -> None:
    alone, one, three = parts("flowers", Ask())
    assert [row["train_accuracy"] for row in alone.epochs] == [0.6124, 0.8975, 0.9437, 0.9576, 0.9666]
    assert alone.choices[0].published == {"accuracy": 0.6611, "train_accuracy": 0.9666, "test_seconds": 0.516}
    assert alone.choices[0].settings["epochs"] == 5
    assert [choice.published.get("seconds") for choice in one.choices] == [100, 278.3, None, 36.17]
    assert [choice.published.get("seconds") for choice in three.choices] == [100, 263.7, None, 29.97]
    assert [choice.published.get("loss") for choice in one.choices] == [100, 99.75, None, 99.88]
    assert [choice.published.get("loss") for choice in three.choices] == [100, 100.1, None, 100.2]
    assert any("0.6611 is of 12 photographs" in note for note in alone.notes)
    assert one.choices[3].settings["strategy"]["workers"] == 6
    assert one.choices[3].settings["strategy"]["shards"] == 3


def test_a_single_node_saves_as_the_study_says_and_the_slow_store_as_one_asks() -> None:
    _, one, _ = parts("flowers", Ask(checkpoint_steps=7, write_seconds=0.5))
    assert one.choices[1].settings == {"strategy": "solo", "checkpoint_steps": 500, "checkpoint_write_seconds": 20.0}
    assert one.choices[2].settings == {"strategy": "solo", "checkpoint_steps": 7, "checkpoint_write_seconds": 0.5}
    assert any("a checkpoint every 7 steps, each in 0.5 s or more" in note for note in one.notes)


def test_the_arithmetic_of_checkpoints() -> None:
    """2.f: 278.3 % of 265.5 s are 473 s more, for which 16 to 24 checkpoints of 20 to 30 s are needed."""
    _, one, three = parts("flowers", Ask())
    (table,) = one.tables
    first, *_, needed = table.rows
    assert [first[name] for name in table.columns[:5]] == [1, 2936, 5, 100.0, 150.0]
    assert (round(float(first["to at most"] or 0), 1), needed["checkpoints"]) == (31.7, "16 to 24")
    assert {row["batch"]: row["checkpoints"] for row in table.rows[:-1]} == {1: 5, 2: 2, 4: 1, 8: 0, 16: 0, 32: 0, 64: 0}
    assert any("1 epoch of batch 1 has 5 checkpoints, which explain at most 32 %" in note for note in one.notes)
    assert any("3 epochs of batch 1 have 17 checkpoints, which explain at most 39 %" in note for note in three.notes)


def test_figures_of_the_grid() -> None:
    assert tables.GRID == {"sync, synSGD": 0.792, "async, SGD": 0.939, "async, DGC": 0.926}
    assert published("grid", "accuracy") == [0.792, 0.939, 0.926]
    assert tables.GRID_IMAGES * tables.GRID_TURNED == tables.GRID_ALL == 4_559_688
    across, down = ((side - 256) // 128 + 1 for side in (2272, 1704))  # squares of 256, half overlapping; the rest is left out
    assert across * down == tables.GRID_FRAGMENTS == 192 and 72 * tables.GRID_FRAGMENTS != tables.GRID_TURNED
    (one,) = parts("grid", Ask())
    (note,) = [note for note in one.notes if "654 images give 192 fragments" in note and "192 x 72 would be 13,824" in note]
    assert "6,972" in note and "4,559,688" in note  # theirs, and beside them ours with the way of counting
    assert "(last = 'drop') are 192;" in note and "(edge = 'inside'), 11,448 in each image and 7,486,992 in all" in note


def sentences(name: str, ask: Ask) -> list[str]:
    return [statement.text for one in parts(name, ask) for statement in one.statements]


def test_sentences_are_those_of_the_study() -> None:
    cores = sentences("cores", Ask(cores=8))
    assert not any("accuracy" in text for text in cores)  # which it says to ignore
    assert any("From two to four workers the time falls" in text for text in cores)
    (one,) = parts("cores", Ask(cores=8))
    assert any("ignores them" in note for note in one.notes)
    for ask in (Ask(), Ask(quick=True)):
        assert any("Past 128 neurons the loss gains nothing" in text for text in sentences("neurons", ask))


def test_more_workers_than_cores_are_said_to_be_so() -> None:
    (two,) = parts("cores", Ask(cores=2))
    assert [note[:7] for note in two.notes[1:]] == ["3 cores", "4 cores"]
    (many,) = parts("cores", Ask(cores=8))
    assert len(many.notes) == 1


def test_fewer_samples_are_set_and_said() -> None:
    ask = Ask(samples=500, batch=16)
    for name in ("neurons", "batch", "flowers"):
        for one in parts(name, ask):
            for variant in _variants(one, ask, parse(one.stack, Path("laminar.toml")), "net"):
                assert variant.spec.data["all"].limit == 500
    assert own_wishes(ask) == ("As asked for: 500 training samples, batches of 16, instead of what the experiment has by itself.",)
    assert own_wishes(Ask(quick=True, repeats=2)) == ()
    both = [
        pair
        for whole, quarter in zip(parts("batch", Ask()), parts("batch", Ask(samples=15_000)), strict=True)
        for pair in zip(whole.choices, quarter.choices, strict=True)
    ]
    assert len(both) == 28 + 10 and all(4 * one.settings["epochs"] == other.settings["epochs"] for one, other in both)  # as many steps
    (whole,), (fewer,) = parts("sequential", Ask()), parts("sequential", ask)
    assert whole.statements
    assert not fewer.statements  # the study had all samples
    assert not fewer.choices[0].published


@pytest.mark.parametrize(
    ("ask", "samples"),
    [
        (Ask(quick=True), 8192),
        (Ask(quick=True, data="digits"), 1000),
        (Ask(quick=True, data="glyphs"), 1000),
        (Ask(quick=True, samples=600), 600),
        (Ask(samples=4000), 4000),
        (Ask(data="digits"), 1437),
        (Ask(at_hand=True, have=500, target=0.9), 500),
        (Ask(at_hand=True, have=500, quick=True, target=0.9), 500),
        (Ask(at_hand=True, have=5000, samples=2500, target=0.9), 2500),
    ],
)
def test_no_batch_is_above_the_samples(ask: Ask, samples: int) -> None:
    for one in parts("batch", ask):
        batches = [choice.settings["batch"] for choice in one.choices]
        assert max(batches) <= samples and len(set(batches)) > 1
        assert one.statements


def test_batches_need_samples() -> None:
    with pytest.raises(LaminarError, match="100 training samples are too few to compare batches") as caught:
        parts("batch", Ask(samples=100))
    assert (caught.value.code, caught.value.hint) == ("L008", "--samples 128")


def test_two_workers_compare_five_optimizers_where_there_are_samples() -> None:
    _, two = parts("batch", Ask())
    assert len({one.settings["optimizer"] for one in two.choices}) == len(two.statements) == 5
    assert {one.settings["batch"] for one in two.choices} == {1024, 4096}
    assert {one.settings["workers"] for one in two.choices} == {2}
    assert all(one.rule == "within" and one.arguments["high"] == 80.0 for one in two.statements)
    assert len(parts("batch", Ask(samples=4095))) == len(parts("batch", Ask(quick=True))) == 1


def test_a_quick_one_has_fewer_choices_or_as_many() -> None:
    for name in READY:
        whole, quick = (sum(len(one.choices) for one in parts(name, Ask(quick=quick))) for quick in (False, True))
        assert quick <= whole


@pytest.mark.parametrize(("name", "data"), [("cores", "digit"), ("layers", "glyph"), ("grid", "cifar"), ("flowers", "digits")])
def test_an_unknown_data_set_is_refused(name: str, data: str) -> None:
    with pytest.raises(LaminarError, match=f"--data {data}") as caught:
        parts(name, Ask(data=data))
    assert caught.value.code == "L008"


def test_a_target_must_be_given_for_ones_own_stack() -> None:
    with pytest.raises(LaminarError, match="only you know") as caught:
        parts("strategies", Ask(at_hand=True))
    assert caught.value.code == "L008"

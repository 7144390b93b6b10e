"""Sweep files: what may be written, what every mistake says, and what an axis changes in the stack."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from laminar.core.errors import LaminarError
from laminar.experiments.axes import told
from laminar.experiments.record import Description
from laminar.experiments.spec import Sweep, VariantSpec, parse_sweep, read_sweep
from laminar.experiments.variants import apply, describe, quicker
from laminar.stack.read import StackFile, parse
from laminar.store.store import Store

STACK = """
[stack]
name = "digits"

[data.all]
source = "digits"

[data.odd]
source = "digits"
classes = [1, 3, 5, 7, 9]

[[layer]]
name = "base"
model = "laminar:mlp"
args = { hidden = [32, 16], dropout = 0.1 }
data = "all"
train = { epochs = 2, batch = 64, seed = 5 }

[[layer]]
name = "head"
from = "digits/base"
freeze = ["features"]
replace = { head = "laminar:head" }
data = "odd"
train = { epochs = 2, strategy = "downpour" }
"""

TOLD = 'name = "x"\n[axes]\nbatch = [1, 2]\n[[statement]]\ntext = "t"\nrule = "{}"\narguments = {{ {} }}'


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store.open(tmp_path / "store")


@pytest.fixture
def file(tmp_path: Path) -> StackFile:
    return parse(STACK, tmp_path / "laminar.toml")


def sweep(text: str) -> Sweep:
    return parse_sweep(text, Path("sweep.toml"))


def described(file: StackFile, store: Store, **given: Any) -> Description:
    return describe(Sweep(**({"name": "x"} | given)), file, store)


def only(file: StackFile, store: Store, layer: str, name: str, value: Any, **more: Any) -> Any:
    """The layer's spec where one axis has one value."""
    found = described(file, store, layer=layer, axes={name: [value]}, **more)
    stack = apply(file, found, found.variants[0], 0)
    return next(one for one in stack.spec.layer if one.name == layer)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("name = 3\n[axes]\nbatch=[1]", "sweep.toml:1: name: expected text, got a whole number"),
        ("[axes]\nbatch=[1]", "there is no 'name', which is needed"),
        ('name = "x"\nrepeat = 3', "unknown key 'repeat'; did you mean 'repeats'?"),
        ('name = "x"\n[budget]\nhour = 3', "sweep.toml:3: unknown key 'hour'; did you mean 'hours'?"),
        ('name = "x"\n[budget]\nhours = 0', "budget.hours: expected"),
        ('name = "x"\nrepeats = 0', "repeats: expected"),
        ('name = "x', "sweep.toml: not valid TOML"),
        ('name = "x"\nmeasures = ["acuracy"]', "there is no measure 'acuracy'; did you mean 'accuracy'?"),
        ('name = "x"\nmeasures = []', "measures is empty"),
        ('name = "x"\nmeasures = ["time_to_target"]', "there is no target"),
        ('name = "x"\ntarget = 95', "must be an accuracy"),
        ('name = "x"\n[axes]\nbatch = [1]\n[[variant]]\nsettings = { batch = 2 }', "both say what varies"),
        ('name = "x"\ntimed = true\nrepeats = 1\n[halving]\n[axes]\nbatch = [1]', "timed = true with [halving]"),
        ('name = "x"\n[halving]\n[axes]\nbatch = [1]', "repeats is 3 with [halving]"),
        ('name = "x"\nrepeats = 1\n[halving]\nmeasure = "mae"\n[axes]\nbatch = [1]', "mae, which is not known of a trial before its end"),
        ('name = "x"\nrepeats = 1\n[halving]\n[search.ranges]\nlr = { low = 0.1, high = 1.0 }', "[halving] and [search] both say"),
        ('name = "x"\nmeasures = ["loss", "accuracy", "loss"]', "measures has loss twice"),
        ('name = "x"\n[axes]\nlr = [nan]', "finite numbers"),
        ('name = "x"\n[axes]\nlr = 3', "axes"),
        ('name = "x"\n[search.ranges]\nlr = { low = 2, high = 1 }', "low must be below high"),
        ('name = "x"\n[search.ranges]', "[search.ranges] is empty"),
        ('name = "x"\n[search.ranges]\nbatch = { low = 16, high = 64, step = 0 }', "step is 0, but must be above 0 and at most 48"),
        ('name = "x"\n[search.ranges]\nbatch = { low = 16, high = 64, step = -2 }', "step is -2, but must be above 0"),
        ('name = "x"\n[search.ranges]\nbatch = { low = 16, high = 64, step = 100 }', "step is 100, but must be above 0 and at most 48"),
        ('name = "x"\n[search.ranges]\nbatch = { low = 16, high = 64, step = 0.5 }', "step is 0.5 between whole numbers"),
        ('name = "x"\n[search.ranges]\nlr = { low = 0.1, high = inf }', "high is inf, but must be finite"),
        ('name = "x"\n[search.ranges]\nlr = { choices = [0.1], step = 0.1 }', "choices are taken as they are"),
        ('name = "x"\n[search.ranges]\nlr = { low = 2 }', "either low and high, or choices"),
        (
            'name = "x"\n[[statement]]\ntext = "t"\nrule = "monoton"\n[axes]\nbatch=[1]',
            "there is no rule 'monoton'; did you mean 'monotone'?",
        ),
        (TOLD.format("monotone", 'axis = "bach"'), "'bach' does not vary; did you mean 'batch'?"),
        (TOLD.format("more_than", "variant = { bacth = 1 }"), "'bacth' does not vary; did you mean 'batch'?"),
        (
            TOLD.format("more_than", "variant = { batch = 2 }, than = { batch = 99 }"),
            "than has batch = 99, which is none of the values [1, 2]",
        ),
        (
            'name = "x"\n[[variant]]\nsettings = { batch = 1, lr = 0.1 }\n[[variant]]\nsettings = { batch = 2, lr = 0.2 }\n'
            '[[statement]]\ntext = "t"\nrule = "more_than"\narguments = { variant = { batch = 1, lr = 0.2 } }',
            "no variant has {'batch': 1, 'lr': 0.2}",
        ),
    ],
)
def test_mistakes_are_named(text: str, said: str) -> None:
    with pytest.raises(LaminarError) as caught:
        sweep(text)
    assert caught.value.code == "L016"
    assert said in caught.value.message
    assert caught.value.hint


@pytest.mark.parametrize("content", [None, b"\xff\xfe", "folder"])
def test_files_that_cannot_be_read(tmp_path: Path, content: Any) -> None:
    path = tmp_path / "sweep.toml"
    if content == "folder":
        path.mkdir()
    elif content is not None:
        path.write_bytes(content)
    with pytest.raises(LaminarError) as caught:
        read_sweep(path)
    assert caught.value.code == "L016"


@pytest.mark.parametrize(
    ("layer", "name", "value", "path"),
    [
        ("base", "batch", 8, "train.batch"),
        ("base", "learning rate", 0.5, "train.lr"),
        ("base", "train.lr", 0.5, "train.lr"),
        ("base", "layer.base.train.lr", 0.5, "train.lr"),
        ("base", "dropout", 0.5, "args.dropout"),
        ("base", "args.activation", "gelu", "args.activation"),
        ("head", "optimizer", "sgd", "train.optimizer"),
    ],
)
def test_what_an_axis_sets(file: StackFile, store: Store, layer: str, name: str, value: Any, path: str) -> None:
    found: Any = msgspec.to_builtins(only(file, store, layer, name, value))
    for step in path.split("."):
        found = found[step]
    assert found == value


def test_width_and_depth(file: StackFile, store: Store) -> None:
    assert only(file, store, "base", "neurons", 8).args["hidden"] == [8, 8]
    assert only(file, store, "base", "depth", 4).args["hidden"] == [32, 16, 16, 16]
    assert only(file, store, "base", "hidden_layers", 1).args["hidden"] == [32]
    assert only(file, store, "base", "depth", 0).args["hidden"] == []
    assert only(file, store, "head", "neurons", 8).replacements()["head"].args == {"hidden": [8]}
    both = described(file, store, layer="base", axes={"neurons": [8], "depth": [3]})
    assert apply(file, both, both.variants[0], 0).spec.layer[0].args["hidden"] == [8, 8, 8]


def test_workers_and_strategies(file: StackFile, store: Store) -> None:
    assert only(file, store, "base", "workers", 1).train.strategy == "solo"
    two = only(file, store, "base", "workers", 2).train.strategy
    assert (two.kind, two.workers) == ("sync", 2)
    written = only(file, store, "head", "workers", 1).train.strategy  # one worker of a strategy that is written is still of it
    assert (written.kind, written.workers) == ("downpour", 1)
    found = described(file, store, layer="base", axes={"workers": [3], "strategy": [{"kind": "quorum"}], "compress": ["fp16"]})
    chosen: Any = apply(file, found, found.variants[0], 0).spec.layer[0].train.strategy
    assert (chosen.kind, chosen.workers, chosen.compress) == ("quorum", 3, "fp16")


def test_data_and_layers_below(file: StackFile, store: Store) -> None:
    found = described(file, store, axes={"samples": [100], "layer.base.train.epochs": [1], "data.all.limit": [50]})
    stack = apply(file, found, found.variants[0], 0)
    assert (stack.spec.data["odd"].limit, stack.spec.data["all"].limit, stack.spec.layer[0].train.epochs) == (100, 50, 1)
    assert file.spec.layer[0].train.epochs == 2  # the user's own stays as it is
    assert file.raw["layer"][0]["train"]["epochs"] == 2


def test_repeats_have_seeds_of_their_own(file: StackFile, store: Store) -> None:
    found = described(file, store, layer="base", axes={"batch": [8]})
    seeds = [apply(file, found, found.variants[0], repeat).spec.layer[0].train.seed for repeat in range(3)]
    assert seeds == [5, 6, 7]
    warm = apply(file, found, found.variants[0], 0, warm_up=True).spec.layer[0].train
    assert (warm.seed, warm.epochs) == (8, 1)
    by_seed = described(file, store, layer="base", axes={"seed": [0, 1, 2]})
    every = [apply(file, by_seed, one, repeat).spec.layer[0].train.seed for one in by_seed.variants for repeat in range(3)]
    assert len(set(every)) == 9


@pytest.mark.parametrize(
    ("axes", "code", "said"),
    [
        ({"bacth": [1]}, "L017", "unknown axis 'bacth'; did you mean 'batch'?"),
        ({"nuerons": [1]}, "L017", "did you mean 'neurons'?"),
        ({"zzz": [1]}, "L017", "known: "),
        ({"layer.hed.train.batch": [1]}, "L017", "there is no layer 'hed'; did you mean 'head'?"),
        ({"batch": [8, 16], "train.batch": [32, 64]}, "L016", "axes 'batch' and 'train.batch' both set layer.head.train.batch"),
        ({"cores": [1], "workers": [1, 2]}, "L016", "axes 'cores' and 'workers' both set layer.head.train.strategy.workers"),
        ({"neurons": [8], "replace.head.args.hidden": [[8]]}, "L016", "both set"),
        ({"strategy": ["solo", "sync"], "workers": [1, 2]}, "L016", "variant 'solo, 2 workers': solo is one process, but workers is 2"),
        ({"layer.head.train.bacth": [1]}, "L017", "did you mean 'batch'?"),
        ({"data.evn.limit": [1]}, "L017", "there is no data set 'evn'"),
        ({"data.odd.limt": [1]}, "L017", "did you mean 'limit'?"),
        ({"data": [1]}, "L017", "unknown axis"),
        ({"batch": []}, "L019", "has no values"),
        ({"batch": [8, 8]}, "L016", "twice"),
        ({"batch": list(range(1, 102)), "epochs": list(range(1, 101))}, "L019", "30,300 trials"),
        ({"batch": ["many"]}, "L004", "variant 'batch many'"),
        ({"batch": [0]}, "L004", "must be 1 or more"),
        ({"depth": ["deep"]}, "L016", "depth is 'deep'"),
        ({"momentum": [0.9]}, "L004", 'belongs to "sgd"'),
    ],
)
def test_axes_that_cannot_be(file: StackFile, store: Store, axes: dict[str, list[Any]], code: str, said: str) -> None:
    with pytest.raises(LaminarError) as caught:
        described(file, store, axes=axes)
    assert said in caught.value.message
    assert caught.value.code == code
    assert caught.value.hint


def test_what_varies_is_not_set_for_all(file: StackFile, store: Store) -> None:
    with pytest.raises(LaminarError, match="set and axes both say 'learning_rate'"):
        described(file, store, axes={"learning_rate": [0.1, 0.2]}, set={"lr": 0.5})
    one = VariantSpec(settings={"lr": 0.1})
    assert described(file, store, variant=[one, VariantSpec(settings={"batch": 8})], set={"lr": 0.5}).variants  # the first says it itself


def test_single_variants_may_name_a_setting_in_two_ways(file: StackFile, store: Store) -> None:
    apart = [VariantSpec(settings={"cores": 1}), VariantSpec(settings={"workers": 2})]
    assert len(described(file, store, variant=apart).variants) == 2
    with pytest.raises(LaminarError, match="both set"):
        described(file, store, variant=[VariantSpec(settings={"cores": 1, "workers": 2})])


def test_without_axes_the_stack_is_tried_as_it_stands(file: StackFile, store: Store) -> None:
    (one,) = described(file, store).variants
    assert (one.settings, one.label) == ({}, "as it stands")


def test_the_benchmark(file: StackFile, store: Store) -> None:
    found = described(file, store, axes={"batch": [8, 16], "lr": [0.1, 0.2]}, benchmark={"lr": 0.2})
    assert next(one for one in found.variants if one.id == found.benchmark).settings == {"batch": 8, "lr": 0.2}
    for benchmark, said in (({"lr": 0.3}, "none of the values"), ({"rate": 0.2}, "none of the axes")):
        with pytest.raises(LaminarError, match=said):
            described(file, store, axes={"lr": [0.1, 0.2]}, benchmark=benchmark)


def test_what_learns_something_else_has_other_inputs(file: StackFile, store: Store, tmp_path: Path) -> None:
    first = described(file, store, axes={"batch": [8, 16]})
    assert first.inputs == described(file, store, axes={"batch": [8, 16]}).inputs
    assert len(set(first.inputs.values())) == 2
    edited = parse(STACK.replace("dropout = 0.1", "dropout = 0.2"), tmp_path / "laminar.toml")
    assert described(edited, store, axes={"batch": [8, 16]}).inputs != first.inputs  # the layer below is an input too


def test_quick_is_smaller_and_says_so(file: StackFile) -> None:
    small, stack, notes = quicker(Sweep(name="x", axes={"batch": [8]}, repeats=7), file)
    assert (small.name, small.repeats, small.warm_ups) == ("x-quick", 4, 0)
    assert small.budget.hours is not None
    assert small.budget.hours * 3600 <= 60
    assert {one.limit for one in stack.spec.data.values()} == {1000}
    assert len(notes) == 3
    assert notes[-1].startswith("4 repeats instead of 7, ")
    _, _, notes = quicker(Sweep(name="x", axes={"batch": [8]}, repeats=1), file)
    assert notes[-1].startswith("no warm-up")


def test_values_in_words() -> None:
    assert told("workers", 1) == "1 worker"
    assert told("cores", 4) == "4 workers"
    assert told("samples", 10_000) == "10,000 samples"
    assert told("layer.head.train.lr", 0.01) == "head.lr 0.01"
    assert told("lr", 0.004430375245218269) == "lr 0.00443038"
    assert told("lr", 0.00012345) == "lr 0.00012345"
    assert told("strategy", {"kind": "downpour", "workers": 6}) == "downpour(workers=6)"
    assert told("nesterov", True) == "nesterov true"
    assert told("hidden", [8, 8]) == "hidden [8, 8]"


@pytest.mark.parametrize("path", sorted((Path(__file__).parents[3] / "examples").glob("*/sweep.toml")), ids=lambda path: path.parent.name)
def test_example_sweeps_fit_their_stacks(path: Path, store: Store) -> None:
    from laminar.stack.read import read

    found = describe(read_sweep(path), read(path.with_name("laminar.toml")), store)
    assert len(found.variants) > 1


# Batches above the samples


def test_a_batch_above_the_samples_is_named_and_no_training_has_two_rows(file: StackFile, store: Store) -> None:
    """The digits have 1,438 training samples, or 100 with a limit."""
    axes: dict[str, list[object]] = {"batch": [64, 2048, 8192], "lr": [0.1, 0.2]}
    found = described(file, store, layer="base", axes=axes, benchmark={"batch": 8192})
    assert [one.label for one in found.variants] == ["batch 64, lr 0.1", "batch 64, lr 0.2", "batch 2048, lr 0.1", "batch 2048, lr 0.2"]
    assert found.benchmark == found.variants[2].id
    assert found.notes[:2] == (
        "batch 2,048 is above the 1,438 training samples of data.all: each step takes all of them",
        "batch 8,192 is above the 1,438 training samples of data.all: each step takes all of them",
    )
    assert found.notes[2] == "batch 8192, lr 0.1: the same training as batch 2048, lr 0.1, so it is no row of its own"
    limited = described(file, store, layer="base", axes={"batch": [64, 256], "samples": [100, 1000]})
    assert len(limited.variants) == 4  # of 100 samples, a batch of 256 has 100, and one of 64 has not
    assert [one for one in limited.notes if "above" in one] == [
        "batch 256 is above the 100 training samples of data.all: each step takes all of them"
    ]


def test_rates_that_are_scaled_by_the_batch_make_another_training(file: StackFile, store: Store) -> None:
    found = described(file, store, layer="base", axes={"batch": [2048, 8192]}, set={"scale_lr": "sqrt", "base_batch": 64})
    assert len(found.variants) == 2

"""Recipes: what may be written, what is refused with which words, and what of it is in a layer's key."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from laminar.core import digest
from laminar.train.compression import Dgc
from laminar.train.recipe import Recipe, Target
from laminar.train.schedules import Constant, Cosine, OneCycle, Step
from laminar.train.strategies import Averaging, Downpour


def read(**fields: Any) -> Recipe:
    return msgspec.convert({"epochs": 3, **fields}, Recipe)


def key(**fields: Any) -> str:
    return digest.of_json(read(**fields).key_fields())


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"epochs": 0}, "epochs is 0, but must be 1 or more"),
        ({"batch": 0}, "batch is 0, but must be 1 or more"),
        ({"batch": "32"}, r"Expected `int`, got `str` - at `\$.batch`"),
        ({"lr": -0.1}, "lr is -0.1, but must be a number above 0"),
        ({"lr": float("nan")}, "lr is nan"),
        ({"lr": float("inf")}, "lr is inf"),
        ({"momentum": 0.9}, 'momentum is given with optimizer = "adam", but it belongs to "sgd"'),
        ({"optimizer": "sgd", "betas": [0.9, 0.99]}, 'betas is given with optimizer = "sgd", but it belongs to "adam" and "adamw"'),
        ({"optimizer": "sgd", "eps": 1e-8}, "eps is given"),
        ({"optimizer": "sgd", "momentum": 1.0}, "momentum is 1.0, but must be 0 or more and below 1"),
        ({"optimizer": "sgd", "nesterov": True}, "nesterov = true needs momentum"),
        ({"betas": [0.9, 1.0]}, r"betas is \[0.9, 1.0\]"),
        ({"optimizer": "adm"}, "adm.*optimizer"),
        ({"trust": 0.01}, 'trust is given with optimizer = "adam", but it belongs to "lars"'),
        ({"optimizer": "lars", "trust": 0}, "trust is 0"),
        ({"optimizer": "lars", "betas": [0.9, 0.99]}, "betas is given"),
        ({"accumulate": 0}, "accumulate is 0, but must be 1 or more"),
        ({"scale_lr": "linear"}, 'scale_lr = "linear" needs base_batch'),
        ({"base_batch": 32}, "base_batch is 32, but nothing is scaled by it"),
        ({"scale_lr": "sqrt", "base_batch": 0}, "base_batch is 0"),
        ({"scale_lr": "cubic", "base_batch": 32}, "cubic.*scale_lr"),
        (
            {"lr": 1e308, "scale_lr": "linear", "base_batch": 1},
            "lr is 1e[+]308 for base_batch = 1, .* 64 samples is inf, but must be a number above 0",
        ),
        ({"lr": 1e-323, "scale_lr": "linear", "base_batch": 64000}, "64 samples is 0.0, but must be a number above 0"),
        ({"weight_decay": -1}, "weight_decay is -1"),
        ({"clip": 0}, "clip is 0"),
        ({"warmup": -1}, "warmup is -1"),
        ({"warmup": 1.5}, "warmup is 1.5, but a share"),
        ({"warmup": 3, "schedule": "one-cycle"}, 'warmup is 3 with schedule "one-cycle"'),
        ({"schedule": "cosin"}, "cosin.*schedule"),
        ({"schedule": {"kind": "step"}}, "every"),
        ({"schedule": {"kind": "step", "every": 0}}, "schedule.every is 0"),
        ({"schedule": {"kind": "step", "every": 1, "gamma": 2}}, "schedule.gamma is 2"),
        ({"schedule": {"kind": "cosine", "flor": 0.1}}, "unknown field `flor`"),
        ({"schedule": {"kind": "cosine", "floor": 1.0}}, "schedule.floor is 1.0"),
        ({"schedule": {"kind": "one-cycle", "rise": 0}}, "schedule.rise is 0"),
        ({"schedule": {"kind": "one-cycle", "end_div": 0.5}}, "schedule.end_div is 0.5"),
        ({"schedule": {"kind": "one-cycle", "start_div": float("inf")}}, "schedule.start_div is inf, .* a number of 1 or more"),
        ({"schedule": {"kind": "one-cycle", "end_div": float("nan")}}, "schedule.end_div is nan"),
        ({"loss": "mae"}, "mae.*loss"),
        ({"loss": "mse", "label_smoothing": 0.1}, "label_smoothing is 0.1"),
        ({"label_smoothing": 1.0}, "label_smoothing is 1.0"),
        ({"target": {}}, "target is empty"),
        ({"target": {"accuracy": 95}}, "target.accuracy is 95"),
        ({"target": {"loss": -1}}, "target.loss is -1"),
        ({"target": {"loss": float("inf")}}, "target.loss is inf, but must be a number of 0 or more"),
        ({"target": {"mae": float("nan")}}, "target.mae is nan"),
        ({"target": {"r2": float("-inf")}}, "target.r2 is -inf, but must be a number"),
        ({"target": {"f1": 0.9}}, "unknown field `f1`"),
        ({"patience": 0}, "patience is 0"),
        ({"dtype": "float8"}, "float8.*dtype"),
        ({"threads": 0}, "threads is 0"),
        ({"checkpoint_seconds": -1}, "checkpoint_seconds is -1"),
        ({"checkpoint_steps": 0}, "checkpoint_steps is 0, but must be 1 or more"),
        ({"checkpoint_write_seconds": -1}, "checkpoint_write_seconds is -1"),
        ({"target": {"change": 1.5}}, "target.change is 1.5, but must be a share of the weights' size"),
        ({"checkpoint_steps": 500, "strategy": "downpour"}, 'checkpoint_steps is given with strategy "downpour", whose server'),
        ({"checkpoint_write_seconds": 1, "strategy": {"kind": "averaging", "every": 8}}, 'given with strategy "averaging"'),
        ({"target": {"change": 0.1}, "strategy": {"kind": "grid"}}, 'target.change is given with strategy "grid", which has rounds'),
        ({"keep_features": "maybe"}, "maybe.*keep_features"),
        ({"epoch": 3}, "unknown field `epoch`"),
    ],
)
def test_a_wrong_value_names_its_field(fields: dict[str, Any], words: str) -> None:
    with pytest.raises(msgspec.ValidationError, match=words):
        read(**fields)


def test_the_same_checks_hold_in_python() -> None:
    with pytest.raises(ValueError, match="batch is 0"):
        Recipe(epochs=1, batch=0)
    with pytest.raises(msgspec.ValidationError, match="missing required field `epochs`"):
        msgspec.convert({}, Recipe)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({}, {"batch": 64, "optimizer": "adam", "lr": 1e-3, "seed": 0, "dtype": "float32"}),
        ({"lr": 0.001}, {"lr": 1e-3}),
        ({"optimizer": "sgd", "lr": 1}, {"optimizer": "sgd", "lr": 1.0}),
        ({"optimizer": "sgd"}, {"optimizer": "sgd", "momentum": 0, "nesterov": False, "weight_decay": 0}),
        ({}, {"betas": [0.9, 0.999], "eps": 1e-8, "weight_decay": 0}),
        ({"optimizer": "adamw"}, {"optimizer": "adamw", "weight_decay": 0.01}),
        ({"optimizer": "adagrad"}, {"optimizer": "adagrad", "eps": 1e-10, "lr": 0.01}),
        ({"optimizer": "lars"}, {"optimizer": "lars", "momentum": 0.9, "weight_decay": 1e-4, "trust": 0.001, "lr": 1}),
        ({"optimizer": "lamb"}, {"optimizer": "lamb", "betas": [0.9, 0.999], "eps": 1e-6, "weight_decay": 0.01, "lr": 0.003}),
        ({}, {"accumulate": 1, "scale_lr": "none"}),
        ({"lr": 0.4, "batch": 64}, {"lr": 0.1, "batch": 64, "scale_lr": "linear", "base_batch": 16}),
        ({"lr": 0.2, "batch": 64}, {"lr": 0.1, "batch": 64, "scale_lr": "sqrt", "base_batch": 16}),
        ({"lr": 0.8, "batch": 64, "accumulate": 2}, {"lr": 0.1, "accumulate": 2, "scale_lr": "linear", "base_batch": 16}),
        ({}, {"schedule": "constant"}),
        ({}, {"schedule": {"kind": "constant"}, "warmup": 0}),
        ({"warmup": 0}, {"warmup": 0.0}),
        ({"schedule": "step"}, {"schedule": {"kind": "step", "every": 1, "gamma": 0.1}}),
        ({"schedule": "cosine"}, {"schedule": {"kind": "cosine", "floor": 0}}),
        ({"schedule": "one-cycle"}, {"schedule": {"kind": "one-cycle", "rise": 0.3, "start_div": 25, "end_div": 10000}}),
        ({}, {"loss": "cross-entropy"}),  # for classes; for regression it is refused
        ({}, {"loss": "mse"}),  # for regression; for classes it is refused
        ({}, {"label_smoothing": 0}),
        ({"clip": 1}, {"clip": 1.0}),
        ({"target": {"accuracy": 1}}, {"target": {"accuracy": 1.0}}),
        ({}, {"threads": 4, "checkpoint_seconds": 1.0, "keep_features": "never"}),
        ({}, {"checkpoint_steps": 500, "checkpoint_write_seconds": 20}),
    ],
)
def test_what_means_the_same_has_the_same_key(one: dict[str, Any], other: dict[str, Any]) -> None:
    assert key(**one) == key(**other)


CHANGES: list[dict[str, Any]] = [
    {"target": {"change": 0.01}},
    {"epochs": 4},
    {"batch": 32},
    {"optimizer": "adamw"},
    {"optimizer": "adamw", "weight_decay": 0.02},
    {"optimizer": "sgd"},
    {"optimizer": "sgd", "momentum": 0.9},
    {"optimizer": "sgd", "momentum": 0.9, "nesterov": True},
    {"optimizer": "isgd"},
    {"optimizer": "isgd", "deviations": 2.0},
    {"optimizer": "isgd", "repeats": 2},
    {"optimizer": "isgd", "caution": 0.0},
    {"optimizer": "lars"},
    {"optimizer": "lars", "momentum": 0.0},
    {"optimizer": "lars", "trust": 0.01},
    {"optimizer": "lamb"},
    {"accumulate": 2},
    {"scale_lr": "linear", "base_batch": 16},
    {"lr": 0.002},
    {"weight_decay": 0.1},
    {"betas": [0.9, 0.99]},
    {"eps": 1e-7},
    {"schedule": "cosine"},
    {"schedule": {"kind": "cosine", "floor": 0.1}},
    {"schedule": "step"},
    {"schedule": {"kind": "step", "every": 2}},
    {"schedule": "one-cycle"},
    {"warmup": 10},
    {"warmup": 0.1},
    {"clip": 1.0},
    {"loss": "l1"},
    {"loss": "huber"},
    {"label_smoothing": 0.1},
    {"target": {"accuracy": 0.9}},
    {"target": {"loss": 0.9}},
    {"patience": 2},
    {"seed": 1},
    {"dtype": "float64"},
]


def test_what_changes_the_result_changes_the_key() -> None:
    keys = [key(**fields) for fields in [{}, *CHANGES]]
    assert len(set(keys)) == len(keys)


def test_the_key_of_a_plain_recipe_is_golden() -> None:
    """Changing this trains everybody's layers again. It needs a new key format, and an entry in the changelog."""
    assert digest.canonical(Recipe(epochs=5, lr=0.001).key_fields()) == (
        b'{"batch":64,"clip":null,"dtype":"float32","epochs":5,"label_smoothing":0.0,"loss":null,"optimizer":{"betas":[0.9,0.999],'
        b'"eps":1e-08,"kind":"adam","lr":0.001,"weight_decay":0.0},"patience":null,"schedule":{"kind":"constant"},"seed":0,'
        b'"target":null,"warmup":0}'
    )


@settings(derandomize=True, max_examples=50, deadline=None)
@given(fields=st.sampled_from(CHANGES), extra=st.fixed_dictionaries({"seed": st.integers(), "lr": st.floats(1e-9, 1e3)}))
def test_a_recipe_survives_json(fields: dict[str, Any], extra: dict[str, Any]) -> None:
    recipe = read(**{**fields, **extra})
    again = msgspec.convert(msgspec.json.decode(msgspec.json.encode(recipe)), Recipe)
    assert again == recipe
    assert again.key_fields() == recipe.key_fields()


def test_plans() -> None:
    assert read(schedule="step", epochs=9).plan == Step(every=3)
    assert read(schedule="step", epochs=2).plan == Step(every=1)
    assert (read().plan, read(schedule="cosine").plan, read(schedule="one-cycle").plan) == (Constant(), Cosine(), OneCycle())


@pytest.mark.parametrize(
    ("target", "metrics", "reached"),
    [
        (Target(accuracy=0.9), {"accuracy": 0.9, "loss": 3.0}, True),
        (Target(accuracy=0.9), {"accuracy": 0.89, "loss": 0.0}, False),
        (Target(loss=0.1), {"accuracy": 0.0, "loss": 0.1}, True),
        (Target(accuracy=0.9, loss=0.1), {"accuracy": 0.95, "loss": 0.2}, False),
        (Target(r2=0.8), {"loss": 1.0, "mae": 1.0, "r2": 0.81}, True),
        (Target(mae=0.5), {"loss": 1.0, "mae": 0.6, "r2": 0.9}, False),
    ],
)
def test_targets(target: Target, metrics: dict[str, float], reached: bool) -> None:
    assert target.reached(metrics) is reached


def test_a_recipe_needs_no_torch() -> None:
    program = "import sys, laminar.train.recipe; sys.exit('torch' in sys.modules or 'numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


def test_what_downpour_had_no_choice_about_before_is_not_in_its_key() -> None:
    before = {"ageing", "compress", "kind", "max_staleness", "n_fetch", "n_push", "overlap", "warm_start", "workers"}
    assert Downpour().key_fields().keys() == before
    assert Downpour(push="steps", smooth=100).key_fields().keys() == before | {"push", "smooth"}


@pytest.mark.parametrize("how", [Averaging(workers=2, compress=Dgc(clip=1.5)), Downpour(workers=2, push="steps", compress=Dgc(clip=1.5))])
def test_a_limit_for_gradients_is_none_for_how_far_workers_went(how: Averaging | Downpour) -> None:
    with pytest.raises(ValueError, match=rf'compress\.clip is 1\.5 with strategy "{how.kind}".*set clip = 1\.5 in train'):
        Recipe(epochs=1, optimizer="sgd", strategy=how)
    Recipe(epochs=1, optimizer="sgd", strategy=Downpour(workers=2, compress=Dgc(clip=1.5)))

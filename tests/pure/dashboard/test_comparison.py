"""Layers side by side, from the store alone: recipes, modules, curves, and what can be chosen."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import numpy as np
import pytest

from laminar.core.errors import LaminarError
from laminar.dashboard.comparison import Comparison, choices, curve, layers
from laminar.dashboard.comparison import compare as compare_by
from laminar.dashboard.history import Histories
from laminar.dashboard.module_changes import modules
from laminar.dashboard.runs import RunList
from laminar.stack.diff import diff
from laminar.store.manifest import encode
from laminar.store.runs import begin, finish
from laminar.store.store import Store
from laminar.testing.remote_contract import sample_layer


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store.open(tmp_path / "s")


def compare(store: Store, asked: list[str]) -> Comparison:
    histories = Histories()
    return compare_by(store, asked, None, lambda path: histories.look(path, lambda history: curve(history.others)))


def test_what_refs_point_at_comes_first_then_tags_then_history(store: Store) -> None:
    old, new = sample_layer(store, seed=1), sample_layer(store, seed=2)
    store.refs.tag("digits:v1", old.id)
    found = choices(store)
    assert [(one.what, one.id) for one in found] == [("now", new.id), ("tag", old.id), ("before", old.id)]
    again = compare(store, [found[0].ref, found[2].ref])
    assert [item.id for item in again.items] == [new.id, old.id], "what is offered can be asked for"


def test_settings_that_differ_come_first_and_a_layer_without_a_record_has_none(store: Store) -> None:
    first, second = sample_layer(store, seed=1), sample_layer(store, seed=2)
    found = compare(store, [first.id, second.id])
    assert [row.same for row in found.recipe] == sorted(row.same for row in found.recipe)
    assert [(row.field, row.values, row.same) for row in found.metrics] == [("loss", [0.5, 0.5], True)]
    store.layout.key(second.key).unlink()
    alone = compare(store, [first.id, second.id])
    assert all(not row.same and row.values[1] is None for row in alone.recipe)


def test_fewer_than_two_too_many_and_strangers_are_refused(store: Store) -> None:
    layers = [sample_layer(store, seed=seed).id for seed in range(8)]
    for asked in ([], layers[:1], [layers[0], layers[0][:12]], layers):
        with pytest.raises(LaminarError, match="can be compared"):
            compare(store, asked)
    with pytest.raises(LaminarError) as caught:
        compare(store, [layers[0], "nobody"])
    assert caught.value.code == "L006"


def test_a_run_stands_for_the_layer_that_it_has_made(store: Store) -> None:
    first, second = sample_layer(store, seed=1), sample_layer(store, seed=2)
    done = store.record(second.key)
    assert done is not None
    begin(store, done.run)
    finish(store, done)
    assert [item.id for item in compare(store, [first.id, done.run]).items] == [first.id, second.id]
    for odd in ("nobody", "../layers", "..", "runs/x", done.run + "/.."):
        with pytest.raises(LaminarError) as caught:
            compare(store, [first.id, odd])
        assert caught.value.code == "L006"


def test_a_run_that_has_made_no_layer_is_compared_by_what_it_has_told(store: Store) -> None:
    layer = sample_layer(store)
    told = {"stack": "digits", "layer": "head", "key": "k", "parent": layer.id, "strategy": "sync"}
    told["spec"] = {"name": "head", "data": "all", "freeze": ["features"], "train": {"lr": 0.5}}
    events = [
        {"event": "start", "t": 10.0, "step": 0, "steps": 40, "epochs": 4},
        {"event": "epoch", "epoch": 0, "t": 12.0, "test": {"loss": 2.0, "accuracy": 0.5}},
        {"event": "epoch", "epoch": 1, "t": 14.0, "test": {"loss": 1.0, "accuracy": 0.75}},
        {"event": "checkpoint", "step": 20, "epoch": 2, "why": "interrupted", "t": 15.0},
    ]
    for name, lines in (("interrupted", events), ("live", events[:3])):
        folder = begin(store, name)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "run.json").write_text(json.dumps(told))
        (folder / "events.jsonl").write_text("".join(json.dumps(event) + "\n" for event in lines))
    with store.lease(runs=["live"]):
        offered = {one.ref: (one.what, one.layer) for one in choices(store, RunList().all(store)) if one.id is None}
        assert offered == {"live": ("live", "digits/head"), "interrupted": ("interrupted", "digits/head")}
        found = compare(store, ["interrupted", layer.id, "live"])
    assert [(item.state, item.id, item.data, item.parent) for item in found.items] == [
        ("interrupted", None, "all", layer.id),
        ("layer", layer.id, None, None),
        ("live", None, "all", layer.id),
    ]
    assert found.items[0].epochs == (2, 4) and found.items[0].frozen == ["features"]
    recipe = {row.field: (row.values, row.same) for row in found.recipe}
    assert recipe["train.lr"] == ([0.5, None, 0.5], False)
    assert {row.field: row.values for row in found.metrics} == {"loss": [1.0, 0.5, 1.0], "accuracy": [0.75, None, 0.75]}
    assert found.curves[0].figures == {"loss": [2.0, 1.0], "accuracy": [0.5, 0.75]} and found.curves[1].epochs == []
    with pytest.raises(LaminarError, match="it takes two layers") as caught:
        layers(store, ["interrupted", layer.id], None)
    assert caught.value.code == "L008"


def test_a_stranger_s_run_is_no_path(store: Store) -> None:
    """A layer that names one is not read, and no history is looked for where it points."""
    first, second = sample_layer(store, seed=1), sample_layer(store, seed=2)
    (store.root.parent / "elsewhere").mkdir()
    (store.root.parent / "elsewhere" / "events.jsonl").write_text('{"event": "epoch", "epoch": 0, "t": 1.0, "test": {"loss": 1.0}}\n')
    hostile = msgspec.structs.replace(second, run="../../elsewhere")
    with pytest.raises(LaminarError, match=r"at `\$.run`"):
        store.write_layer(hostile)
    store.layout.layer(second.id).write_bytes(encode(hostile))
    with pytest.raises(LaminarError) as caught:
        compare(store, [first.id, second.id])
    assert caught.value.code == "L303"


def test_modules_are_taken_as_one_vector(store: Store) -> None:
    def layer(weight: list[float], bias: list[float], more: str) -> str:
        tensors = {"net.0.weight": weight, "net.0.bias": bias, "net.1.weight": [1.0, 2.0], more: [1.0]}
        return sample_layer(store, tensors={name: np.array(values, np.float32) for name, values in tensors.items()}).id

    first, second = layer([3.0, 0.0], [4.0], "old"), layer([0.0, 3.0], [4.0], "head.weight")
    found = {one.name: one for one in modules(diff(store, first, second), store.layer(first), store.layer(second))}
    assert found["net.1"].state == "equal" and found["net.1"].moved is None
    assert (found["head"].state, found["(model)"].state) == ("added", "removed")
    changed = found["net.0"]
    assert changed.tensors == 1 and changed.elements == 3 and changed.norms == (3.0, 3.0)
    assert changed.cosine == 0.0 and changed.moved == pytest.approx(np.sqrt(18) / 3)


def test_a_module_of_two_tensors_agrees_with_the_long_way(store: Store) -> None:
    rng = np.random.default_rng(0)
    a, b = ({name: rng.standard_normal(50).astype(np.float32) for name in ("m.x", "m.y")} for _ in range(2))
    first, second = sample_layer(store, tensors=a), sample_layer(store, tensors=b)
    (found,) = modules(diff(store, first.id, second.id), first, second)
    x, y = (np.concatenate([one["m.x"], one["m.y"]]).astype(np.float64) for one in (a, b))
    assert found.cosine == pytest.approx(x @ y / np.linalg.norm(x) / np.linalg.norm(y))
    assert found.moved == pytest.approx(np.linalg.norm(y - x) / np.linalg.norm(x))


def test_a_curve_passes_over_what_is_damaged() -> None:
    events = [
        {"event": "start", "t": 10.0},
        {"event": "epoch", "epoch": 0, "t": 12.0, "test": {"loss": 2.0, "accuracy": 0.5}},
        {"event": "epoch", "epoch": "?", "t": 13.0, "test": {"loss": 2.0}},
        {"event": "epoch", "epoch": 1, "t": 13.0, "test": None},
        {"event": "epoch", "epoch": 10**400, "t": 13.0, "test": {"loss": 2.0}},
        {"event": "epoch", "epoch": 1, "t": 14.0, "test": {"loss": float("nan"), "accuracy": 10**400}},
    ]
    found = curve(events)
    assert (found.epochs, found.seconds) == ([1, 2], [2.0, 4.0])
    assert found.figures == {"loss": [2.0, None], "accuracy": [0.5, None]} and found.last == {}
    assert curve([]).epochs == []

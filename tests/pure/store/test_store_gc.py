"""Gc: deletes rubbish, and nothing else."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from laminar.core.clock import FakeClock
from laminar.core.errors import LaminarError
from laminar.store.gc import plan_gc, sweep
from laminar.store.locks import Needs
from laminar.store.objects import GRACE
from laminar.store.reflog import Entry, State
from laminar.store.retention import DAY, FeatureItem, Item, LayerItem, Listing, RunItem, decide
from laminar.store.runs import finish
from laminar.store.store import Store
from laminar.store.verify import verify
from laminar.testing.remote_contract import sample_layer


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store.open(tmp_path / "s")


def later(seconds: float = 2 * GRACE) -> FakeClock:
    import time

    return FakeClock(time.time() + seconds)


def collect(store: Store, *, keep: int | None = None, feature_budget: int = 1 << 40, after: float = 2 * GRACE) -> set[str]:
    """Run gc after a while; the ids of layers that are left."""
    clock = later(after)
    plan = plan_gc(store, keep=keep, feature_budget=feature_budget, clock=clock)
    done = sweep(store, plan, clock=clock)
    assert done.layers == plan.layers
    assert verify(store) == []
    return set(store.layers())


def test_named_layers_stay_and_the_rest_goes(store: Store) -> None:
    named, rolled, nameless, tagged = (sample_layer(store, seed=i, ref=i < 2) for i in range(4))
    store.refs.tag("t:1", tagged.id)
    store.refs.back("digits/head")
    assert collect(store) == {named.id, rolled.id, tagged.id}
    assert store.record(nameless.key) is None
    assert not store.objects.path(nameless.tensors["w"].digest).exists()
    for layer in (named, rolled, tagged):
        assert store.complete(layer.id)
    assert plan_gc(store, clock=later()).empty


def test_young_things_stay(store: Store) -> None:
    layer = sample_layer(store, ref=False)
    store.objects.put(b"not committed yet")
    assert collect(store, after=GRACE / 2) == {layer.id}
    assert collect(store) == set()
    assert list(store.objects.names()) == []


def test_without_grace_young_rubbish_goes_unless_someone_works(store: Store) -> None:
    layer = sample_layer(store, ref=False)
    with store.lease():  # a build that has put objects and not yet committed
        sweep(store, plan_gc(store, grace=0.0))
        assert store.complete(layer.id)
    sweep(store, plan_gc(store, grace=0.0))
    assert store.layers() == []
    assert list(store.objects.names()) == []


def test_keep_shortens_the_history(store: Store) -> None:
    layers = [sample_layer(store, seed=i) for i in range(4)]
    assert collect(store, keep=2) == {layers[3].id, layers[2].id}
    assert store.refs.get("digits/head") == layers[3].id
    with pytest.raises(LaminarError) as caught:
        store.refs.back("digits/head", 3)
    assert caught.value.code == "L010"
    assert f"the earliest that can be gone back to is {layers[2].id[:12]}, head~1" in caught.value.message
    assert "laminar rollback head~1" in caught.value.hint
    with pytest.raises(LaminarError, match="head~1"):
        store.refs.to("digits/head", layers[0].id)
    with pytest.raises(LaminarError, match="head~1"):
        store.refs.at("digits/head", 2)
    assert store.refs.back("digits/head") == layers[2].id
    with pytest.raises(LaminarError, match="no earlier layer of digits/head is left") as caught:
        store.refs.back("digits/head")
    assert caught.value.code == "L010"
    with pytest.raises(LaminarError):
        plan_gc(store, keep=0)


def test_what_can_be_redone_stays(store: Store) -> None:
    layers = [sample_layer(store, seed=i) for i in range(3)]
    store.refs.back("digits/head", 2)
    assert collect(store, keep=1) == {layer.id for layer in layers}


def test_ancestors_and_bases_of_deltas_stay(store: Store) -> None:
    weights = np.zeros(40_000, np.float32)
    base = sample_layer(store, "base", tensors={"w": weights}, ref=False)
    weights[3] = 1
    head = sample_layer(store, tensors={"w": weights}, parent=base.id)
    assert head.tensors["w"].delta is not None
    assert collect(store) == {base.id, head.id}
    assert store.complete(head.id)


def test_a_base_of_a_delta_outlives_its_layer(store: Store) -> None:
    weights = np.zeros(40_000, np.float32)
    base = sample_layer(store, "base", tensors={"w": weights}, ref=False)
    weights[3] = 1
    head = sample_layer(store, tensors={"w": weights}, parent=base.id)
    store.layout.layer(base.id).unlink()
    store.layout.key(base.key).unlink()
    assert collect(store) == {head.id}
    assert store.get_tensors(head)["w"].data.nbytes == 160_000


def test_other_projects_keep_theirs(store: Store, tmp_path: Path) -> None:
    """dvc#7610: gc of one project deleted another's data."""
    mine, theirs = sample_layer(store, seed=1, ref=False), sample_layer(store, seed=2, ref=False)
    project = tmp_path / "theirs"
    project.mkdir()
    (project / "laminar.toml").write_text("")
    store.register_project(project, {"x/head": theirs.id})
    assert collect(store) == {theirs.id}
    assert not store.has_layer(mine.id)
    (project / "laminar.toml").unlink()
    assert collect(store) == set()
    assert store.projects() == []


def test_a_running_build_keeps_its_layers_and_its_run(store: Store) -> None:
    layer = sample_layer(store, ref=False)
    run = store.run_folder("going-on")
    (run / "checkpoint.json").write_text("{}")
    _age(run, 30 * DAY)
    with store.lease(layers=[layer.id], runs=["going-on"], features=["f"]):
        store.features_folder("f")
        clock = later()
        plan = plan_gc(store, feature_budget=0, clock=clock)
        assert (plan.layers, plan.runs, plan.features, plan.checkpoints) == ({}, {}, {}, {})
    assert set(plan_gc(store, feature_budget=0, clock=clock).layers) == {layer.id}


def test_a_build_that_starts_between_plan_and_sweep_is_safe(store: Store) -> None:
    layer = sample_layer(store, ref=False)
    clock = later()
    plan = plan_gc(store, clock=clock)
    assert set(plan.layers) == {layer.id}
    with store.lease(layers=[layer.id]):
        assert sweep(store, plan, clock=clock).layers == {}
    assert store.complete(layer.id)


def test_reusing_an_old_object_makes_it_young(store: Store) -> None:
    """A build finds its tensor in the store and relies on it before it commits."""
    layer = sample_layer(store, ref=False)
    name = layer.tensors["w"].digest
    path = store.objects.path(name)
    os.utime(path, (0, 0))
    plan = plan_gc(store, clock=later())
    assert name in plan.objects
    refs = store.put_tensors({"again": store.get_tensors(layer)["w"]}, None)
    assert refs["again"].digest == name
    import time

    sweep(store, plan, clock=FakeClock(time.time() + GRACE / 4))
    assert store.objects.has(name)


def test_a_damaged_ref_stops_gc(store: Store) -> None:
    """What cannot be read may need anything."""
    layer = sample_layer(store)
    log = store.layout.ref("digits/head").with_suffix(".log")
    data = bytearray(log.read_bytes())
    data[5] ^= 1
    log.write_bytes(data)
    with pytest.raises(LaminarError) as caught:
        plan_gc(store, clock=later())
    assert caught.value.code == "L303"
    assert store.complete(layer.id)


def test_runs_features_and_leftovers(store: Store) -> None:
    layer = sample_layer(store, run="done")
    done, killed, dead = store.run_folder("done"), store.run_folder("killed"), store.run_folder("dead")
    trial = store.run_folder("trial-0a1b2c3d4e5f")  # of a plan that was tried: nobody goes on with it
    for run, age in ((done, 2 * DAY), (killed, 2 * DAY), (dead, 20 * DAY), (trial, 2 * DAY)):
        (run / "events.jsonl").write_text("{}\n")
        (run / "checkpoint.json").write_text("{}")
        (run / "checkpoint-1.safetensors").write_text("x" * 100)
        _age(run, age)
    for name, age in (("new", 1.0), ("old", 2 * DAY)):
        folder = store.features_folder(name)
        (folder / "t0.bin").write_bytes(bytes(1000))
        (folder / "index.json").write_text("{}")
        (folder / "used").touch()
        _age(folder, age)
    half = store.features_folder("half")
    (half / "t0.bin").write_bytes(bytes(10))
    _age(half, 2 * DAY)
    for name, age in ((".x.999999999.aa.tmp", 2 * GRACE), (f".x.{os.getpid()}.aa.tmp", 2 * GRACE), (".x.999999999.bb.tmp", 1.0)):
        (store.layout.tmp / name).write_text("x")
        _age(store.layout.tmp / name, age)
    plan = plan_gc(store, feature_budget=1500)
    assert set(plan.runs) == {"dead", "trial-0a1b2c3d4e5f"}
    assert set(plan.checkpoints) == {"done/checkpoint.json", "done/checkpoint-1.safetensors"}
    assert set(plan.features) == {"old", "half"}
    assert set(plan.others) == {"tmp/.x.999999999.aa.tmp"}
    assert plan.bytes > 1000
    sweep(store, plan)
    assert (done / "events.jsonl").exists()
    assert not (done / "checkpoint.json").exists()
    assert (killed / "checkpoint.json").exists()
    assert not dead.exists()
    assert sorted(p.name for p in store.layout.features.iterdir()) == ["new"]
    assert store.complete(layer.id)


def test_the_run_of_a_build_that_led_to_an_old_layer_stays(store: Store) -> None:
    """Early cutoff: another key, the same id. The layer names the first run, the record of today's build the second."""
    import msgspec

    layer = sample_layer(store, run="first")
    record = store.record(layer.key)
    assert record is not None
    later = msgspec.structs.replace(record, key="e" * 64, run="second")
    store.commit(layer, later, "digits/head", "build")
    for done in (record, later, msgspec.structs.replace(record, run="nobodys")):
        run = store.run_folder(done.run)
        (run / "events.jsonl").write_text("{}\n")
        finish(store, done)
        _age(run, 2 * DAY)
    collect(store)
    assert sorted(path.name for path in store.layout.runs.iterdir()) == ["first", "second"]


def test_old_locks_go_but_held_ones_stay(store: Store) -> None:
    for name in ("a", "b"):
        with store.lock(name):
            pass
        _age(store.layout.locks / f"{name}.lock", 3 * DAY)
    with store.lock("a"):
        sweep(store, plan_gc(store))
        assert (store.layout.locks / "a.lock").exists()
        with pytest.raises(LaminarError), store.lock("a", timeout=0):
            pass
    assert not (store.layout.locks / "b.lock").exists()
    with store.lock("b"):
        pass


def test_the_decision_is_pure() -> None:
    """Over a listing by hand: a layer chain with a cycle, one lease, a budget."""
    layers = {
        "a": LayerItem(size=1, time=0, parent="b", objects=frozenset({"x"}), run="ra"),
        "b": LayerItem(size=1, time=0, parent="a", objects=frozenset({"y"}), run="rb"),
        "c": LayerItem(size=1, time=0, parent=None, objects=frozenset({"z"}), run="rc"),
    }
    listing = Listing(
        busy=False,
        objects={name: Item(10, 0.0) for name in "wxyz"},
        layers=layers,
        keys={"ka": ("a", "ra2"), "kc": ("c", "rc2")},
        refs=[("s/a", State(history=("a",), cursor=0), [Entry(n=1, op="build", id="a", was=None, time=0, why="")])],
        projects={},
        needs=Needs(features=("f1",)),
        runs={
            "rc": RunItem(size=5, time=0, finished=True, checkpoints={}),
            "ra": RunItem(size=5, time=0, finished=True, checkpoints={"c": 2}),
            "ra2": RunItem(size=5, time=0, finished=True, checkpoints={}),
            "rc2": RunItem(size=5, time=0, finished=True, checkpoints={}),
        },
        features={f"f{i}": FeatureItem(size=10, time=i, whole=True) for i in range(1, 5)},
        others={},
    )
    plan = decide(listing, keep=None, feature_budget=20, now=10 * DAY)
    assert plan.layers == {"c": 1}
    assert plan.keys == {"kc": 0}
    assert plan.objects == {"w": 10, "z": 10}
    assert plan.runs == {"rc": 5, "rc2": 5}
    assert plan.checkpoints == {"ra/c": 2}
    assert plan.features == {"f2": 10, "f3": 10}  # f1 is older but leased
    assert (plan.kept_layers, plan.kept_bytes, plan.bytes) == (2, 20, 53)


def _age(path: Path, seconds: float) -> None:
    import time

    then = time.time() - seconds
    for inner in [*path.rglob("*"), path] if path.is_dir() else [path]:
        os.utime(inner, (then, then))

"""Nothing is believed for its name, size or read-only bit."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from laminar.core import digest
from laminar.core.errors import LaminarError
from laminar.store.store import Store
from laminar.testing.remote_contract import sample_layer


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store.open(tmp_path / "s")


def flip(path: Path, at: int = -1) -> None:
    path.chmod(0o644)
    data = bytearray(path.read_bytes())
    data[at] ^= 0x10
    path.write_bytes(data)


def test_an_edited_object_made_read_only_does_not_load(store: Store) -> None:
    """dvc#5978: a read-only bit was taken for proof."""
    layer = sample_layer(store)
    path = store.objects.path(layer.tensors["w"].digest)
    flip(path)
    path.chmod(0o444)
    for again in (store, Store.open(store.root)):
        with pytest.raises(LaminarError, match="corrupt") as caught:
            again.get_tensors(layer)
        assert caught.value.code == "L303"
        assert not again.complete(layer.id)


def test_same_size_other_bytes_is_no_hit(store: Store) -> None:
    """wandb PR 12382: a hit was "exists and same size". Putting the right bytes again mends the object."""
    layer = sample_layer(store)
    name = layer.tensors["w"].digest
    good = store.objects.read(name)
    flip(store.objects.path(name))
    assert not store.objects.has(name)
    assert store.objects.put(good) == name
    assert store.complete(layer.id)


def test_a_replaced_file_with_old_times_is_noticed(store: Store) -> None:
    layer = sample_layer(store)
    path = store.objects.path(layer.tensors["w"].digest)
    stat = path.stat()
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.unlink()
    path.write_bytes(data)
    os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    assert not store.complete(layer.id)


def test_a_touched_but_right_object_is_hashed_once(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    layer = sample_layer(store)
    calls: list[str] = []
    real = digest.of_file
    monkeypatch.setattr(digest, "of_file", lambda path: calls.append(str(path)) or real(path))
    assert store.complete(layer.id)
    assert calls == []
    os.utime(store.objects.path(layer.tensors["w"].digest))
    assert store.complete(layer.id)
    assert len(calls) == 1
    assert Store.open(store.root).complete(layer.id)
    assert len(calls) == 1


def test_a_store_without_its_index_hashes_and_goes_on(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    layer = sample_layer(store)
    store.layout.index.unlink()
    calls: list[str] = []
    real = digest.of_file
    monkeypatch.setattr(digest, "of_file", lambda path: calls.append(str(path)) or real(path))
    assert Store.open(store.root).complete(layer.id)
    assert len(calls) == 3


@pytest.mark.parametrize("cut", [1, 71, 72, 100])
def test_a_torn_or_rotten_index_is_never_believed(store: Store, cut: int) -> None:
    layer = sample_layer(store)
    data = bytearray(store.layout.index.read_bytes())
    data[10] ^= 1
    store.layout.index.write_bytes(data[:-cut])
    again = Store.open(store.root)
    assert again.complete(layer.id)
    more = sample_layer(again, "more", seed=5)
    third = Store.open(store.root)
    assert third.complete(more.id)
    flip(third.objects.path(more.tensors["w"].digest))
    assert not third.complete(more.id)


def test_the_index_of_another_process_is_read(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    sample_layer(store)
    other = Store.open(store.root)
    assert other.complete(store.layers()[0])
    layer = sample_layer(store, "new", seed=9)
    monkeypatch.setattr(digest, "of_file", lambda path: pytest.fail(f"{path} was hashed"))
    assert other.complete(layer.id)


def test_the_index_is_rewritten_when_most_of_it_is_old(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    from laminar.store import index

    monkeypatch.setattr(index, "_SLACK", 3)
    layer = sample_layer(store)
    path = store.objects.path(layer.tensors["w"].digest)
    for second in range(20):
        os.utime(path, (second, second))
        assert Store.open(store.root).complete(layer.id)
    assert store.layout.index.stat().st_size < 15 * 72


def test_an_object_with_another_shape_than_its_layer_says(store: Store) -> None:
    """The object is right by its name, but it is not what the manifest describes."""
    import msgspec

    layer = sample_layer(store)
    ref = msgspec.structs.replace(layer.tensors["w"], shape=(128, 160))
    with pytest.raises(LaminarError, match=r"does not hold a F32\[128, 160\]") as caught:
        store.get_tensors(msgspec.structs.replace(layer, tensors={"w": ref}))
    assert caught.value.code == "L303"


def test_a_missing_object_is_named(store: Store) -> None:
    layer = sample_layer(store)
    store.objects.path(layer.tensors["w"].digest).unlink()
    assert not store.complete(layer.id)
    with pytest.raises(LaminarError, match=layer.tensors["w"].digest) as caught:
        store.get_tensors(layer)
    assert caught.value.code == "L304"


@pytest.mark.parametrize("use", ["commit", "prove", "read", "push"])
def test_an_object_that_goes_while_it_is_hashed_is_missing(store: Store, use: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Gc deletes between the first look and the reading."""
    from laminar.store.remote import Remote, push

    layer = sample_layer(store)
    record = store.record(layer.key)
    assert record is not None
    name = layer.tensors["w"].digest
    hash_file = digest.of_file

    def gone(path: Path) -> str:
        path.unlink()
        return hash_file(path)

    monkeypatch.setattr(digest, "of_file", gone)
    if use != "push":
        os.utime(store.objects.path(name))  # not as it was proved: it is hashed again
    with pytest.raises(LaminarError) as caught, Remote.at(str(store.root.parent / "r")) as remote:
        match use:
            case "commit":
                store.commit(layer, record, "digits/head", "again")
            case "prove":
                store.objects.prove(name)
            case "read":
                store.objects.read(name)
            case "push":
                push(store, remote, layer.id)
    assert caught.value.code == "L304"


def test_commit_refuses_a_layer_without_its_objects(store: Store) -> None:
    layer = sample_layer(store)
    record = store.record(layer.key)
    assert record is not None
    other = Store.open(store.root.parent / "other")
    with pytest.raises(LaminarError) as caught:
        other.commit(layer, record, "digits/head", "test")
    assert caught.value.code == "L304"
    assert (other.layers(), other.refs.names()) == ([], [])


def test_noop_is_cheap_in_hashing_and_memory(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten layers of ten tensors: no object is opened."""
    ids = [sample_layer(store, f"l{i}", tensors={f"t{j}": np.full(3, i * 10 + j, np.float32) for j in range(10)}).id for i in range(10)]
    fresh = Store.open(store.root)
    monkeypatch.setattr(digest, "of_file", lambda path: pytest.fail(f"{path} was hashed"))
    monkeypatch.setattr(type(fresh.objects), "open", lambda *_: pytest.fail("an object was opened"))
    assert all(map(fresh.complete, ids))


def test_a_store_whose_index_cannot_be_written_can_be_loaded_from(store: Store) -> None:
    layer = sample_layer(store)
    store.layout.index.unlink()
    store.layout.index.mkdir()  # root too cannot write an index now
    again = Store.open(store.root, create=False)
    assert len(again.get_tensors(layer)["b"].data) == 20

"""The contract of a remote: what any place that can be named by a URL must do. Inherit it, give two fixtures, run pytest.

class TestMine(RemoteContract):
    @pytest.fixture
    def write_url(self): ...      # an empty place that can be written
    @pytest.fixture
    def read_url(self, write_url):  # the same place as readers see it
        return write_url
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from laminar.core.clock import SYSTEM, Clock
from laminar.core.digest import of_bytes
from laminar.core.errors import LaminarError
from laminar.store.manifest import BuildRecord, Graph, Manifest, identity
from laminar.store.raw import RawTensor
from laminar.store.remote import Remote, fetch, pull, pull_ref, push
from laminar.store.store import Store
from laminar.store.verify import verify

Array = NDArray[np.float32]
Connect = Callable[[str], Remote]


def raw(array: Array) -> RawTensor:
    """A float32 array as the store takes it."""
    data = np.asarray(array, dtype=np.float32, order="C")
    return RawTensor.of("F32", data.shape, data.reshape(-1).view(np.uint8).data)


def sample_layer(
    store: Store,
    name: str = "head",
    *,
    stack: str = "digits",
    seed: int = 0,
    tensors: dict[str, Array] | None = None,
    parent: str | None = None,
    ref: bool = True,
    run: str = "",
    clock: Clock = SYSTEM,
) -> Manifest:
    """Commit a small layer with two tensors and a graph; its manifest."""
    rng = np.random.default_rng(seed)
    if tensors is None:
        tensors = {"w": rng.standard_normal((160, 128), dtype=np.float32), "b": rng.standard_normal(5, dtype=np.float32)}
    refs = store.put_tensors({n: raw(a) for n, a in tensors.items()}, store.layer(parent) if parent else None)
    graph = Graph(eval=store.objects.put(b"graph of " + name.encode()), note="no training form")
    id = identity(refs, aliases={}, structure="s", classes=["0", "1"], input={"shape": [8]}, task="classification")
    inputs = {"name": name, "seed": seed, "parent": parent, "id": id}
    key = of_bytes(repr(inputs).encode())
    run = run or key[:16]
    manifest = Manifest(
        id=id,
        name=name,
        stack=stack,
        parent=parent,
        tensors=refs,
        aliases={},
        graph=graph,
        structure="s",
        model={"factory": "laminar:mlp", "args": {}},
        classes=["0", "1"],
        task="classification",
        input={"shape": [8]},
        frozen=[],
        metrics={"loss": 0.5},
        key=key,
        run=run,
        created=clock.now(),
        seconds=1.0,
        provenance={},
    )
    record = BuildRecord(
        key=key,
        id=id,
        inputs=inputs,
        stack=stack,
        name=name,
        spec={},
        data=None,
        metrics={"loss": 0.5},
        seconds=1.0,
        created=clock.now(),
        run=run,
        provenance={},
    )
    store.commit(manifest, record, f"{stack}/{name}" if ref else None, "test")
    return manifest


def same_tensors(one: Store, other: Store, id: str) -> bool:
    a, b = one.get_tensors(one.layer(id)), other.get_tensors(other.layer(id))
    return a.keys() == b.keys() and all(bytes(a[n].data) == bytes(b[n].data) for n in a)


class RemoteContract:
    """Each test gets an empty place."""

    @pytest.fixture
    def here(self, tmp_path: Path) -> Store:
        return Store.open(tmp_path / "here")

    @pytest.fixture
    def there(self, tmp_path: Path) -> Store:
        return Store.open(tmp_path / "there")

    @pytest.fixture
    def at(self, write_url: str, read_url: str) -> Iterator[Connect]:
        """Remote.at; what it opened is closed before the servers, which the URLs stand for, go."""
        assert write_url
        assert read_url
        with contextlib.ExitStack() as opened:
            yield lambda url: opened.enter_context(Remote.at(url))

    def test_files_go_and_come(self, write_url: str, read_url: str, at: Connect, tmp_path: Path) -> None:
        remote = at(write_url)
        remote.put("layers/one.json", b"1")
        remote.put("layers/one.json", b"uno")
        data = bytes(range(256)) * 5000
        (tmp_path / "big").write_bytes(data)
        remote.put("objects/ab/cd", tmp_path / "big")
        assert set(remote.list("layers")) == {"one.json"}
        assert remote.list("objects/ab") == {"cd": len(data)}
        assert remote.list("nothing") == {}
        assert remote.exists("objects/ab/cd")
        assert not remote.exists("objects/ab/ce")
        reader = at(read_url)
        assert reader.read("layers/one.json") == b"uno"
        assert reader.read("layers/two.json") is None
        reader.get("objects/ab/cd", tmp_path / "back")
        assert (tmp_path / "back").read_bytes() == data
        with pytest.raises(LaminarError, match="does not exist") as caught:
            reader.get("objects/ab/ce", tmp_path / "none")
        assert caught.value.code == "L402"

    def test_a_layer_travels(self, write_url: str, read_url: str, at: Connect, here: Store, there: Store) -> None:
        layer = sample_layer(here)
        sent = push(here, at(write_url), layer.id, ["digits/head", "digits:v1"])
        assert (sent.sent, sent.skipped) == (3, 0)
        assert sent.bytes > 160 * 128 * 4
        remote = at(read_url)
        assert pull(there, remote, "digits/head") == layer.id
        assert there.refs.get("digits/head") == layer.id
        assert pull(there, remote, "digits:v1") == layer.id
        assert there.refs.tags() == {"digits:v1": layer.id}
        assert there.complete(layer.id)
        assert same_tensors(here, there, layer.id)
        assert there.record(layer.key) == here.record(layer.key)
        assert verify(there) == []

    def test_a_bare_name_is_found_in_its_stack(self, write_url: str, read_url: str, at: Connect, here: Store, there: Store) -> None:
        layer = sample_layer(here)
        push(here, at(write_url), layer.id, ["digits/head"])
        assert pull_ref(there, f"{read_url}#head") == layer.id
        assert there.refs.names() == []

    def test_deltas_and_ancestors_travel(self, write_url: str, read_url: str, at: Connect, here: Store, there: Store) -> None:
        weights = np.arange(40_000, dtype=np.float32)
        base = sample_layer(here, "base", tensors={"w": weights})
        changed = weights.copy()
        changed[::500] += 1
        head = sample_layer(here, tensors={"w": changed}, parent=base.id)
        assert head.tensors["w"].delta is not None
        push(here, at(write_url), head.id, ["digits/head"])
        assert pull(there, at(read_url), "digits/head") == head.id
        assert same_tensors(here, there, head.id)
        assert there.layer(base.id) == here.layer(base.id)
        assert verify(there) == []

    def test_what_is_there_is_not_sent_again(self, write_url: str, read_url: str, at: Connect, here: Store, there: Store) -> None:
        layer = sample_layer(here)
        remote = at(write_url)
        push(here, remote, layer.id)
        again = push(here, remote, layer.id, ["digits/head"])
        assert (again.sent, again.skipped, again.bytes) == (0, 3, 0)
        fetch(there, at(read_url), "digits/head")
        assert fetch(there, at(read_url), "digits/head").got == 0

    def test_what_another_put_there_is_not_believed_by_its_size(
        self, write_url: str, read_url: str, at: Connect, here: Store, there: Store, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        layer = sample_layer(here)
        remote = at(write_url)
        good, bad = sorted({layer.tensors["w"].digest, layer.tensors["b"].digest})
        remote.put(f"objects/{good[:2]}/{good[2:]}", here.objects.path(good))
        remote.put(f"objects/{bad[:2]}/{bad[2:]}", bytes(here.objects.size(bad)))
        sent = push(here, remote, layer.id, ["digits/head"])
        assert (sent.sent, sent.skipped) == (2, 1)
        assert list(here.layout.tmp.iterdir()) == []
        assert pull(there, at(read_url), "digits/head") == layer.id
        if remote.folder is None:  # what was sent or read back once is not read again
            monkeypatch.delattr(Remote, "get")
        assert push(here, remote, layer.id).skipped == 3

    def test_a_broken_push_is_taken_up(self, write_url: str, at: Connect, here: Store, monkeypatch: pytest.MonkeyPatch) -> None:
        layer = sample_layer(here)
        remote = at(write_url)
        remote.workers = 1
        put, calls = Remote.put, iter(range(100))

        def failing(self: Remote, path: str, source: Path | bytes) -> None:
            if next(calls) == 2:
                raise LaminarError("L401", "the line went dead")
            put(self, path, source)

        monkeypatch.setattr(Remote, "put", failing)
        with pytest.raises(LaminarError, match="went dead"):
            push(here, remote, layer.id, ["digits/head"])
        assert remote.list("refs") == {}
        assert remote.list("layers") == {}
        monkeypatch.setattr(Remote, "put", put)
        again = push(here, remote, layer.id, ["digits/head"])
        assert (again.sent, again.skipped) == (1, 2)

    def test_a_flipped_byte_is_refused_and_mended(self, write_url: str, read_url: str, at: Connect, here: Store, there: Store) -> None:
        layer = sample_layer(here)
        remote = at(write_url)
        push(here, remote, layer.id, ["digits/head"])
        victim = layer.tensors["w"].digest
        data = bytearray(here.objects.read(victim))
        data[-1] ^= 1
        remote.put(f"objects/{victim[:2]}/{victim[2:]}", bytes(data))
        with pytest.raises(LaminarError, match="damaged") as caught:
            pull(there, at(read_url), "digits/head")
        assert caught.value.code == "L403"
        assert not there.objects.path(victim).exists()
        assert there.layers() == []
        assert there.refs.names() == []
        assert list(there.layout.tmp.iterdir()) == []
        assert "push --check" in caught.value.hint
        mended = push(here, remote, layer.id, ["digits/head"], check=True)
        assert (mended.sent, mended.skipped) == (1, 2)
        assert list(here.layout.tmp.iterdir()) == []
        assert pull(there, at(read_url), "digits/head") == layer.id

    def test_a_pin_wins_over_the_ref(self, write_url: str, read_url: str, at: Connect, here: Store, there: Store) -> None:
        old = sample_layer(here, seed=1)
        new = sample_layer(here, seed=2)
        remote = at(write_url)
        push(here, remote, old.id, ["digits/head"])
        push(here, remote, new.id, ["digits/head"])
        assert pull_ref(there, f"{read_url}#head@sha256:{old.id}") == old.id
        with pytest.raises(LaminarError) as caught:
            pull_ref(there, f"{read_url}#digits/head@sha256:{old.id[:12]}")
        assert caught.value.code == "L403"

    def test_other_content_under_a_pinned_id_is_refused(
        self, write_url: str, read_url: str, at: Connect, here: Store, there: Store
    ) -> None:
        good, other = sample_layer(here, seed=1), sample_layer(here, seed=2)
        remote = at(write_url)
        push(here, remote, good.id)
        remote.put(f"layers/{good.id}.json", here.layout.layer(other.id).read_bytes())
        with pytest.raises(LaminarError) as caught:
            pull_ref(there, f"{read_url}#x@sha256:{good.id}")
        assert caught.value.code == "L403"
        assert there.layers() == []

    def test_what_is_not_there_is_said_with_the_nearest_name(
        self, write_url: str, read_url: str, at: Connect, here: Store, there: Store
    ) -> None:
        layer = sample_layer(here)
        push(here, at(write_url), layer.id, ["digits/head"])
        with pytest.raises(LaminarError, match="digits/head") as caught:
            pull(there, at(read_url), "digits/heed")
        assert caught.value.code == "L402"
        with pytest.raises(LaminarError) as caught:
            pull_ref(there, f"{read_url}#x@sha256:{'0' * 64}")
        assert caught.value.code == "L402"

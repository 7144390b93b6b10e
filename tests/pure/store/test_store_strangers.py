"""What a stranger wrote: records, refs, links and locks of a remote. Nothing outside of the store changes, and each ends with a code."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from laminar.core.digest import of_bytes
from laminar.core.errors import LaminarError
from laminar.store import delta, records
from laminar.store.layout import Layout
from laminar.store.manifest import Manifest, TensorRef, decode_foreign_manifest, decode_manifest, encode, identity
from laminar.store.raw import RawTensor, header
from laminar.store.remote import Remote, fetch, pull, push
from laminar.store.store import Store
from laminar.store.verify import verify
from laminar.testing.remote_contract import sample_layer

ID = "0123456789abcdef" * 4


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store.open(tmp_path / "here" / "store")


@pytest.fixture
def far(tmp_path: Path) -> Path:
    """A remote with one layer, `digits/head`."""
    origin = Store.open(tmp_path / "origin")
    layer = sample_layer(origin)
    with Remote.at(str(tmp_path / "far")) as remote:
        push(origin, remote, layer.id, ["digits/head"])
    return tmp_path / "far"


def manifest_of(far: Path) -> dict[str, Any]:
    (path,) = (far / "layers").glob("*.json")
    return records.load(path.read_bytes())


def put_manifest(far: Path, content: dict[str, Any]) -> None:
    """In the place of the one that is there, as somebody would who knows how an id is made; the ref follows."""
    (path,) = (far / "layers").glob("*.json")
    path.unlink()
    fields = {name: content[name] for name in ("aliases", "structure", "classes", "input", "task")}
    tensors = {name: TensorRef(**tensor) for name, tensor in content["tensors"].items()}
    content["id"] = identity(tensors, **fields)
    (far / "layers" / f"{content['id']}.json").write_bytes(records.dump(content))
    (far / "refs" / "digits" / "head.json").write_bytes(records.dump({"name": "digits/head", "id": content["id"]}))


def refused(store: Store, far: Path, code: str, *, ref: str = "digits/head") -> LaminarError:
    with Remote.at(str(far)) as remote, pytest.raises(LaminarError) as caught:
        pull(store, remote, ref)
    assert caught.value.code == code, caught.value
    assert store.refs.names() == []
    assert store.layers() == []
    return caught.value


@pytest.mark.parametrize("absolute", [True, False], ids=["absolute", "dots"])
def test_a_key_is_no_path(store: Store, far: Path, tmp_path: Path, absolute: bool) -> None:
    """The key of a manifest named the file that its build record was written to."""
    settings = tmp_path / "settings.json"
    settings.write_text("mine")
    key = str(settings.with_suffix("")) if absolute else f"{'../' * 3}settings"
    content = manifest_of(far)
    put_manifest(far, content | {"key": key})
    id = manifest_of(far)["id"]
    record = {"format": 1, "key": key, "id": id, "inputs": {}, "stack": "digits", "name": "head", "spec": {}, "data": None, "metrics": {}}
    record |= {"seconds": 0.0, "created": 0.0, "run": "", "provenance": {}}
    place = far / "keys" / f"{key}.json"
    if not absolute:
        place.parent.mkdir(exist_ok=True)
        place.write_bytes(records.dump(record))
    else:
        settings.write_bytes(records.dump(record))  # what `keys/` + an absolute path reads is the victim's own file
    before = settings.read_bytes()
    refused(store, far, "L403")
    assert settings.read_bytes() == before


HOSTILE = ["../../x", "/etc/x", "a\0b", "x" * 10_000, "ж" * 64, "A" * 64, "a" * 63, "a" * 64 + "\n", "\x1b[2J", ""]


@pytest.mark.parametrize("value", HOSTILE)
@pytest.mark.parametrize("field", ["key", "parent", "run", "digest", "base", "step", "train", "eval"])
def test_what_becomes_a_path_is_of_its_kind(store: Store, far: Path, field: str, value: str) -> None:
    if field == "run" and value in ("", "A" * 64, "a" * 63):
        pytest.skip("a run may be called so")
    content = manifest_of(far)
    match field:
        case "digest":
            content["tensors"]["w"]["digest"] = value
        case "base":
            content["tensors"]["w"]["delta"] = {"base": value, "steps": [ID]}
        case "step":
            content["tensors"]["w"]["delta"] = {"base": ID, "steps": [value]}
        case "train" | "eval":
            content["graph"][field] = value
        case _:
            content[field] = value
    put_manifest(far, content)
    refused(store, far, "L403")


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("stack", "../x"),
        ("name", "a/b"),
        ("name", ".."),
        ("name", "a\x1b]0;b\x07"),
        ("stack", "a\u202eb"),
        ("created", 1e300),
        ("created", -1),
        ("task", "x" * 10_000),
        ("input", {}),
        ("input", {"shape": "x"}),
        ("input", {"shape": [1 << 40, 1 << 40]}),
        ("input", {"shape": [8], "dtype": "O"}),
        ("tensors", {"w": {"dtype": "F99", "shape": [1], "digest": ID}}),
        ("tensors", {"w": {"dtype": "F32", "shape": [-1], "digest": ID}}),
        ("tensors", {"w": {"dtype": "F32", "shape": [1], "digest": ID, "delta": {"base": ID, "steps": []}}}),
    ],
)
def test_what_else_is_refused(store: Store, far: Path, field: str, value: object) -> None:
    put_manifest(far, manifest_of(far) | {field: value})
    refused(store, far, "L403")


def test_a_record_nested_deep_ends_no_stack(store: Store, far: Path) -> None:
    (path,) = (far / "layers").glob("*.json")
    content = path.read_bytes()
    for depth in (200, 900, 100_000):
        nested = b"[" * depth + b"]" * depth
        body = content[: content.rindex(b',"check"')].replace(b'"provenance":{}', b'"provenance":{"a":' + nested + b"}") + b"}"
        path.write_bytes(_checked(body))
        refused(store, far, "L403")
        (far / "refs" / "digits" / "head.json").write_bytes(_checked(b'{"id":' + nested + b"}"))
        refused(store, far, "L403")
        (far / "refs" / "digits" / "head.json").write_bytes(records.dump({"name": "digits/head", "id": path.stem}))


def _checked(rest: bytes) -> bytes:
    return rest[:-1] + b',"check":"' + of_bytes(rest).encode() + b'"}'


@pytest.mark.parametrize(
    "content",
    [
        {},
        {"name": "digits/head"},
        {"name": "digits/head", "id": "../x"},
        {"name": "digits/head", "id": 7},
        {"name": "other/head", "id": ID},
    ],
)
def test_a_ref_that_is_none(store: Store, far: Path, content: dict[str, Any]) -> None:
    (far / "refs" / "digits" / "head.json").write_bytes(records.dump(content))
    refused(store, far, "L403")


def test_a_remote_moves_no_other_ref_than_was_asked_for(store: Store, far: Path) -> None:
    """Its ref file, or the manifest behind a pin, called itself by another name, and that one moved."""
    mine = sample_layer(store, "prod", stack="mine", seed=3)
    id = manifest_of(far)["id"]
    (far / "refs" / "digits" / "head.json").write_bytes(records.dump({"name": "mine/prod", "id": id}))
    with Remote.at(str(far)) as remote, pytest.raises(LaminarError, match="it is the ref 'mine/prod'") as caught:
        pull(store, remote, "digits/head")
    assert caught.value.code == "L403"
    put_manifest(far, manifest_of(far) | {"stack": "mine", "name": "prod"})
    id = manifest_of(far)["id"]
    with Remote.at(str(far)) as remote:
        assert pull(store, remote, f"digits/head@sha256:{id}") == id
    assert (store.refs.get("digits/head"), store.refs.get("mine/prod")) == (id, mine.id)


@pytest.mark.parametrize("asked", ["../x", "a/../b", "x" * 10_000, "a/\x1b", "a/b/c:d@e", "a\ud800/b"])
def test_a_name_for_here_is_a_name(store: Store, far: Path, asked: str) -> None:
    with Remote.at(str(far)) as remote, pytest.raises(LaminarError) as caught:
        pull(store, remote, "digits/head", into=asked)
    assert caught.value.code == "L008"


def test_names_in_a_listing_that_nobody_of_us_made(store: Store, far: Path) -> None:
    (far / "refs" / "evil\x1b[2J").mkdir()
    (far / "refs" / "evil\x1b[2J" / "x.json").write_bytes(b"")
    (far / "refs" / "digits" / "a\nb.json").write_bytes(b"")
    (far / "refs" / "digits" / "a%2F..%2Fb.json").write_bytes(b"")
    (far / "refs" / "tags").mkdir(exist_ok=True)
    (far / "refs" / "tags" / "%1B[0m.json").write_bytes(b"")
    error = refused(store, far, "L402", ref="nothing")
    assert "known: digits/head" in error.message
    assert "\x1b" not in str(error)


@pytest.mark.parametrize("part", ["layers", "objects", "refs/digits", "keys"])
def test_a_link_out_of_a_remote_is_not_read(store: Store, far: Path, tmp_path: Path, part: str) -> None:
    (far / part).rename(tmp_path / "elsewhere")
    (far / part).symlink_to(tmp_path / "elsewhere")
    error = refused(store, far, "L403")
    assert "is a link to" in error.message


def test_a_link_within_a_remote_is_followed(store: Store, far: Path) -> None:
    (far / "layers").rename(far / "real")
    (far / "layers").symlink_to("real")
    (far.parent / "alias").symlink_to(far)
    with Remote.at(str(far.parent / "alias")) as remote:
        pull(store, remote, "digits/head")


def test_a_pipe_is_not_waited_for(store: Store, far: Path) -> None:
    (path,) = (far / "layers").glob("*.json")
    path.unlink()
    os.mkfifo(path)
    refused(store, far, "L402")


@pytest.mark.parametrize("part", ["layers", "keys", "refs", "refs/digits", "objects"])
@pytest.mark.parametrize("living", [True, False])
def test_push_writes_through_no_link(tmp_path: Path, part: str, living: bool) -> None:
    origin = Store.open(tmp_path / "origin")
    layer = sample_layer(origin)
    far = tmp_path / "far"
    if living:
        Store.open(far)
    (tmp_path / "precious").mkdir()
    (tmp_path / "precious" / "head.json").write_text("mine")
    for folder in [far / "objects"] if part == "objects" and living else []:
        (tmp_path / "was").mkdir()
        folder.rename(tmp_path / "was" / "objects")
    (far / part).parent.mkdir(parents=True, exist_ok=True)
    if (far / part).is_dir():
        (far / part).rename(tmp_path / "moved")
    (far / part).symlink_to(tmp_path / "precious")
    with Remote.at(str(far)) as remote, pytest.raises(LaminarError) as caught:
        push(origin, remote, layer.id, ["digits/head"])
    assert caught.value.code in ("L403", "L404")
    assert {path.name: path.read_text() for path in (tmp_path / "precious").iterdir()} == {"head.json": "mine"}


@pytest.mark.parametrize("where", ["remote", "own"])
def test_a_link_in_the_place_of_a_lock_empties_nothing(tmp_path: Path, where: str) -> None:
    origin = Store.open(tmp_path / "origin")
    layer = sample_layer(origin)
    other = origin if where == "own" else Store.open(tmp_path / "far")
    precious = tmp_path / "precious"
    precious.write_text("mine")
    (other.root / "locks" / "gc.lock").unlink(missing_ok=True)
    (other.root / "locks" / "gc.lock").symlink_to(precious)
    with pytest.raises(LaminarError) as caught:
        if where == "own":
            origin.refs.move("digits/other", layer.id, "test")
        else:
            with Remote.at(str(other.root)) as remote:
                push(origin, remote, layer.id, ["digits/head"])
    assert caught.value.code == ("L302" if where == "own" else "L404")
    assert precious.read_text() == "mine"


def test_a_layout_makes_paths_of_nothing_else(tmp_path: Path) -> None:
    layout = Layout(tmp_path)
    makers: list[Callable[[str], Path]] = [layout.object, layout.layer, layout.key, layout.run, layout.feature]
    for make in makers:
        for value in HOSTILE:
            if make in (layout.run, layout.feature) and value in ("A" * 64, "a" * 63):
                continue
            with pytest.raises(LaminarError) as caught:
                make(value)
            assert caught.value.code == "L303"
            assert len(str(caught.value)) < 400
        assert make(ID).is_relative_to(tmp_path)
    for name in ("", "/a", "a/", "a//b"):
        with pytest.raises(LaminarError):
            layout.ref(name)
    for name in ("../../x/y", "a\0/b", "/".join([".."] * 9)):
        assert layout.ref(name.strip("/")).resolve().is_relative_to(tmp_path.resolve())
        assert layout.tag(name).resolve().is_relative_to(tmp_path.resolve())


def test_a_tensor_that_is_shorter_than_it_says(store: Store, far: Path) -> None:
    content = manifest_of(far)
    short = header("F32", (160, 128)) + bytes(8)
    name = of_bytes(short)
    (far / "objects" / name[:2]).mkdir(exist_ok=True)
    (far / "objects" / name[:2] / name[2:]).write_bytes(short)
    content["tensors"]["w"]["digest"] = name
    put_manifest(far, content)
    refused(store, far, "L403")


def test_gaps_of_a_delta_that_overflow_are_no_delta() -> None:
    """Their sum came back into the tensor, and one of the positions lay far outside of it."""
    tensor = RawTensor("F32", (16,), memoryview(bytearray(64)))
    step = delta.encode(tensor, np.arange(5))
    text = json.loads(step[8 : 8 + int.from_bytes(step[:8], "little")])
    gaps = delta._pack(np.array([0, 2**62, 2**62 - 1, 2**62, 2**62 - 3]))
    text["gaps"] |= {"shape": [len(gaps)], "data_offsets": [20, 20 + len(gaps)]}
    head = json.dumps(text).encode()
    with pytest.raises(delta.BadDelta, match="reaches past"):
        delta.apply(memoryview(len(head).to_bytes(8, "little") + head + bytes(20) + gaps), tensor)
    deep = b"[" * 100_000
    with pytest.raises(delta.BadDelta):
        delta.apply(memoryview(len(deep).to_bytes(8, "little") + deep), tensor)


def test_strays_are_reported_and_put_aside_and_stop_nobody(store: Store) -> None:
    sample_layer(store)
    (store.layout.layers / "stray.json").write_text("{}")
    (store.layout.objects / "xy").mkdir()
    (store.layout.objects / "xy" / "z").write_text("?")
    assert len(store.layers()) == 1
    assert [(one.kind, one.name) for one in verify(store)] == [("object", "xyz"), ("layer", "stray")]


def test_own_manifests_keep_what_they_are(store: Store) -> None:
    """What is read back is what was written, and a name of any script is one."""
    layer = sample_layer(store, "größe v1", stack="журнал", run="trial-0a1b2c3d4e5f")
    assert decode_manifest(encode(layer), "x") == layer == decode_foreign_manifest(encode(layer), "x")
    assert isinstance(store.layer(layer.id), Manifest)
    assert verify(store) == []


def test_a_layer_with_a_foreign_id_is_not_believed(far: Path, store: Store) -> None:
    (path,) = (far / "layers").glob("*.json")
    path.rename(far / "layers" / f"{ID}.json")
    with Remote.at(str(far)) as remote, pytest.raises(LaminarError) as caught:
        fetch(store, remote, "", pin=ID)
    assert caught.value.code == "L403"

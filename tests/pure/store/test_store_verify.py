"""Verify finds any flipped bit; repair mends what can be mended and says what cannot."""

from __future__ import annotations

import os
from pathlib import Path
from typing import get_args

import numpy as np
import pytest

from laminar.core import digest
from laminar.core.errors import LaminarError
from laminar.store import records
from laminar.store.findings import Kind
from laminar.store.refs import log_of
from laminar.store.remote import Remote, push
from laminar.store.repair import repair
from laminar.store.runs import begin, finish
from laminar.store.sent import Sent
from laminar.store.store import Store
from laminar.store.verify import verify
from laminar.testing.remote_contract import sample_layer


def fill(store: Store) -> None:
    """One of everything."""
    weights = np.zeros(20_000, np.float32)
    base = sample_layer(store, "base", tensors={"w": weights})
    weights[3] = 1
    head = sample_layer(store, tensors={"w": weights}, parent=base.id)
    sample_layer(store, seed=1)
    store.refs.back("digits/head")
    store.refs.tag("digits:v1", head.id)
    store.register_project(store.root.parent, {"digits/head": head.id})
    features = store.features_folder("f" * 64)
    data = os.urandom(300)
    (features / "t0.bin").write_bytes(data + b"behind the index")
    blocks = [{"file": "t0.bin", "offset": i, "size": 100, "sha256": digest.of_bytes(data[i : i + 100])} for i in (0, 100, 200)]
    records.write(features / "index.json", {"blocks": blocks})
    run = store.run_folder("r1")
    files = [("checkpoint-2.safetensors", b"two"), ("checkpoint-1.safetensors", b"one")]
    for name, content in files:
        (run / name).write_bytes(content)
    pointer = {"format": 1, "checkpoints": [{"file": name, "sha256": digest.of_bytes(content)} for name, content in files]}
    (run / "checkpoint.json").write_bytes(digest.canonical(pointer | {"check": digest.of_json(pointer)}))
    done = store.record(head.key)
    assert done is not None
    board = begin(store, done.run) / "tensorboard"
    board.mkdir()
    (board / "events.out.tfevents.1").write_bytes(os.urandom(200))
    (board.parent / "events.jsonl").write_text('{"event":"step","loss":0.5}\n')
    finish(store, done)
    (features / "used").touch()
    fact = b'{"signature":"x","value":1}'
    (store.layout.fingerprints / "f.json").write_bytes(b'{"check":"%s","value":%s}' % (digest.of_bytes(fact).encode(), fact))
    records.write(store.layout.rollbacks / "digits%2Fhead-3.json", {"ref": "digits/head", "n": 3, "text": "[stack]"})
    records.write(store.layout.plans / "digits" / "head.json", {"layer": "head"})
    records.write(store.layout.leases / "1-dead.json", {"layers": [], "runs": [], "features": []})
    Sent(store, "ftp://host/models").add([head.tensors["w"].objects()[-1]])


@pytest.fixture
def store(tmp_path: Path) -> Store:
    store = Store.open(tmp_path / "s")
    fill(store)
    return store


def checked_files(store: Store) -> list[Path]:
    skip = {"locks", "tmp", "lost"}
    files = [p for p in sorted(store.root.rglob("*")) if p.is_file() and p.relative_to(store.root).parts[0] not in skip]
    return [p for p in files if p.stat().st_size and p.name != ".gitignore"]


def flip(path: Path, at: int, bit: int) -> None:
    """As a failing disk does: the bytes change, size and times do not."""
    stat = path.stat()
    path.chmod(0o644)
    with open(path, "r+b") as file:
        file.seek(at)
        byte = file.read(1)[0]
        file.seek(at)
        file.write(bytes([byte ^ (1 << bit)]))
    os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))


def test_a_good_store_has_no_findings(store: Store) -> None:
    seen: list[tuple[int, int]] = []
    assert verify(store, progress=lambda done, total: seen.append((done, total))) == []
    assert verify(store, deep=False) == []
    assert seen[-1][0] == seen[-1][1] > 80_000


def test_any_flipped_bit_in_any_file_is_found(store: Store) -> None:
    """Every file of every kind, at its beginning, its end and places between."""
    kinds = set()
    for path in checked_files(store):
        size = min(path.stat().st_size, 300) if path.name == "t0.bin" else path.stat().st_size
        for at, bit in {(0, 0), (size // 3, 5), (size // 2, 2), (size - 2, 1), (size - 1, 0), (size - 1, 7)}:
            flip(path, at, bit)
            found = verify(store)
            assert found, f"bit {bit} of byte {at} of {path}"
            kinds |= {finding.kind for finding in found}
            flip(path, at, bit)
    assert verify(store) == []
    assert kinds >= set(get_args(Kind)) - {"remotes"}  # a store without remotes has no record of them


def test_a_finding_names_the_layers(store: Store) -> None:
    base = store.refs.get("digits/base")
    head = store.refs.get("digits/head")
    assert base
    assert head
    victim = store.layer(base).tensors["w"].digest
    flip(store.objects.path(victim), 100, 3)
    (finding,) = verify(store)
    assert (finding.kind, finding.problem, finding.name) == ("object", "corrupt", victim)
    assert set(finding.layers) == {base, head}  # head is a delta on it


def test_a_quick_look_sees_changed_files_only(store: Store) -> None:
    id = store.refs.get("digits/base")
    assert id
    path = store.objects.path(store.layer(id).tensors["w"].digest)
    path.chmod(0o644)
    path.write_bytes(path.read_bytes()[:-1] + b"!")
    assert [finding.kind for finding in verify(store, deep=False)] == ["object"]


def test_missing_things_are_found(store: Store) -> None:
    id = store.refs.get("digits/base")
    assert id
    store.objects.path(store.layer(id).tensors["w"].digest).unlink()
    assert {(f.kind, f.problem) for f in verify(store)} == {("object", "missing")}
    store.layout.layer(id).unlink()
    assert ("ref", "dangling") in {(f.kind, f.problem) for f in verify(store)}
    assert ("key", "dangling") in {(f.kind, f.problem) for f in verify(store)}


def test_a_deleted_build_record_is_missed_and_written_again_from_its_run(store: Store) -> None:
    """In whatever way the store knows of it: the run that is done, or the log of the ref that was built."""
    for id in store.layers():
        layer = store.layer(id)
        path = store.layout.key(layer.key)
        before = path.read_bytes()
        path.unlink()
        (found,) = verify(store)
        assert (found.kind, found.problem, found.name, found.layers) == ("key", "missing", layer.key, (id,))
        assert f"{layer.stack}/{layer.name}" in found.detail
        done = repair(store, [found])
        if (store.layout.runs / layer.run / "finished").exists():
            assert done.mended[0][1] == f"written again from runs/{layer.run}"
            assert path.read_bytes() == before
        else:  # nobody knows its inputs: it must be built again
            assert done.left == [found]
            path.write_bytes(before)
    assert verify(store) == []


def test_a_deleted_build_record_comes_back_from_a_remote(store: Store, tmp_path: Path) -> None:
    base = store.refs.get("digits/base")
    assert base
    push(store, Remote.at(str(tmp_path / "remote")), base)
    path = store.layout.key(store.layer(base).key)
    before = path.read_bytes()
    path.unlink()
    assert "fetched from" in repair(store, verify(store)).mended[0][1]
    assert path.read_bytes() == before


def test_a_layer_that_was_pulled_without_its_build_record_is_whole(store: Store, tmp_path: Path) -> None:
    from laminar.store.remote import pull

    base = store.refs.get("digits/base")
    assert base
    push(store, Remote.at(str(tmp_path / "remote")), base, ["digits/base"])
    (tmp_path / "remote" / "keys" / f"{store.layer(base).key}.json").unlink()
    other = Store.open(tmp_path / "o")
    pull(other, Remote.at(str(tmp_path / "remote")), "digits/base")
    assert verify(other) == []


def test_a_deleted_layer_of_a_history_is_missed(store: Store) -> None:
    old = sample_layer(store, "tower", seed=5)
    sample_layer(store, "tower", seed=6)
    store.layout.layer(old.id).unlink()
    (found,) = verify(store)
    assert (found.kind, found.problem, found.layers) == ("key", "dangling", (old.id,))


def test_files_of_a_run_that_is_done(store: Store) -> None:
    """What is damaged goes aside, and only that: the record is not made to fit the other damaged file."""
    (events,) = store.layout.runs.glob("*/events.jsonl")
    (board,) = store.layout.runs.glob("*/tensorboard/*")
    flip(events, 20, 1)
    with open(board, "ab") as file:
        file.write(b"!")
    found = verify(store)
    assert {(f.kind, f.problem, f.path) for f in found} == {("run", "corrupt", str(events)), ("run", "corrupt", str(board))}
    assert {(f.kind, f.path) for f in verify(store, deep=False)} == {("run", str(board))}
    repair(store, [f for f in found if f.path == str(events)])
    assert [f.path for f in verify(store)] == [str(board)]
    board.unlink()
    (found_gone,) = verify(store)
    assert found_gone.problem == "missing"
    assert "the layer is whole" in repair(store, [found_gone]).mended[0][1]
    assert verify(store) == []
    assert any(path.name.startswith(f"{events.parent.name}-events.jsonl") for path in store.layout.lost.iterdir())


def test_nothing_is_known_of_a_run_under_way(store: Store) -> None:
    (events,) = store.layout.runs.glob("*/events.jsonl")
    begin(store, events.parent.name)
    flip(events, 20, 1)
    assert verify(store) == []


def test_a_damaged_note_of_a_run_is_written_anew(store: Store) -> None:
    (note,) = store.layout.runs.glob("*/finished")
    before = records.read(note)
    for content in (b"", note.read_bytes()[:-9]):
        note.write_bytes(content)
        assert [(f.kind, f.path) for f in verify(store)] == [("run", str(note))]
        assert "written anew" in repair(store, verify(store)).mended[0][1]
        assert records.read(note) == before


def test_features_that_lost_their_index(store: Store) -> None:
    folder = store.layout.features / ("f" * 64)
    (folder / "index.json").unlink()
    with store.lease(features=[folder.name]):  # a build fills them anew
        assert verify(store) == []
    (found,) = verify(store)
    assert (found.kind, found.problem) == ("features", "missing")
    repair(store, [found])
    assert not folder.exists()
    (store.features_folder("a" * 64) / "t0.bin").write_bytes(b"the first filling was killed")
    assert verify(store) == []


def test_the_index_is_written_anew_without_its_damage(store: Store) -> None:
    size = store.layout.index.stat().st_size
    flip(store.layout.index, 100, 1)
    (found,) = verify(store)
    assert (found.kind, found.detail) == ("index", "1 of its entries are damaged")
    repair(store, [found])
    assert verify(store) == []
    assert store.layout.index.stat().st_size <= size
    with open(store.layout.index, "ab") as file:
        file.write(b"torn by a kill")
    assert verify(store) == []
    sample_layer(store, seed=9)  # the next writer fills it up
    assert verify(store) == []


def test_a_damaged_lease_of_a_living_process_stays(store: Store) -> None:
    with store.lease(layers=store.layers()):
        (path,) = (p for p in store.layout.leases.glob("*.json") if p.name != "1-dead.json")
        flip(path, 5, 0)
        (found,) = verify(store)
        assert found.kind == "lease"
        assert repair(store, [found]).left == [found]
        flip(path, 5, 0)
    flip(store.layout.leases / "1-dead.json", 5, 0)
    assert "its process has ended" in repair(store, verify(store)).mended[0][1]
    assert verify(store) == []


def test_a_lost_end_of_a_log_is_found(store: Store) -> None:
    log = log_of(store.layout.ref("digits/head"))
    lines = log.read_bytes().splitlines(keepends=True)
    log.write_bytes(b"".join(lines[:-1]))
    assert [f.kind for f in verify(store)] == ["log"]
    assert len(repair(store, verify(store)).mended) == 1
    assert verify(store) == []


def test_everything_is_mended_from_a_remote(store: Store, tmp_path: Path) -> None:
    """One flipped bit in every file at once; what is here and one remote give back every layer and every ref."""
    remote = Remote.at(str(tmp_path / "remote"))
    before = {name: store.refs.get(name) for name in store.refs.names()}
    for id in store.layers():
        push(store, remote, id)
    for path in checked_files(store):
        if path.suffix != ".log" and path.name not in ("remotes.json", "format"):
            flip(path, path.stat().st_size // 2 if path.name != "t0.bin" else 5, 1)
    done = repair(store, verify(store))
    assert done.left == []
    assert done.rebuild == []
    assert verify(store) == []
    assert {name: store.refs.get(name) for name in store.refs.names()} == before
    assert all(map(store.complete, store.layers()))
    assert not (store.layout.features / ("f" * 64)).exists()


def test_without_a_remote_the_layers_to_rebuild_are_named(store: Store) -> None:
    head, base = store.refs.get("digits/head"), store.refs.get("digits/base")
    assert head
    assert base
    flip(store.objects.path(store.layer(base).tensors["w"].digest), 100, 0)
    done = repair(store, verify(store))
    assert [finding.kind for finding in done.left] == ["object"]
    assert set(done.rebuild) == {head, base}
    assert not store.complete(base)  # the wrong file is gone: a build will not take it for right
    assert len(list(store.layout.lost.iterdir())) == 1
    assert {f.problem for f in verify(store)} == {"missing"}


def test_a_remote_that_is_wrong_too_does_not_help(store: Store, tmp_path: Path) -> None:
    remote = Remote.at(str(tmp_path / "remote"))
    base = store.refs.get("digits/base")
    assert base
    push(store, remote, base)
    victim = store.layer(base).tensors["w"].digest
    for root in (store.root, tmp_path / "remote"):
        flip(root / "objects" / victim[:2] / victim[2:], 100, 0)
    assert repair(store, verify(store)).rebuild
    assert not store.objects.path(victim).exists()


def test_an_unreachable_remote_is_reported_not_raised(store: Store) -> None:
    from laminar.store.remotes import Remotes

    Remotes(store).note_use("ftp://ann:geheim@127.0.0.1:1/x")
    base = store.refs.get("digits/base")
    assert base
    flip(store.objects.path(store.layer(base).tensors["w"].digest), 100, 0)
    done = repair(store, verify(store))
    assert "127.0.0.1:1" in done.unreachable["ftp://ann:***@127.0.0.1:1/x"]
    assert "geheim" not in str(done)


def test_a_damaged_ref_is_read_from_its_log(store: Store) -> None:
    path = store.layout.ref("digits/head")
    before = path.read_bytes()
    flip(path, 30, 1)
    (mended,) = repair(store, verify(store)).mended
    assert mended[1] == "read from its log"
    assert path.read_bytes() == before


def test_a_damaged_log_line_is_left_out(store: Store) -> None:
    id = store.refs.get("digits/head")
    state = store.refs.state("digits/head")
    log = log_of(store.layout.ref("digits/head"))
    flip(log, 10, 1)
    assert store.refs.get("digits/head") == id
    with pytest.raises(LaminarError):
        store.refs.redo("digits/head")
    repair(store, verify(store))
    assert verify(store) == []
    assert store.refs.get("digits/head") == id
    assert set(store.refs.state("digits/head").history) == set(state.history)
    sample_layer(store, seed=8)
    assert store.refs.get("digits/head") != id


def test_a_damaged_checkpoint_leaves_the_one_before_it(store: Store) -> None:
    run = store.run_folder("r1")
    flip(run / "checkpoint-2.safetensors", 0, 0)
    repair(store, verify(store))
    assert verify(store) == []
    assert [e["file"] for e in records.load_any((run / "checkpoint.json").read_bytes())["checkpoints"]] == ["checkpoint-1.safetensors"]
    flip(run / "checkpoint.json", 5, 0)
    repair(store, verify(store))
    assert verify(store) == []
    assert list(run.glob("checkpoint*")) == []


def test_strays_and_orphans_are_put_aside(store: Store) -> None:
    (store.layout.objects / "ab").mkdir(exist_ok=True)
    (store.layout.objects / "ab" / "notes.txt").write_text("x")
    orphan = store.objects.put(b"nobody needs me")
    flip(store.objects.path(orphan), 0, 0)
    findings = verify(store)
    assert {f.problem for f in findings} == {"stray", "corrupt"}
    done = repair(store, findings)
    assert (len(done.mended), done.rebuild) == (2, [])
    assert verify(store) == []


def test_ancestors_known_only_by_name_are_no_finding(store: Store, tmp_path: Path) -> None:
    from laminar.store.remote import pull

    head = store.refs.get("digits/head")
    assert head
    child = sample_layer(store, "child", parent=head, seed=77)
    remote = Remote.at(str(tmp_path / "remote"))
    push(store, remote, child.id, ["digits/child"])
    other = Store.open(tmp_path / "o")
    pull(other, remote, "child")
    assert other.has_layer(head)
    assert not other.complete(head)
    assert verify(other) == []


@pytest.mark.parametrize("content", [{}, {"a": 1}, {"ü": [1.5, None, "x"], "z": {"b": 2, "a": 1}}])
def test_records_round_trip(content: dict[str, object]) -> None:
    data = records.dump(content)
    assert records.load(data) == content == records.load_any(data)
    for at in range(len(data)):
        for bit in range(8):
            wrong = bytearray(data)
            wrong[at] ^= 1 << bit
            with pytest.raises(records.BadRecord):
                records.load(bytes(wrong))
    with pytest.raises(records.BadRecord):
        records.load(data[:-1])
    with pytest.raises(ValueError, match="check"):
        records.dump({"check": "x"})

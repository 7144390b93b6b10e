"""Remotes without a server: folders and memory. Servers are in tests/multi/store."""

from __future__ import annotations

import itertools
import os
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest

from laminar.core.errors import LaminarError
from laminar.store import driver_files, drivers
from laminar.store.remote import Remote, is_remote_ref, parse_ref, pull, pull_ref, push
from laminar.store.remotes import Remotes
from laminar.store.store import Store
from laminar.testing.remote_contract import RemoteContract, same_tensors, sample_layer

_numbers = itertools.count()


class TestFolder(RemoteContract):
    @pytest.fixture
    def write_url(self, tmp_path: Path) -> str:
        return str(tmp_path / "remote")

    @pytest.fixture
    def read_url(self, tmp_path: Path) -> str:
        (tmp_path / "remote").mkdir(exist_ok=True)
        return f"file://{tmp_path}/remote"


class TestMemory(RemoteContract):
    @pytest.fixture
    def write_url(self) -> str:
        return f"memory://place{next(_numbers)}"

    @pytest.fixture
    def read_url(self, write_url: str) -> str:
        return write_url


class TestLivingStore(RemoteContract):
    """A folder that is somebody's store: its refs keep their logs."""

    @pytest.fixture
    def write_url(self, tmp_path: Path) -> str:
        Store.open(tmp_path / "remote")
        return str(tmp_path / "remote")

    @pytest.fixture
    def read_url(self, write_url: str) -> str:
        return write_url

    def test_files_go_and_come(self) -> None:  # type: ignore[override]
        pass  # foreign files have no place in a store

    def test_a_broken_push_is_taken_up(self) -> None:  # type: ignore[override]
        pass  # it lists an empty place

    def test_the_other_store_can_roll_back_a_push(self, write_url: str, here: Store) -> None:
        first, second = sample_layer(here, seed=1), sample_layer(here, seed=2)
        for layer in (first, second):
            push(here, Remote.at(write_url), layer.id, ["digits/head"])
        other = Store.open(Path(write_url))
        assert other.refs.back("digits/head") == first.id
        assert [entry.op for entry in other.refs.log("digits/head")] == ["pull", "pull", "rollback"]


def test_remote_refs_are_parsed() -> None:
    ref = parse_ref(f"s3://lab/models#strokes@sha256:{'AB' * 32}")
    assert (ref.url, ref.name, ref.pin) == ("s3://lab/models", "strokes", "ab" * 32)
    assert parse_ref("./there#digits/head").name == "digits/head"
    assert is_remote_ref("ftp://x#y")
    assert not is_remote_ref("digits/head")
    for bad in ("#head", "ftp://x#", "ftp://x#head@md5:1"):
        with pytest.raises(LaminarError) as caught:
            parse_ref(bad)
        assert caught.value.code == "L008"


def test_a_pinned_layer_that_is_here_asks_nobody(tmp_path: Path) -> None:
    store = Store.open(tmp_path / "s")
    layer = sample_layer(store)
    assert pull_ref(store, f"ftp://nowhere.invalid/x#head@sha256:{layer.id}") == layer.id


def test_names_of_remotes(tmp_path: Path) -> None:
    store = Store.open(tmp_path / "s")
    remotes = Remotes(store)
    remotes.add("lab", str(tmp_path / "lab"))
    assert remotes.url("lab") == str(tmp_path / "lab")
    assert remotes.url("ftp://a/b") == "ftp://a/b"
    with pytest.raises(LaminarError, match="did you mean 'lab'") as caught:
        remotes.url("lap")
    assert caught.value.code == "L006"
    with pytest.raises(LaminarError):
        remotes.add("a b", "x")
    layer = sample_layer(store)
    push(store, Remote.at(remotes.url("lab")), layer.id, ["digits/head"])
    other = Store.open(tmp_path / "o")
    Remotes(other).add("lab", str(tmp_path / "lab"))
    assert pull_ref(other, "lab#head") == layer.id
    assert same_tensors(store, other, layer.id)
    assert stat.S_IMODE(store.layout.remotes.stat().st_mode) == 0o600
    remotes.remove("lab")
    assert remotes.names() == {}


def test_the_file_with_passwords_is_its_owners_from_the_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = Store.open(tmp_path / "s")
    seen: list[int] = []
    fsync, replace = os.fsync, os.replace

    def look() -> None:
        seen.extend(stat.S_IMODE(path.stat().st_mode) for path in store.layout.tmp.glob(".remotes.json.*"))

    def looking_fsync(fd: int) -> None:
        look()
        fsync(fd)

    def looking_replace(old: Path, new: Path) -> None:
        look()
        replace(old, new)

    monkeypatch.setattr(os, "fsync", looking_fsync)
    monkeypatch.setattr(os, "replace", looking_replace)
    before = os.umask(0)
    try:
        Remotes(store).add("lab", "ftp://ann:geheim@host/x")
    finally:
        os.umask(before)
    assert seen
    assert set(seen) == {0o600}
    assert stat.S_IMODE(store.layout.remotes.stat().st_mode) == 0o600
    assert list(store.layout.tmp.iterdir()) == []


def test_the_list_of_remotes_shows_no_password(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    from laminar.cli import remote as command

    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LAMINAR_STORE", str(tmp_path / "s"))
    command.run("add", "lab", "ftp://ann:geheim@host/x", json=False)
    command.run("list", None, None, json=True)
    shown = capsys.readouterr().out
    assert shown.count("ftp://ann:***@host/x") == 2
    assert "geheim" not in shown
    assert Remotes(Store.open(tmp_path / "s")).url("lab") == "ftp://ann:geheim@host/x"


def test_push_with_a_check_over_the_command_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import json

    from laminar.cli import push as command

    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LAMINAR_STORE", str(tmp_path / "s"))
    store = Store.open(tmp_path / "s")
    layer = sample_layer(store)
    url, victim = f"memory://place{next(_numbers)}", layer.tensors["w"].digest
    with Remote.at(url) as remote:
        push(store, remote, layer.id, ["digits/head"])
        data = bytearray(store.objects.read(victim))
        data[-1] ^= 1
        remote.put(f"objects/{victim[:2]}/{victim[2:]}", bytes(data))
    sent = []
    for check in (False, True):
        command.run(url, "digits/head", check=check, json=True)
        sent.append(json.loads(capsys.readouterr().out)["sent"])
    assert sent == [0, 1]


@pytest.mark.parametrize("url", ["http://[::1", "ftp://ann:geheim@[::1/x", "ssh://host:port/x"])
def test_what_only_looks_like_a_url_is_said(url: str, tmp_path: Path) -> None:
    store = Store.open(tmp_path / "s")
    for use in (lambda: pull_ref(store, f"{url}#x"), lambda: Remotes(store).add("lab", url)):
        with pytest.raises(LaminarError) as caught:
            use()
        assert caught.value.code == "L008"
        assert drivers.masked(url) in caught.value.message
        assert "geheim" not in str(caught.value)


def test_no_password_in_what_a_library_says() -> None:
    from laminar.store.remote_files import _explaining

    url = "http://ann:p%40ss@host/x"
    with pytest.raises(LaminarError) as caught, _explaining(url, "a", writing=False):
        raise OSError(f"500 for {url}/a, that is http://ann:p@ss@host/x/a")
    assert caught.value.code == "L401"
    assert "p%40ss" not in str(caught.value)
    assert "p@ss" not in str(caught.value)


def test_a_push_to_a_folder_mends_it(tmp_path: Path) -> None:
    """Same size, one bit flipped: nothing but its hash tells."""
    store = Store.open(tmp_path / "s")
    layer = sample_layer(store)
    victim = layer.tensors["w"].digest
    with Remote.at(str(tmp_path / "r")) as remote:
        push(store, remote, layer.id, ["digits/head"])
        data = bytearray(store.objects.read(victim))
        data[-1] ^= 1
        remote.put(f"objects/{victim[:2]}/{victim[2:]}", bytes(data))
        again = push(store, remote, layer.id, ["digits/head"])
        assert (again.sent, again.skipped) == (1, 2)
        assert pull(Store.open(tmp_path / "o"), remote, "digits/head") == layer.id


def test_nobody_waits_for_the_network(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The lock that gc and every commit take is free whenever the remote is asked for something."""
    store, other = Store.open(tmp_path / "s"), Store.open(tmp_path / "o")
    base = sample_layer(store, "base", seed=1)
    head = sample_layer(store, seed=2, parent=base.id)
    asked: list[str] = []
    read = Remote.read

    def asking(self: Remote, path: str) -> bytes | None:
        with other.lock("gc", timeout=0):
            asked.append(path)
        return read(self, path)

    with Remote.at(str(tmp_path / "r")) as remote:
        push(store, remote, head.id, ["digits/head"])
        monkeypatch.setattr(Remote, "read", asking)
        pull(other, remote, "digits/head")
    assert f"layers/{base.id}.json" in asked
    assert other.layer(base.id) == base


def test_a_remote_is_closed_by_who_opened_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from laminar.store.repair import repair
    from laminar.store.verify import verify

    closed: list[Path] = []
    monkeypatch.setattr(driver_files.Folder, "close", lambda self: closed.append(self.root))
    store, other = Store.open(tmp_path / "s"), Store.open(tmp_path / "o")
    layer = sample_layer(store)
    with Remote.at(str(tmp_path / "r")) as remote:
        push(store, remote, layer.id, ["digits/head"])
        pull(other, remote, "digits/head")
        assert closed == []
    assert len(closed) == 1
    store.layout.layer(layer.id).unlink()
    assert pull_ref(store, f"{tmp_path / 'r'}#digits/head") == layer.id
    assert len(closed) == 2
    store.layout.layer(layer.id).unlink()
    assert repair(store, verify(store)).mended
    assert len(closed) == 3


def test_used_remotes_are_remembered_last_first(tmp_path: Path) -> None:
    store = Store.open(tmp_path / "s")
    for url in ("a://1", "a://2", "a://1"):
        Remotes(store).note_use(url)
    assert Remotes(store).used() == ["a://1", "a://2"]


def test_two_stacks_with_the_same_layer_are_ambiguous(tmp_path: Path) -> None:
    store = Store.open(tmp_path / "s")
    remote = Remote.at(str(tmp_path / "r"))
    for stack in ("one", "two"):
        layer = sample_layer(store, stack=stack)
        push(store, remote, layer.id, [f"{stack}/head"])
    with pytest.raises(LaminarError, match="one/head, two/head") as caught:
        pull(Store.open(tmp_path / "o"), remote, "head")
    assert caught.value.code == "L007"


def test_a_lying_delta_is_refused(tmp_path: Path) -> None:
    """Every object is right by itself, and the id holds; but the delta makes another tensor than the digest in the id says."""
    import msgspec
    import numpy as np

    from laminar.store.manifest import Delta, encode

    store = Store.open(tmp_path / "s")
    weights = np.zeros(40_000, np.float32)
    base = sample_layer(store, "base", tensors={"w": weights})
    weights[7] = 1
    first = sample_layer(store, tensors={"w": weights}, parent=base.id)
    weights[8] = 1
    second = sample_layer(store, tensors={"w": weights}, parent=base.id)
    remote = Remote.at(str(tmp_path / "r"))
    push(store, remote, first.id)
    push(store, remote, second.id)
    wrong = Delta(base=base.tensors["w"].digest, steps=(first.tensors["w"].delta.object,))  # type: ignore[union-attr]
    tensors = {"w": msgspec.structs.replace(second.tensors["w"], delta=wrong)}
    remote.put(f"layers/{second.id}.json", encode(msgspec.structs.replace(second, tensors=tensors)))
    with pytest.raises(LaminarError, match="not what its id says") as caught:
        pull_ref(Store.open(tmp_path / "o"), f"{remote.url}#x@sha256:{second.id}")
    assert caught.value.code == "L403"


def test_a_corrupt_object_is_not_pushed(tmp_path: Path) -> None:
    store = Store.open(tmp_path / "s")
    layer = sample_layer(store)
    path = store.objects.path(layer.tensors["w"].digest)
    path.chmod(0o644)
    data = bytearray(path.read_bytes())
    data[-1] ^= 4
    path.write_bytes(data)
    with pytest.raises(LaminarError) as caught:
        push(store, Remote.at(str(tmp_path / "r")), layer.id, ["digits/head"])
    assert caught.value.code == "L303"
    assert not (tmp_path / "r" / "refs").exists()


def test_unknown_schemes_and_passwords() -> None:
    with pytest.raises(LaminarError, match="did you mean 'ftp'") as caught:
        Remote.at("ftpp://user:geheim@host/x")
    assert caught.value.code == "L008"
    assert "geheim" not in str(caught.value)
    assert drivers.masked("ftp://u:geheim@h:1/p") == "ftp://u:***@h:1/p"
    assert drivers.masked("https://h/p?token=geheim&n=geheim#sha256=a") == "https://h/p?token=***&n=***#sha256=a"
    assert drivers.masked("s3://b/p?endpoint=http://h:1") == "s3://b/p?endpoint=http://h:1"


@pytest.mark.parametrize(
    ("url", "library", "loaded", "extra"),
    [
        ("s3://bucket/x", "s3fs", "s3", "s3"),
        ("ssh://host/x", "paramiko", "", "ssh"),
        ("http://host/x", "fsspec.implementations.http", "http", "http"),
    ],
)
def test_a_missing_library_names_its_extra(url: str, library: str, loaded: str, extra: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from fsspec.registry import _registry

    monkeypatch.setitem(sys.modules, library, None)
    monkeypatch.delitem(_registry, loaded, raising=False)
    with pytest.raises(LaminarError) as caught:
        Remote.at(url)
    assert caught.value.code == "L011"
    assert f"pip install 'laminar-train[{extra}]'" in caught.value.hint


def test_looking_at_a_store_loads_nothing_heavy() -> None:
    code = "import sys, laminar.store.store, laminar.store.resolve, laminar.store.remote, laminar.store.gc, laminar.store.verify; "
    code += "print([m for m in ('torch', 'numpy', 'fsspec', 'filelock', 'asyncio') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("url", ["ftp://127.0.0.1:{port}/x", "ssh://u:p@127.0.0.1:{port}/x"])
def test_nobody_listens(url: str) -> None:
    import socket

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    start = time.monotonic()
    with pytest.raises(LaminarError, match=f"127.0.0.1:{port}.*refused|127.0.0.1:{port}.*Unable to connect") as caught:
        Remote.at(url.format(port=port))
    assert caught.value.code == "L401"
    assert time.monotonic() - start < 30


def test_a_full_disk_while_fetching_is_about_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import errno

    store = Store.open(tmp_path / "s")
    layer = sample_layer(store)
    remote = Remote.at(str(tmp_path / "r"))
    push(store, remote, layer.id, ["digits/head"])
    other = Store.open(tmp_path / "o")

    def full(_source: int, _target: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(driver_files, "_copy", full)
    with pytest.raises(LaminarError) as caught:
        pull(other, remote, "digits/head")
    assert caught.value.code == "L301"
    assert list(other.layout.tmp.iterdir()) == []


@pytest.mark.parametrize(
    "text",
    [
        "ftp://ann:geheim@host/models",
        "ftp://ann:geheim@host/models#",
        "ftp://ann:ge#heim@host/models#head",
        "ftp://ann:geheim@host/models#a@b",
        "ftp://ann:ge/geheim@host#a@b@sha256:beef",
        "ftp://ann:geheim@[host/models#a@b",
    ],
)
def test_a_malformed_ref_does_not_tell_its_password(text: str) -> None:
    with pytest.raises(LaminarError) as caught:
        parse_ref(text)
    assert caught.value.code == "L008"
    assert "ftp://ann:***@" in caught.value.message
    for secret in ("heim", ":ge"):
        assert secret not in str(caught.value)

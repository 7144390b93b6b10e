"""No space, no permission: a clear error, nothing half-written, and the next try works."""

from __future__ import annotations

import contextlib
import errno
import os
import resource
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from laminar.core.errors import LaminarError
from laminar.store.store import Store
from laminar.store.verify import verify
from laminar.testing.remote_contract import sample_layer
from tests.unprivileged import unprivileged


@contextlib.contextmanager
def small_disk(place: Path, megabytes: int) -> Iterator[None]:
    place.mkdir()
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={megabytes}m", "tmpfs", str(place)], capture_output=True, check=False)
    if done.returncode:
        pytest.skip("may not mount a file system here")
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", str(place)], check=True)


def big(seed: int, count: int = 300_000) -> dict[str, np.ndarray]:
    return {f"w{i}": np.random.default_rng(seed * 10 + i).standard_normal(count, dtype=np.float32) for i in range(3)}


def check_still_good(store: Store, layer_id: str) -> None:
    assert verify(store) == []
    assert store.refs.get("digits/head") == layer_id
    assert store.complete(layer_id)
    assert list(store.layout.tmp.iterdir()) == []


def test_a_really_full_disk(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", 7):
        store = Store.open(tmp_path / "disk" / "s")
        first = sample_layer(store, tensors=big(0))
        with pytest.raises(LaminarError, match="no space left") as caught:
            sample_layer(store, tensors=big(1, 2_000_000))  # written while hashed
        assert caught.value.code == "L301"
        check_still_good(store, first.id)
        with pytest.raises(LaminarError) as caught:
            sample_layer(store, tensors=big(2, 900_000))
        assert caught.value.code == "L301"
        check_still_good(store, first.id)
        second = sample_layer(store, tensors={"w": np.ones(10, np.float32)})
        check_still_good(store, second.id)


@pytest.mark.parametrize("fails_at", range(1, 12))
def test_a_disk_that_fills_up_at_any_sync(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fails_at: int) -> None:
    store = Store.open(tmp_path / "s")
    first = sample_layer(store)
    calls = 0
    real = os.fsync

    def fsync(fd: int) -> None:
        nonlocal calls
        calls += 1
        if calls == fails_at:
            raise OSError(errno.ENOSPC, "No space left on device")
        real(fd)

    monkeypatch.setattr(os, "fsync", fsync)
    failed = None
    try:
        sample_layer(store, seed=1)
    except LaminarError as error:
        failed = error.code
    monkeypatch.undo()
    assert calls >= fails_at
    assert failed in ("L301", None)  # None: a folder's sync, which not every file system offers
    assert verify(store) == []
    assert list(store.layout.tmp.iterdir()) == []
    assert store.refs.get("digits/head")
    second = sample_layer(store, seed=1)
    assert store.refs.get("digits/head") == second.id
    assert store.refs.state("digits/head").history == (first.id, second.id)


def test_a_file_size_limit_is_an_error_not_a_half_object(tmp_path: Path) -> None:
    """RLIMIT_FSIZE cuts writes short without an error first: every byte must still arrive, or the put fails."""
    store = Store.open(tmp_path / "s")
    first = sample_layer(store)
    old = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (600_000, old[1]))
    try:
        with pytest.raises(OSError, match="File too large"):
            sample_layer(store, tensors=big(3))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, old)
        signal.signal(signal.SIGXFSZ, handler)
    check_still_good(store, first.id)


def test_no_permission(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = Store.open(tmp_path / "s")
    first = sample_layer(store)
    real = os.open

    def refuse(path: object, flags: int, *args: object, **options: object) -> int:
        if flags & os.O_CREAT and ".tmp" in str(path):
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return real(path, flags, *args, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(os, "open", refuse)
    with pytest.raises(LaminarError, match="may not write") as caught:
        sample_layer(store, seed=1)
    assert caught.value.code == "L302"
    monkeypatch.undo()
    check_still_good(store, first.id)


OPEN = """
from pathlib import Path
from laminar.core.errors import LaminarError
from laminar.store.store import Store
try:
    store = Store.open(Path("s/store"))
    store.layer(store.refs.get("digits/head"))
except LaminarError as error:
    print(error.code, error.message, "|", error.hint)
"""


def test_a_folder_one_may_not_write_and_a_file_one_may_not_read(tmp_path: Path) -> None:
    place = tmp_path / "s"
    place.mkdir(mode=0o555)
    said = unprivileged("-c", OPEN, cwd=tmp_path).stdout
    assert said.startswith(
        f"L302 may not write {place / 'store'} (because of {place}): Permission denied | chmod u+rwx {place}, or set LAMINAR"
    )
    place.chmod(0o755)
    layer = sample_layer(Store.open(place / "store"))
    file = place / "store" / "layers" / f"{layer.id}.json"
    file.chmod(0)
    assert f"L302 may not read {file}: Permission denied | chmod u+r {file}" in unprivileged("-c", OPEN, cwd=tmp_path).stdout

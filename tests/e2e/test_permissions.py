"""What may not be read or written: said as such, with the path and the command that helps; and what can be done all the same."""

from __future__ import annotations

import json
import os
import pwd
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from tests.conftest import Example, cli
from tests.unprivileged import unprivileged


def laminar(*words: str, cwd: Path, check: int | None = 0) -> str:
    done = unprivileged("-m", "laminar", *words, cwd=cwd, check=check)
    return done.stderr if check else done.stdout


def close(root: Path) -> None:
    for path in (root, *root.rglob("*")):
        path.chmod(path.stat().st_mode & ~0o222)


def files(root: Path) -> dict[str, tuple[int, int]]:
    return {str(path): (path.stat().st_mtime_ns, path.stat().st_size) for path in root.rglob("*") if path.is_file()}


@pytest.fixture
def read_only(built: Example) -> Iterator[Example]:
    """The store, as on a medium that cannot be written."""
    store = built.root / ".laminar"
    built.build()  # also registers the copied project
    close(store)
    yield built
    for path in (store, *store.rglob("*")):
        path.chmod(path.stat().st_mode | 0o200)


def test_what_a_read_only_store_can_do(read_only: Example, tmp_path: Path) -> None:
    before = files(read_only.root / ".laminar")
    assert "0 built, 2 layers reused" in laminar("build", cwd=read_only.root)
    assert "nothing to build" in laminar("status", cwd=read_only.root)
    assert "stands on strokes" in laminar("show", "head", cwd=read_only.root)
    assert "digits/head" in laminar("log", cwd=read_only.root)
    assert "all as it was written" in laminar("verify", cwd=read_only.root)
    assert "objects sent" in laminar("push", str(tmp_path / "shared"), "head", cwd=read_only.root)
    assert "0 objects sent" in laminar("push", "--check", str(tmp_path / "shared"), "head", cwd=read_only.root)
    assert files(read_only.root / ".laminar") == before
    assert (tmp_path / "shared" / "refs" / "digits" / "head.json").exists()


STANDING = """
from pathlib import Path
from laminar.dashboard.runs import RunList
from laminar.store.store import Store
print({run.run: run.state for run in RunList().all(Store.open(Path(".laminar"), create=False)) if run.layer == "made up"})
"""


def test_who_may_only_look_sees_which_builds_live(built: Example) -> None:
    store = built.store()
    root = store.root
    for name in ("killed", "working"):
        (root / "runs" / name).mkdir()
        (root / "runs" / name / "run.json").write_text('{"stack": "digits", "layer": "made up"}')
    lost = store.lease(runs=["killed"])
    assert lost._lock is not None
    lost._lock.release()  # as when its process is killed: the lease stays
    with store.lease(runs=["working"]):
        close(root)
        try:
            said = unprivileged("-c", STANDING, cwd=built.root).stdout
        finally:
            for path in (root, *root.rglob("*")):
                path.chmod(path.stat().st_mode | 0o200)
    assert said.strip() == "{'working': 'live', 'killed': 'ended'}"


def test_a_store_without_layers_yet(read_only: Example) -> None:
    """Status of a layer that was never built asks for its run, and makes none."""
    read_only.edit("laminar.toml", "lr = 0.01", "lr = 0.02", count=2)
    assert "would train 2 of 2" in laminar("status", cwd=read_only.root)
    said = laminar("build", cwd=read_only.root, check=3)
    assert "error L302: may not write" in said
    assert "chmod u+rwx" in said
    assert "LAMINAR_STORE" in said


def test_a_file_that_may_not_be_read(built: Example) -> None:
    store = built.store()
    path = store.layout.layer(store.refs.get("digits/head"))
    path.chmod(0)
    said = laminar("show", "head", cwd=built.root, check=3)
    assert f"error L302: may not read {path}: Permission denied" in said
    assert f"chmod u+r {path}" in said
    path.chmod(0o644)
    path.parent.chmod(0o600)  # its folder may be listed, but not entered
    said = laminar("show", "head", cwd=built.root, check=3)
    path.parent.chmod(0o755)
    assert f"may not reach {path} (because of {path.parent})" in said
    assert f"chmod u+rwx {path.parent}" in said


def test_an_object_that_may_not_be_read_is_not_lost(built: Example) -> None:
    store = built.store()
    path = store.objects.path(store.layer(store.refs.get("digits/head")).tensors["head.1.weight"].digest)
    path.chmod(0)
    (found,) = json.loads(unprivileged("-m", "laminar", "verify", "--json", cwd=built.root, check=3).stdout)["findings"]
    assert found["problem"] == "unreadable"
    assert f"chmod u+r {path}" in found["detail"]
    said = laminar("evaluate", "head", "--data", "odd", cwd=built.root, check=3)
    assert f"error L302: may not read {path}" in said
    assert "made readable again" in laminar("verify", "--repair", cwd=built.root)
    assert list((built.root / ".laminar" / "lost").iterdir()) == []
    laminar("verify", cwd=built.root)


@pytest.mark.parametrize("name", ["out.safetensors", "out.pt2", "out.onnx"])
def test_export_into_a_folder_that_may_not_be_written(built: Example, name: str) -> None:
    folder = built.root / "closed"
    folder.mkdir(mode=0o555)
    said = laminar("export", "head", f"closed/{name}", cwd=built.root, check=3)
    assert "error L302: may not write" in said
    assert f"chmod u+rwx {folder}" in said or "chmod u+rwx closed" in said
    assert "LAMINAR_STORE" not in said
    assert os.listdir(folder) == []


def test_another_folder_than_the_store_is_not_blamed_on_it(built: Example) -> None:
    (built.root / "closed").mkdir(mode=0o555)
    for words in (["report", "--out", "closed/page.html"], ["init", "closed/new"]):
        said = laminar(*words, cwd=built.root, check=3)
        assert "error L302: may not write" in said
        assert "chmod u+rwx" in said
        assert "LAMINAR_STORE" not in said


def test_doctor_says_what_to_do(read_only: Example) -> None:
    said = json.loads(unprivileged("-m", "laminar", "doctor", "--json", cwd=read_only.root, check=2).stdout)
    (bad,) = (check for check in said["checks"] if check["state"] == "bad")
    assert "may not be written" in bad["said"]
    assert bad["fix"].startswith(f"chmod u+rwx {read_only.root / '.laminar'}, or set LAMINAR_STORE")


@pytest.fixture
def of_somebody_else(built: Example) -> Iterator[Example]:
    """The whole project belongs to another user, who lets everybody read it."""
    if os.geteuid() != 0:
        pytest.skip("only root may give files away")
    built.build()
    for path in (built.root, *built.root.rglob("*")):
        os.chown(path, SOMEBODY, SOMEBODY)
    yield built
    for path in (built.root, *built.root.rglob("*")):
        os.chown(path, os.geteuid(), os.getegid())


SOMEBODY = 65534  # of whom every system has a name


def test_a_guest_reads_everything_and_is_told_whom_to_ask(of_somebody_else: Example, tmp_path: Path) -> None:
    root = of_somebody_else.root
    before = files(root / ".laminar")
    np.save(tmp_path / "sample.npy", np.zeros((1, 1, 8, 8), np.uint8))
    assert "nothing to build" in laminar("status", cwd=root)
    assert "stands on strokes" in laminar("show", "head", cwd=root)
    assert "test samples of odd" in laminar("evaluate", "head", cwd=root)
    assert "sample.npy" in laminar("predict", "head", str(tmp_path / "sample.npy"), cwd=root)
    assert "0 built, 2 layers reused" in laminar("build", cwd=root)
    assert files(root / ".laminar") == before
    said = laminar("tag", "head", "v1", cwd=root, check=3)
    assert f"ask {pwd.getpwuid(SOMEBODY).pw_name}, who owns it, for permission to write to" in said
    assert "sudo" not in said and "chown" not in said
    (bad,) = (check for check in json.loads(laminar_json("doctor", cwd=root))["checks"] if check["state"] == "bad")
    assert "sudo" not in bad["fix"] and "LAMINAR_STORE" in bad["fix"]


def laminar_json(*words: str, cwd: Path) -> str:
    return unprivileged("-m", "laminar", *words, "--json", cwd=cwd, check=None).stdout


@pytest.mark.parametrize("verb", [["log"], ["show", "head"], ["evaluate", "head"]])
def test_an_empty_folder_is_called_so(verb: list[str], tmp_path: Path) -> None:
    failed = cli(*verb, cwd=tmp_path, check=2)
    assert f"neither a laminar.toml nor a store (.laminar) in {tmp_path}" in failed.stderr
    assert "laminar init" in failed.stderr and not (tmp_path / ".laminar").exists()


@pytest.mark.parametrize("verb", [["log"], ["show", "head"]])
def test_a_stack_that_was_never_built_is_called_so(verb: list[str], example: Example) -> None:
    failed = example.cli(*verb, check=3)
    assert "nothing has been built here yet" in failed.stderr and "fix: laminar build" in failed.stderr

"""An agent's folder is filled and followed, and the chief's copy is the same at the end and makes sense in between."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from laminar.core import digest
from laminar.launch.messages import Changed
from laminar.launch.run_files import RunFiles
from laminar.launch.workspace import CHUNK, BadPath, Workspace, inside

RUN = "store/runs/r"


def ship(workspace: Workspace, files: dict[str, bytes]) -> list[str]:
    wanted = workspace.expect([(path, digest.of_bytes(data), len(data)) for path, data in files.items()])
    for path in wanted:
        for at in range(0, max(1, len(files[path])), CHUNK):
            part = files[path][at : at + CHUNK]
            workspace.receive(path, at, memoryview(part), last=at + len(part) >= len(files[path]))
    return wanted


def tell(workspace: Workspace, chief: RunFiles) -> list[str]:
    told = []
    for said, data in workspace.changes():
        told.append(said.path)
        chief.changed(said, memoryview(data)) if isinstance(said, Changed) else chief.removed(said)
    return told


def contents(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_only_what_is_missing_is_wanted_and_what_is_not_expected_goes(tmp_path: Path) -> None:
    workspace = Workspace(tmp_path)
    assert sorted(ship(workspace, {"a": b"1", "b/c": b"2" * (CHUNK + 5)})) == ["a", "b/c"]
    assert ship(workspace, {"a": b"1", "b/c": b"other"}) == ["b/c"]
    assert ship(workspace, {"a": b"1"}) == []
    assert contents(tmp_path) == {"a": b"1"}


def test_a_file_that_is_not_what_was_announced_is_refused(tmp_path: Path) -> None:
    workspace = Workspace(tmp_path)
    workspace.expect([("a", digest.of_bytes(b"one"), 3)])
    with pytest.raises(ValueError, match="not what was announced"):
        workspace.receive("a", 0, memoryview(b"two"), last=True)
    assert not (tmp_path / "a").exists()


@pytest.mark.parametrize("path", ["../a", "/etc/passwd", "a/../../b", "", "a\\..\\b", "a\0b"])
def test_paths_that_lead_out_are_refused(tmp_path: Path, path: str) -> None:
    with pytest.raises(BadPath):
        inside(tmp_path, path)
    with pytest.raises(BadPath):
        RunFiles(tmp_path).changed(Changed(path=path, at=0, size=1, whole=True), memoryview(b"1"))


def test_events_come_first_the_pointer_last_and_removals_after(tmp_path: Path) -> None:
    workspace, chief = Workspace(tmp_path / "agent"), RunFiles(tmp_path / "chief")
    ship(workspace, {f"{RUN}/checkpoint-1.safetensors": b"old", f"{RUN}/checkpoint.json": b"1", f"{RUN}/events.jsonl": b"a\n"})
    chief.folder.mkdir()
    (chief.folder / "checkpoint-1.safetensors").write_bytes(b"old")
    workspace.follow(RUN)
    run = tmp_path / "agent" / RUN
    assert tell(workspace, chief) == []
    (run / "checkpoint-2.safetensors").write_bytes(b"new")
    (run / "events.jsonl").write_bytes(b"a\nb\n")
    (run / "checkpoint.json").write_bytes(b"2")
    (run / "checkpoint-1.safetensors").unlink()
    (run / ".checkpoint-3.tmp").write_bytes(b"half")
    assert tell(workspace, chief) == ["events.jsonl", "checkpoint-2.safetensors", "checkpoint.json", "checkpoint-1.safetensors"]
    assert contents(chief.folder) == {"events.jsonl": b"a\nb\n", "checkpoint-2.safetensors": b"new", "checkpoint.json": b"2"}
    with open(run / "events.jsonl", "ab") as file:
        file.write(b"c\n")
    ((said, data),) = workspace.changes()
    assert isinstance(said, Changed)
    assert (said.at, said.whole, data) == (4, False, b"c\n"), "what has grown is told from where it grew"


def test_a_large_file_is_seen_as_a_whole(tmp_path: Path) -> None:
    workspace, chief = Workspace(tmp_path / "agent"), RunFiles(tmp_path / "chief")
    workspace.follow(RUN)
    data = os.urandom(2 * CHUNK + 7)
    (tmp_path / "agent" / RUN / "checkpoint-1.safetensors").write_bytes(data)
    parts = list(workspace.changes())
    assert len(parts) == 3
    for said, part in parts:
        assert not (chief.folder / "checkpoint-1.safetensors").exists()
        assert isinstance(said, Changed)
        chief.changed(said, memoryview(part))
    assert contents(chief.folder) == {"checkpoint-1.safetensors": data}


def test_a_file_that_is_replaced_twice_and_looks_as_if_it_had_grown_is_told_as_a_whole(tmp_path: Path) -> None:
    """The system gives the number of the first one to the third."""
    workspace, chief = Workspace(tmp_path / "agent"), RunFiles(tmp_path / "chief")
    workspace.follow(RUN)
    pointer = tmp_path / "agent" / RUN / "checkpoint.json"
    pointer.write_bytes(b"one")
    tell(workspace, chief)
    pointer.write_bytes(b"third")  # in place: the same number, whatever the file system
    tell(workspace, chief)
    assert contents(chief.folder) == {"checkpoint.json": b"third"}


Act = tuple[str, str, bytes]
NAMES = ["a", "b", "events.jsonl"]


@given(
    st.lists(
        st.tuples(st.sampled_from(["append", "replace", "cut", "remove", "tell", "ship"]), st.sampled_from(NAMES), st.binary(max_size=9)),
        max_size=40,
    )
)
@settings(derandomize=True, max_examples=60, deadline=None)
def test_the_copy_is_what_was_written(tmp_path_factory: pytest.TempPathFactory, acts: list[Act]) -> None:
    """Files are replaced and removed, or grow; one is cut only after a shipment, as a resumed run does."""
    top = tmp_path_factory.mktemp("copy")
    workspace, chief = Workspace(top / "agent"), RunFiles(top / "chief")
    chief.folder.mkdir()
    workspace.follow(RUN)
    run, may_cut = top / "agent" / RUN, set[str]()
    for act, name, data in acts:
        file = run / name
        match act:
            case "append":
                with open(file, "ab") as out:
                    out.write(data)
            case "replace" if name != "events.jsonl":
                (run / ".new").write_bytes(data)
                os.replace(run / ".new", file)
            case "cut" if name in may_cut and file.exists():
                os.truncate(file, min(len(data), file.stat().st_size))
                may_cut.discard(name)
            case "remove" if name != "events.jsonl":
                file.unlink(missing_ok=True)
            case "tell":
                tell(workspace, chief)
                may_cut.clear()
            case "ship":
                tell(workspace, chief)
                ship(workspace, {f"{RUN}/{path}": data for path, data in contents(chief.folder).items()})
                workspace.follow(RUN)
                may_cut = set(NAMES)
            case _:
                pass
    tell(workspace, chief)
    assert contents(chief.folder) == contents(run)


def test_files_are_borrowed_until_the_next_shipment(tmp_path: Path) -> None:
    workspace = Workspace(tmp_path / "agent")
    (tmp_path / "rows").write_bytes(b"theirs")
    workspace.borrow([("store/features/k/t0.bin", str(tmp_path / "rows"))])
    link = tmp_path / "agent/store/features/k/t0.bin"
    assert link.read_bytes() == b"theirs"
    workspace.borrow([])
    assert not link.is_symlink()
    assert (tmp_path / "rows").read_bytes() == b"theirs"
    with pytest.raises(BadPath):
        workspace.borrow([("../out", str(tmp_path / "rows"))])

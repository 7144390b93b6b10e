"""A store is not made by looking at it, says what gc took from its history, and is mended whatever file was hit."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tests.conftest import Example, write_example


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 4
    path.chmod(0o644)
    path.write_bytes(data)


@pytest.mark.parametrize(
    ("words", "exit_code"),
    [
        (["status"], 0),
        (["status", "--json"], 0),
        (["explain", "head"], 0),
        (["build", "--dry-run"], 0),
        (["remote"], 0),
        (["doctor"], None),
    ],
)
def test_looking_makes_no_store(example: Example, words: list[str], exit_code: int | None) -> None:
    done = example.cli(*words, check=exit_code)
    assert "L900" not in done.stderr
    assert not (example.root / ".laminar").exists()


def test_status_asks_a_remote_and_pulls_nothing(built: Example, tmp_path: Path) -> None:
    built.cli("push", str(tmp_path / "shared"), "strokes")
    id = built.store().refs.get("digits/strokes")
    child = write_example(tmp_path / "child")
    text = child.toml.read_text()
    first, second = text.index("[[layer]]"), text.rindex("[[layer]]")
    child.toml.write_text(text[:first] + text[second:].replace('from = "strokes"', 'from = "../shared#strokes"'))
    done = child.cli("status")
    assert "../shared was asked which layer that is; nothing was pulled" in done.stdout
    assert not (child.root / ".laminar").exists()
    key = json.loads(child.cli("status", "--json").stdout)["layers"][0]["key"]
    child.edit("laminar.toml", "#strokes", f"#strokes@sha256:{id}")
    shutil.move(tmp_path / "shared", tmp_path / "away")  # an id that is pinned needs nobody
    done = child.cli("status")
    assert "was asked" not in done.stdout
    assert json.loads(child.cli("status", "--json").stdout)["layers"][0]["key"] == key
    shutil.move(tmp_path / "away", tmp_path / "shared")
    assert child.actions() == {"head": "built"}
    assert child.store().complete(id)


def test_going_back_to_what_gc_took(example: Example) -> None:
    old = example.build()["head"].id
    example.edit("laminar.toml", "seed = 0, threads = 1 }   # quick", "seed = 1, threads = 1 }   # quick")
    example.build()
    example.cli("gc", "--keep", "1", "--now")
    store = example.store()
    assert not store.has_layer(old)
    for target in ("head", "head~1", old[:12], f"head@{old[:12]}"):
        said = example.cli("rollback", target, check=2).stderr
        assert "error L010" in said, target
        assert f"{old[:12]} was digits/head once, but is no longer in the store (gc --keep lets old layers go)" in said
        assert "no earlier layer of digits/head is left to go back to" in said
    said = example.cli("show", old[:12], check=3).stderr
    assert "error L305" in said
    assert "gc --keep lets old layers go" in said
    assert "no longer here" in example.cli("log").stdout
    example.cli("verify")


def test_a_lost_or_damaged_format_is_mended(built: Example) -> None:
    path = built.root / ".laminar" / "format"
    for content in (None, "3\n", "q\n"):
        path.unlink()
        if content is not None:
            path.write_text(content)
        said = built.cli("show", "head", check=3).stderr
        assert "error L306" in said
        assert "laminar verify --repair" in said
        assert "format" in built.cli("verify", check=3).stdout
        assert "all mended" in built.cli("verify", "--repair").stdout
        assert path.read_text() == "1\n"
    assert set(built.actions().values()) == {"cached"}


def test_every_file_of_a_built_store_is_covered(built: Example) -> None:
    """A flipped bit, or a deleted file, of each kind that a real build writes; without any remote."""
    root = built.root / ".laminar"
    records = sorted((root / "keys").glob("*.json"))
    histories = sorted((root / "runs").glob("*/events.jsonl"))
    boards = sorted((root / "runs").glob("*/tensorboard/*"))
    notes = [path for path in (root / "runs").glob("*/*") if path.name in ("run.json", "features")]
    assert len(records) == len(histories) == len(boards) == 2
    assert notes
    for victim in (*histories, *boards, *notes, root / "index", *(root / "fingerprints").glob("*.json")):
        before = victim.read_bytes()
        flip(victim)
        found = json.loads(built.cli("verify", "--json", check=3).stdout)["findings"]
        assert [one["path"] for one in found] == [str(victim)]
        victim.write_bytes(before)
    records[0].unlink()
    flip(records[1])
    flip(histories[0])
    flip(root / "index")
    said = json.loads(built.cli("verify", "--repair", "--json").stdout)
    assert said["rebuilt"] == said["left"] == []
    assert {Path(one["path"]).name for one in said["mended"]} == {records[0].name, records[1].name, "events.jsonl", "index"}
    built.cli("verify")
    assert set(built.actions().values()) == {"cached"}

"""An experiment whose files somebody has damaged: it is named, and the others are listed and shown as before."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from laminar.cli import experiment_compare, experiment_list, experiment_report, experiment_show
from laminar.core.errors import LaminarError
from laminar.experiments import files
from laminar.experiments.files import EXPERIMENT
from laminar.experiments.listing import listed, read_view
from laminar.store.store import Store
from laminar.store.trial_layers import TRIALS
from tests.pure.experiments import made_up_experiments


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    """Three experiments."""
    found = Store.open(tmp_path / ".laminar")
    for name in ("first", "middle", "last"):
        described, trials = made_up_experiments.cores()
        files.write_description(found, msgspec.structs.replace(described, name=name))
        for one in trials:
            files.append_trial(found, name, one)
    monkeypatch.chdir(tmp_path)
    return found


@pytest.mark.parametrize("file", [EXPERIMENT, TRIALS])
@pytest.mark.parametrize("content", [b"", b"{}\n", b"[1,\n", b"\xff\xfe\n", b"\0" * 64 + b"\n", b'{"name": 3}\n'])
def test_one_damaged_experiment_does_not_hide_the_others(
    store: Store, file: str, content: bytes, capsys: pytest.CaptureFixture[str]
) -> None:
    (store.layout.experiments / "middle" / file).write_bytes(content)
    whole = file == TRIALS and not content  # no trials yet
    experiment_list.run(json=True)
    told = json.loads(capsys.readouterr().out)
    assert {one["name"]: bool(one["error"]) for one in told} == {"first": False, "middle": not whole, "last": False}
    assert [one["done"] > 0 for one in sorted(told, key=lambda one: str(one["name"]))] == [True, True, False]
    experiment_list.run()
    shown = capsys.readouterr()
    assert all(name in shown.out for name in ("first", "middle", "last"))
    assert ("damaged" in shown.out) is not whole
    if whole:
        assert not shown.err
        return
    path = str(store.layout.experiments / "middle" / file)
    assert path in " ".join(shown.err.split())
    assert "laminar experiment rm middle" in " ".join(shown.err.split())
    for verb in (
        lambda: experiment_show.run("middle"),
        lambda: experiment_compare.run("first", "middle"),
        lambda: experiment_report.run("middle", html=Path("page.html")),
    ):
        with pytest.raises(LaminarError) as caught:
            verb()
        assert caught.value.code == "L303"
        assert path in caught.value.message
    assert not Path("page.html").exists()
    experiment_show.run("first")
    experiment_compare.run("first", "last")
    files.remove(store, "middle")
    experiment_list.run()
    assert "middle" not in capsys.readouterr().out


def test_a_folder_where_a_file_should_be(store: Store, capsys: pytest.CaptureFixture[str]) -> None:
    path = store.layout.experiments / "middle" / TRIALS
    path.unlink()
    path.mkdir()
    experiment_list.run()
    assert "damaged" in capsys.readouterr().out


def test_a_folder_with_no_name_for_an_experiment(store: Store, capsys: pytest.CaptureFixture[str]) -> None:
    (store.layout.experiments / "middle").rename(store.layout.experiments / "middle (copy)")
    experiment_list.run()
    shown = capsys.readouterr()
    assert "middle (copy)" in shown.out
    assert "no usable name" in " ".join(shown.err.split())


def places(value: Any, at: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    yield at
    inner = value.items() if isinstance(value, dict) else enumerate(value[:1]) if isinstance(value, list) else ()
    for name, one in inner:
        yield from places(one, (*at, name))


def put(document: Any, at: tuple[str | int, ...], value: Any) -> Any:
    if not at:
        return value
    changed = copy.deepcopy(document)
    inner = changed
    for step in at[:-1]:
        inner = inner[step]
    inner[at[-1]] = value
    return changed


@pytest.mark.parametrize("file", [EXPERIMENT, TRIALS])
def test_whatever_stands_anywhere_in_it_it_is_read_or_named(store: Store, file: str) -> None:
    path = store.layout.experiments / "middle" / file
    text = path.read_text()
    rest = "" if file == EXPERIMENT else text.partition("\n")[2]
    document = json.loads(text if file == EXPERIMENT else text.partition("\n")[0])
    seen = set()
    for at in places(document):
        for value in (None, -1, 0.5, "word", [], {}, [1], {"a": 1}):
            path.write_text(json.dumps(put(document, at, value)) + "\n" + rest)
            seen.add(bool(listed("middle", lambda name: read_view(store, name)).error))
    assert seen == {True, False}

"""Keys are never stale: seed n is row n of the table in tests/key_rows.py, built by the command line, changed, and built again.

A row fails where a changed layer was reused without a word (stale), where the truth beside the row is not what `--force` shows, or where a
command fails. It returns "right" or "needless" (trained although nothing changed). Commands run in processes of their own: forked from one
that has loaded torch, or cold where a row says so.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from tests import warm
from tests.key_rows import ROWS, Files, Row

REST_SECONDS = 2.2  # files that are younger are read anew each time, which would hide that what is remembered of them is stale
_FOLDER: list[Path] = []


class Failed(AssertionError):
    """A command of a row ended in an error."""


def check(seed: int) -> str:
    row = ROWS[seed % len(ROWS)]
    place = _folder() / str(seed % len(ROWS))
    project = place / "project"
    first = _build(project, row, row.env)
    _write(project, row.after)
    env = row.env if row.env_after is None else row.env_after
    second = _build(project, row, env)
    trained = second["action"] == "built"
    forced = second if trained else _build(project, row, env, "--force")
    shutil.rmtree(place)
    _prepare(place, row)  # for the next time
    assert (forced["id"] != first["id"]) == row.changes, f"{row.name}: the truth beside it says {row.changes}, but --force says otherwise"
    if row.changes and not trained:
        assert row.warns and any(note.startswith("warning") for note in second["notes"]), f"{row.name}: a stale layer was reused"
        return "warned"
    return "needless" if trained and not row.changes else "right"


def close() -> None:
    while _FOLDER:
        shutil.rmtree(_FOLDER.pop())


def _folder() -> Path:
    """The projects of all rows, written at once, so that all but the first are at rest when their turn comes."""
    if not _FOLDER:
        _FOLDER.append(Path(tempfile.mkdtemp(prefix="laminar-keys-")))
        for number, row in enumerate(ROWS):
            _prepare(_FOLDER[0] / str(number), row)
    return _FOLDER[0]


def _prepare(place: Path, row: Row) -> None:
    _write(place / "project", row.before)
    (place / "written").touch()


def _write(project: Path, files: Files) -> None:
    project.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        path = project / name
        if content is None:
            path.unlink()
            if not any(path.parent.iterdir()):
                path.parent.rmdir()
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content())


def _build(project: Path, row: Row, env: Any, *words: str) -> dict[str, Any]:
    """The last layer of the stack, as `build --json` reports it."""
    _wait_for_rest(project.parent / "written")
    command = [sys.executable, "-m", "laminar", "build", "-q", "--json", *words]
    environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1"} | dict(env)
    if "PYTHONPATH" in env:
        own = os.environ.get("PYTHONPATH")
        environment["PYTHONPATH"] = os.pathsep.join([str((project / env["PYTHONPATH"]).resolve()), *([own] if own else [])])
    run = subprocess.run if row.cold else warm.run
    done = run(command, cwd=project, env=environment, capture_output=True, timeout=300)  # type: ignore[operator]
    if done.returncode:
        raise Failed(f"{row.name}: {' '.join(command[2:])} ended with {done.returncode}: {done.stderr.decode()[-1500:]}")
    layers: list[dict[str, Any]] = json.loads(
        done.stdout[done.stdout.index(b"{\n") if b"{\n" in done.stdout else done.stdout.rindex(b'{"stack') :]
    )["layers"]
    return layers[-1]


def _wait_for_rest(written: Path) -> None:
    while (left := written.stat().st_mtime + REST_SECONDS - time.time()) > 0:
        time.sleep(left)

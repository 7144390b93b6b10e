"""What a node needs, and no more: it joins, works and leaves where there is no server, no database and no client library to be imported."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

from laminar.grid.extra import GRID, NODE
from tests.multi.grid.served import commands
from tests.multi.grid.test_grid_commands import STACK

ROOT = Path(__file__).parents[3]
NOT_THERE = ("aiohttp", "httptools", "httpx", "requests", "sqlalchemy", "starlette", "uvicorn")


def test_the_extra_names_what_a_node_looks_for() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    names = {extra: {re.split(r"[>=\[]", wanted)[0] for wanted in extras[extra]} for extra in ("node", "grid")}
    assert names["node"] == set(NODE) and names["grid"] == set(GRID) and names["node"] < names["grid"]


def test_a_node_works_where_nothing_else_is_installed(tmp_path: Path) -> None:
    """Its keeper and the process that computes, from the first word to the last."""
    without = tmp_path / "without"
    without.mkdir()
    (without / "sitecustomize.py").write_text(f"import sys\nsys.modules.update(dict.fromkeys({NOT_THERE}))\n")
    path = {"PYTHONPATH": str(without)}
    with commands(tmp_path) as grid:
        (tmp_path / "laminar.toml").write_text(STACK)
        grid.serve()
        missing = grid._start("grid", "serve", before=["env", f"PYTHONPATH={without}"], stderr=subprocess.PIPE)
        assert missing.wait(60) == 2
        assert "the grid needs httptools, httpx, sqlalchemy, starlette, uvicorn" in missing.stderr.read()  # so they are really hidden
        node = grid.join("n0", "--tasks", "1", before=["env", *(f"{name}={value}" for name, value in path.items())])
        train = grid.train("net", "--rounds", "1", "--workers", "1", "--local-steps", "2")
        out, errors = train.communicate(timeout=120)
        assert train.returncode == 0, errors
        assert node.wait(60) == 0 and out, node.stderr.read()
        words = ["env", *(f"{name}={value}" for name, value in path.items()), sys.executable, "-m", "laminar"]
        left = subprocess.run([*words, "grid", "leave", "--home", "n0"], cwd=tmp_path, capture_output=True, text=True, check=False)
        assert left.returncode == 0 and left.stdout.startswith("left: "), left.stderr

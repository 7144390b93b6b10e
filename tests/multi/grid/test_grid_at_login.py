"""`laminar grid join --at-login` and `laminar grid leave`, as an owner has them."""

from __future__ import annotations

import json
import signal
import sys
from pathlib import Path

import pytest

from tests.multi.grid.served import commands
from tests.multi.grid.test_grid_commands import STACK


@pytest.mark.skipif(sys.platform != "linux", reason="looks where Linux keeps it")
def test_a_node_starts_at_login_until_it_leaves(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    project = tmp_path / "project"
    project.mkdir()
    (project / "laminar.toml").write_text(STACK)
    with commands(project) as grid:
        grid.serve()
        node = grid.join("n0", "--at-login", "--memory", "1G", "--hours", "0-23:59", "--battery")
        said = [next(node.stderr) for _ in range(3)]
        (entry,) = [path for path in (tmp_path / "config").rglob("laminar-node*") if path.is_file() and not path.is_symlink()]
        assert f"{entry}\n" in said[0] + said[1] and any("laminar grid leave" in line for line in said)
        written = entry.read_text()
        assert all(word in written for word in (sys.executable, str(project / "n0"), "--memory 1G", "--hours 0-23:59", "--battery"))
        assert grid.told["token"] not in written
        grid.wait_for(lambda: grid.ask("/v1/nodes"))
        busy = grid.run("grid", "leave", "--home", str(project / "n0"))
        assert busy.returncode == 5 and "another process is the node" in busy.stderr  # it says to end it first
        assert not entry.exists()
        node.send_signal(signal.SIGINT)
        assert node.wait(30) == 0
        left = grid.run("grid", "leave", "--home", str(project / "n0"), "--json")
        assert left.returncode == 0, left.stderr
        assert json.loads(left.stdout) == {"brought": 0, "given_back": 0, "handed_in": 0, "refused": 0}
        again = grid.run("grid", "join", "--home", str(project / "n0"))
        assert again.returncode == 5 and "has joined no grid yet" in again.stderr

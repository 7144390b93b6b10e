"""A grid as its users have it: commands in folders, processes that are killed."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import psutil
import pytest

from tests.multi.grid.served import Commands, commands

STACK = """\
[stack]
name = "grid"

[data.digits]
source = "digits"

[[layer]]
name = "net"
model = "laminar:mlp"
args = { hidden = [32] }
data = "digits"
train = { epochs = 4, batch = 32, optimizer = "sgd", lr = 0.1, seed = 0, threads = 1 }
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "laminar.toml").write_text(STACK)
    return folder


def counted(grid: Commands) -> dict[str, object]:
    told = grid.ask("/v1/status")
    found: dict[str, object] = told["runs"][0] if told["runs"] else {"version": -1}
    return found


def test_a_layer_is_trained_by_nodes_that_join_and_leave(project: Path) -> None:
    with commands(project) as grid:
        server = grid.serve()
        nodes = [grid.join(f"n{i}") for i in range(2)]
        train = grid.train("net", "--rounds", "8", "--workers", "2", "--local-steps", "10")
        out, errors = train.communicate(timeout=120)
        assert train.returncode == 0, errors
        (layer,) = json.loads(out)["layers"]
        assert layer["metrics"]["accuracy"] > 0.6
        status = json.loads(grid.run("grid", "status", "--json").stdout)
        assert status["nodes"]["known"] == 2 and status["runs"][0]["state"] == "done" and status["runs"][0]["version"] == 8
        assert status["runs"][0]["trust"]["checks"] > 0 and status["runs"][0]["refused"] == {}
        known = json.loads(grid.run("grid", "nodes", "--json").stdout)
        assert all(node["valid"] > 0 and node["credit"] > 0 and node["facts"]["torch"] for node in known)
        assert len(json.loads(grid.run("grid", "rounds", "--json").stdout)) == 8
        assert json.loads(grid.run("grid", "tasks", "--json").stdout)[0]["state"] == "valid"
        for words in (["status"], ["nodes"], ["tasks"], ["rounds"], ["token"]):
            assert grid.run("grid", *words).returncode == 0
        shown = json.loads(grid.run("show", "net", "--json").stdout)
        assert shown["provenance"]["on"]["launcher"] == "grid"
        assert grid.run("grid", "ban", "n0", "--why", "noisy").returncode == 0
        assert nodes[0].wait(40) == 5  # it is told, and ends
        assert "noisy" in nodes[0].stderr.read()
        nodes[1].send_signal(signal.SIGINT)
        assert nodes[1].wait(30) == 0
        server.send_signal(signal.SIGTERM)
        assert server.wait(30) == 0
        assert not (project / ".laminar" / "grid" / "server.json").exists()
        assert server.stderr.read() == ""


def test_the_server_is_killed_and_comes_back(project: Path) -> None:
    with commands(project) as grid:
        server = grid.serve()
        port = grid.told["url"].rpartition(":")[2]
        for i in range(2):
            grid.join(f"n{i}")
        words = ("net", "--rounds", "30", "--workers", "2", "--local-steps", "5")
        train = grid.train(*words)
        for version in (3, 10):
            grid.wait_for(lambda version=version: int(counted(grid)["version"]) >= version)  # type: ignore[misc, call-overload]
            server.kill()
            server.wait()
            if version == 10:  # whoever watches may end, too, and come back
                train.kill()
                train.communicate()
                train = grid.train(*words)
                assert train.wait(60) == 5 and "cannot be reached" in train.stderr.read()  # a server that is not there from the start
            server = grid.serve("--port", port)
            assert version == 10 or train.poll() is None  # it has waited
        train = grid.train(*words)
        out, errors = train.communicate(timeout=120)
        assert train.returncode == 0, errors
        run = counted(grid)
        assert run["version"] == 30 and run["refused"] == {} and run["applied"] == 60
        assert run["steps"] == 60 * 5
        assert json.loads(out)["layers"][0]["metrics"]["accuracy"] > 0.6


def test_a_node_that_is_killed_goes_on_with_its_task(project: Path) -> None:
    with commands(project) as grid:
        grid.serve()
        node = grid.join("n0")
        train = grid.train("net", "--rounds", "12", "--workers", "1", "--local-steps", "5", "--replicate", "never")
        grid.wait_for(lambda: int(counted(grid)["version"]) >= 2)  # type: ignore[call-overload]
        node.kill()
        node.wait()
        again = grid.join("n0")
        out, errors = train.communicate(timeout=120)
        assert train.returncode == 0, errors
        assert again.poll() is None
        assert len(json.loads(grid.run("grid", "nodes", "--json").stdout)) == 1
        run = counted(grid)
        assert run["version"] == 12 and run["lost"] == 0
        assert out


def test_a_node_rests_when_its_owner_says_so(project: Path) -> None:
    with commands(project) as grid:
        grid.serve()
        node = grid.join("n0")
        grid.train("net", "--rounds", "10000", "--workers", "1", "--local-steps", "2", "--replicate", "never")
        grid.wait_for(lambda: int(counted(grid)["version"]) >= 2)  # type: ignore[call-overload]
        assert grid.run("grid", "pause", "--node", "--home", str(project / "n0")).returncode == 0
        assert any(line == "rests: paused by its owner\n" for line in node.stderr)
        below = psutil.Process(node.pid).children(recursive=True)
        grid.wait_for(lambda: psutil.STATUS_STOPPED in [process.status() for process in below])  # a process stops when it has its turn
        before = counted(grid)["answers"]
        assert grid.run("grid", "status").returncode == 0  # in the time of which a node that works brings several answers
        assert counted(grid)["answers"] == before
        assert grid.run("grid", "resume", "--node", "--home", str(project / "n0")).returncode == 0
        assert node.stderr.readline() == "works\n"
        grid.wait_for(lambda: int(counted(grid)["answers"]) > int(before) + 2)  # type: ignore[call-overload]
        name = str(counted(grid)["name"])
        assert json.loads(grid.run("grid", "pause", name, "--json").stdout) == {"runs": [name], "state": "paused"}
        assert counted(grid)["state"] == "paused"
        grid.wait_for(lambda: not counted(grid)["results"].get("in progress"))  # type: ignore[attr-defined]
        stands = counted(grid)
        assert grid.run("grid", "status").returncode == 0  # as above
        assert counted(grid) == stands
        assert json.loads(grid.run("grid", "resume", "--json").stdout)["runs"] == [name]
        grid.wait_for(lambda: int(counted(grid)["version"]) > int(stands["version"]) + 2)  # type: ignore[call-overload]
        assert json.loads(grid.run("grid", "stop", name, "--json").stdout)["state"] == "stopped"


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["grid", "status"], 5, "no grid is served"),
        (["grid", "train", "net"], 5, "no grid is served"),
        (["grid", "train", "nte"], 2, "did you mean 'net'"),
        (["grid", "train", "net", "--mode", "rouns"], 2, "--help"),
        (["grid", "train", "net", "--robust", "median", "--compress", "dgc"], 2, "only zeros"),
        (["build", "--on", "grid"], 2, "no layer"),
        (["build", "--strategy", "grid"], 5, "none was named"),
        (["build", "--on", "grid://127.0.0.1:1", "--strategy", "grid"], 5, "LAMINAR_GRID_TOKEN"),
        (["grid", "join"], 5, "has joined no grid yet"),
        (["grid", "join", "http://127.0.0.1:1", "--token-file", "laminar.toml"], 5, "has no token"),
        (["grid", "join", "http://127.0.0.1:1", "--token-file", "none"], 5, "--token-file none cannot be read"),
        (["grid", "join", "http://127.0.0.1:1", "--token", "secret"], 2, "--token-file"),
        (["grid", "join", "http://127.0.0.1:1"], 5, "cannot be reached"),
        (["grid", "join", "http://127.0.0.1:1", "--cpu", "0%"], 2, "--cpu 0%"),
        (["grid", "leave"], 5, "has joined no grid"),
        (["grid", "daemon", "validater", "--database", "postgresql://x"], 2, "did you mean 'validator'"),
        (["grid", "daemon", "all", "--database", "sqlite:///x.db"], 2, "SQLite is for one process"),
        (["grid", "simulate", "--churn", "dektop"], 2, "did you mean 'desktop'"),
        (["grid", "simulate", "--adversaries", "many"], 2, "--adversaries many"),
    ],
)
def test_mistakes_are_named(words: list[str], code: int, said: str, project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAMINAR_NODE", str(project / "node"))
    with commands(project) as grid:
        done = grid.run(*words)
        assert done.returncode == code, done.stderr
        assert said in done.stderr and "Traceback" not in done.stderr

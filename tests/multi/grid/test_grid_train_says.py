"""`laminar grid train` says what it waits for, once each time that changes, and what it would lose; and in the events of the run."""

from __future__ import annotations

import signal
import subprocess
from pathlib import Path

from laminar.core.events import read
from tests.multi.grid.served import commands
from tests.multi.grid.test_grid_commands import STACK, counted


def test_a_pause_and_the_lack_of_nodes_are_said_once(tmp_path: Path) -> None:
    (tmp_path / "laminar.toml").write_text(STACK)
    with commands(tmp_path) as grid:
        grid.serve()
        words = ["grid", "train", "net", "--rounds", "3", "--workers", "1", "--local-steps", "2", "--replicate", "never"]
        train = grid._start(*words, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        lines = (line for line in train.stderr if " epoch " not in line)
        assert next(lines) == "net waiting: no node has joined the grid; " + (
            "laminar grid join URL --token-file FILE, as `laminar grid serve` prints it\n"
        )
        name = str(counted(grid)["name"])
        assert grid.run("grid", "pause", name).returncode == 0
        assert next(lines) == f"net waiting: the run is paused: by command; laminar grid resume {name}\n"
        node = grid.join("n0")
        grid.wait_for(lambda: grid.ask("/v1/nodes"))
        assert grid.run("grid", "resume", name).returncode == 0
        assert next(lines) == "net note: the run goes on\n"
        assert [line for line in lines if "waiting" in line] == []
        assert train.wait(60) == 0 and node.poll() is None
        (history,) = (tmp_path / ".laminar" / "runs").glob("*/events.jsonl")
        events = list(read(history))
        assert [event["help"].split()[2] for event in events if event["event"] == "waiting"] == ["join", "resume"]
        assert [event["why"] for event in events if event["event"] == "note"] == ["the run goes on"]


def test_what_would_never_be_sent_is_said_at_the_start_and_kept_with_the_layer(tmp_path: Path) -> None:
    (tmp_path / "laminar.toml").write_text(STACK)
    with commands(tmp_path) as grid:
        grid.serve()
        grid.join("n0")
        words = ["--rounds", "6", "--workers", "1", "--local-steps", "2", "--replicate", "never", "--compress", "topk:sparsity=0.95"]
        done = grid.run("grid", "train", "net", *words)
        assert done.returncode == 0, done.stderr
        said = "a node answers about 6 times, and in all that it sends at most 30.0% of the values, and the rest is lost: "
        assert f"net note: {said}sparsity = 0.66 sends each about twice\n" in done.stderr
        assert f"warning: {said}" in grid.run("show", "net").stdout


def test_a_server_that_is_killed_and_comes_back_elsewhere_is_waited_for(tmp_path: Path) -> None:
    (tmp_path / "laminar.toml").write_text(STACK)
    with commands(tmp_path) as grid:
        server = grid.serve()
        words = ["grid", "train", "net", "--rounds", "3", "--workers", "1", "--local-steps", "2", "--replicate", "never"]
        train = grid._start(*words, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        lines = (line for line in train.stderr if " epoch " not in line)
        assert "no node has joined" in next(lines)
        server.kill()
        server.wait()
        told = next(lines)
        assert told.startswith(f"net waiting: the grid at {grid.told['url']} cannot be reached: ")
        assert told.endswith("; laminar grid serve; the run goes on from where it was\n")
        grid.serve()  # at another port
        assert "no node has joined" in next(lines)
        grid.join("n0")
        assert next(lines) == "net note: the run goes on\n"
        assert train.wait(60) == 0


def test_ctrl_c_ends_the_waiting_for_a_server(tmp_path: Path) -> None:
    (tmp_path / "laminar.toml").write_text(STACK)
    with commands(tmp_path) as grid:
        server = grid.serve()
        train = grid._start("grid", "train", "net", "--rounds", "3", stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        assert "no node has joined" in next(line for line in train.stderr if " epoch " not in line)
        server.kill()
        server.wait()
        assert "cannot be reached" in next(train.stderr)
        train.send_signal(signal.SIGINT)
        assert train.wait(30) == 130 and "the same command watches it again" in train.stderr.read()

"""How a node ends: at Ctrl-C, also while it waits; when its folder is deleted. And whether it rests when its owner was told so."""

from __future__ import annotations

import contextlib
import shutil
import signal
import socket
import threading
import time
from pathlib import Path

import pytest

from laminar.core import digest
from laminar.core.errors import LaminarError
from laminar.grid.node.client import Client, Unreachable
from laminar.grid.node.home import Home
from laminar.grid.node.keeper import Keeper
from laminar.grid.node.limits import Limits
from laminar.grid.node.line import Broken, Line
from laminar.grid.wire.messages import Ask, Work
from laminar.grid.wire.signing import Key
from tests.multi.grid.served import commands
from tests.multi.grid.test_grid_commands import STACK

# Ctrl-C


def test_a_request_that_waits_ends_when_this_side_hangs_up_and_no_other_begins() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        line = Line(f"http://127.0.0.1:{server.getsockname()[1]}")

        def hang_up() -> None:
            there, _ = server.accept()
            there.recv(65536)  # it waits for an answer, and would for 20 s
            line.hang_up()
            there.recv(65536)
            there.close()

        thread = threading.Thread(target=hang_up)
        thread.start()
        with pytest.raises(Broken) as caught:
            line.request("POST", "/v1/work", [b"x"], {}, timeout=20, most=100)
        assert not isinstance(caught.value, TimeoutError)
        thread.join(20)
        with pytest.raises(Broken, match="hung up"):
            line.request("POST", "/v1/work", [b"x"], {}, timeout=20, most=100)


def test_ctrl_c_ends_a_node_that_waits_for_work(tmp_path: Path) -> None:
    (tmp_path / "laminar.toml").write_text(STACK)
    with commands(tmp_path) as grid:
        grid.serve()
        node = grid.join("n0")
        assert node.stderr.readline().endswith("Ctrl-C ends it\n")
        grid.wait_for(lambda: any(one["seen"] > one["enrolled"] for one in grid.ask("/v1/nodes")))  # it asks; the server holds that 20 s
        before = time.monotonic()
        node.send_signal(signal.SIGINT)
        assert node.wait(30) == 0 and time.monotonic() - before < 10
        assert node.stderr.read() == ""  # nothing is wrong


# The folder of a node


def test_a_node_whose_folder_is_deleted_ends_and_says_so(tmp_path: Path) -> None:
    (tmp_path / "laminar.toml").write_text(STACK)
    with commands(tmp_path) as grid:
        grid.serve()
        node = grid.join("n0")
        grid.train("net", "--rounds", "10000", "--workers", "1", "--local-steps", "2", "--replicate", "never")
        grid.wait_for(lambda: any(run["version"] > 1 for run in grid.ask("/v1/status")["runs"]))
        while (tmp_path / "n0").exists():  # it writes there meanwhile
            shutil.rmtree(tmp_path / "n0", ignore_errors=True)
        said = node.stderr.read()
        assert node.wait(60) == 5
        assert f"error L503: the folder {tmp_path / 'n0'} of this node is gone" in said
        assert "laminar grid join URL --token-file FILE" in said


def test_a_folder_that_was_made_again_by_what_was_about_to_be_written_is_gone_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = Home(tmp_path / "n0")
    assert home.key

    def deletes(_: Client, _asked: Ask) -> Work:
        shutil.rmtree(home.root)
        home.keep_file(digest.of_bytes(b"x"), b"x")
        raise Unreachable("it went away")

    monkeypatch.setattr(Client, "work", deletes)
    with (
        contextlib.closing(Client("http://127.0.0.1:9", Key.make())) as client,
        pytest.raises(LaminarError, match="of this node is gone") as caught,
    ):
        Keeper(home, client, Limits(battery=True), "n", lambda _: None).run()
    assert caught.value.code == "L503" and home.has_file(digest.of_bytes(b"x"))


@pytest.mark.parametrize("verb", ["pause", "resume"])
def test_a_node_that_is_not_there_is_not_said_to_rest(verb: str, tmp_path: Path) -> None:
    with commands(tmp_path) as grid:
        done = grid.run("grid", verb, "--node", "--home", "typo")
        assert done.returncode == 5 and "L503: there is no node in typo" in done.stderr
        assert not (tmp_path / "typo").exists()


def test_the_command_that_wakes_a_node_names_its_folder(tmp_path: Path) -> None:
    assert Home(tmp_path / "n0").key
    with commands(tmp_path) as grid:
        assert "until `laminar grid resume --node --home n0`" in grid.run("grid", "pause", "--node", "--home", "n0").stdout
        assert grid.run("grid", "resume", "--node", "--home", "n0").returncode == 0
        assert not (tmp_path / "n0" / "paused").exists()


def test_who_names_the_folder_of_a_node_means_the_node_and_not_all_runs(tmp_path: Path) -> None:
    assert Home(tmp_path / "n0").key
    with commands(tmp_path) as grid:
        assert "rests until" in grid.run("grid", "pause", "--home", "n0").stdout and (tmp_path / "n0" / "paused").exists()
        assert "may work" in grid.run("grid", "resume", "--home", "n0").stdout and not (tmp_path / "n0" / "paused").exists()

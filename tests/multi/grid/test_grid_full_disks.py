"""Disks that are really full, the server's and a node's: what is acknowledged is kept, what is not is brought again when there is room."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from laminar.grid.node.client import Client, Unreachable
from laminar.grid.node.limits import ROOM
from laminar.grid.wire import signing
from laminar.grid.wire.messages import Ask, Facts
from tests.multi.grid.served import commands
from tests.multi.grid.test_grid_commands import STACK
from tests.multi.grid.test_grid_server import error_of, signed
from tests.multi.grid.test_grid_uploads import CHANGE, Line, begin_by_command

SMALL = ["sh", "-c", 'mount -t tmpfs -o "size=$1" laminar "$2" && shift 2 && exec "$@"', "sh"]


def small_disk(folder: Path, size: str) -> list[str]:
    """Words before a command: in its eyes, and nobody else's, `folder` is a disk of that size."""
    folder.mkdir(exist_ok=True)
    words = ["unshare", "-m", *SMALL, size, str(folder)]
    if sys.platform != "linux" or subprocess.run([*words, "true"], capture_output=True, check=False).returncode:
        pytest.skip("a disk of one's own cannot be had here")
    return words


@contextlib.contextmanager
def full(process: Any, folder: Path, left: int = 0) -> Iterator[None]:
    """The disk as that process sees it has so many bytes left."""
    filler = Path(f"/proc/{process.pid}/root{folder}/filler")
    with filler.open("wb", buffering=0) as file:
        for size in (1 << 20, 1 << 12):
            with contextlib.suppress(OSError):
                while file.write(b"x" * size) == size:
                    pass
        file.truncate(file.tell() - left)
    yield
    filler.unlink()


def test_the_disk_of_the_server(tmp_path: Path) -> None:
    store = tmp_path / ".laminar"
    (tmp_path / "laminar.toml").write_text(STACK)
    with commands(tmp_path, before=small_disk(store, "16m")) as grid:
        server = grid.serve()
        grid.root = Path(f"/proc/{server.pid}/root{tmp_path}")
        begin_by_command(grid, "run")
        client = Client(grid.told["url"], signing.Key.make(), pinned=grid.told["key"])
        client.enrol(grid.told["token"], Facts(name="n", cores=1, memory=1 << 30, platform="test", laminar="0"))
        (task,) = client.work(Ask(want=1, wait=20)).tasks
        data = Line.packed(task, CHANGE)
        with full(server, store):
            path = f"/v1/results/{task.result}"
            refused = httpx.put(grid.told["url"] + path, content=data, headers=signed(client, "PUT", path, data))
            assert error_of(refused) == (507, "full")
            with pytest.raises(Unreachable, match="full"):  # so a node tries again, later
                client.answer(task.result, data)
            assert grid.ask("/v1/status")["runs"][0]["answers"] == 0
        assert client.answer(task.result, data).state == "returned"
        assert client.answer(task.result, data).reason == "repeated"
        run = grid.ask("/v1/status")["runs"][0]
        assert (run["state"], run["version"], run["answers"], run["applied"], run["repeated"]) == ("done", 1, 1, 1, 1)
        client.close()
        server.terminate()
        assert server.wait(30) == 0
        said = [line for line in server.stderr if line.startswith("requests")]
        assert said == ["requests are put off: OperationalError: database or disk is full\n", "requests are put off no more\n"]


def test_a_server_on_a_full_disk_says_so(tmp_path: Path) -> None:
    (tmp_path / "laminar.toml").write_text(STACK)
    words = [*small_disk(tmp_path / ".laminar", "64k"), sys.executable, "-m", "laminar", "grid", "serve", "--port", "0"]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode in (3, 5) and "Traceback" not in done.stderr, done.stderr
    assert "space" in done.stderr or "full" in done.stderr, done.stderr


def test_the_disk_of_a_node(tmp_path: Path) -> None:
    """The owner comes first: before the disk is full the node rests, and says why; when there is room it goes on."""
    (tmp_path / "laminar.toml").write_text(STACK)
    words = small_disk(tmp_path / "n0", f"{(ROOM >> 20) + 64}m")
    with commands(tmp_path) as grid:
        grid.serve()
        node = grid.join("n0", before=words)
        assert node.stderr.readline().startswith("node ")
        with full(node, tmp_path / "n0", left=ROOM // 2):
            assert node.stderr.readline() == "rests: its disk has less room than 256 MB\n"
            train = grid.train("net", "--rounds", "3", "--workers", "1", "--local-steps", "2", "--replicate", "never")
            grid.wait_for(lambda: grid.ask("/v1/status")["runs"])
            assert grid.ask("/v1/status")["runs"][0]["results"].get("in progress", 0) == 0
        assert node.stderr.readline() == "works\n"
        _, errors = train.communicate(timeout=120)
        assert train.returncode == 0, errors

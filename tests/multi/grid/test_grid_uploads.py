"""Answers on their way: lines that break in the middle, pieces that go on where they were, the same answer twice. Each counts once."""

from __future__ import annotations

import contextlib
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from safetensors.numpy import save

from laminar.core import digest
from laminar.core.seeds import derive
from laminar.grid.commander import Commander
from laminar.grid.daemons.learner import TorchLearner
from laminar.grid.db import runs, tasks, versions
from laminar.grid.db.book import Tx
from laminar.grid.node import client as clients
from laminar.grid.node.client import Client, Refusal, Unreachable
from laminar.grid.population.behaviour import pack
from laminar.grid.server import commands
from laminar.grid.server.serve import GridServer, Options
from laminar.grid.settings import Settings
from laminar.grid.wire import signing
from laminar.grid.wire.messages import About, Ask, Facts, Received, Task
from laminar.grid.wire.sketch import Sketcher
from laminar.train.compression import TopK
from laminar.train.on_grid import Grid
from laminar.train.recipe import Recipe
from tests.multi.grid.served import Commands, serving
from tests.multi.grid.served import commands as in_folder
from tests.multi.grid.test_grid_commands import STACK
from tests.multi.grid.test_grid_server import signed

VALUES, PIECE = 50_000, 32 << 10
GRID = Grid(workers=1, rounds=1, local_steps=1, quorum=1.0, replicate="never")
SETTINGS = Settings(
    recipe=Recipe(epochs=1, batch=4, optimizer="sgd", lr=0.1, seed=0, strategy=GRID),
    rounds=1,
    batches=1,
    epoch_samples=4,
    local=False,
    parameters={"w": (VALUES,)},
    buffers=0,
    gradients=False,
)
FIRST = np.arange(VALUES, dtype=np.float32)
CHANGE = np.random.Generator(np.random.PCG64(0)).standard_normal(VALUES).astype(np.float32)


def about(run: str) -> bytes:
    made = About(
        run=run,
        graphs={},
        parameters=SETTINGS.parameters,
        buffers={},
        fixed=None,
        aliases={},
        frozen=[],
        recipe={},
        data={},
        compress={},
        gradients=False,
        classes=None,
        sketch=0,
    )
    return msgspec.json.encode(made)


def begin(server: GridServer, run: str, settings: Settings = SETTINGS) -> None:
    def do(tx: Tx) -> None:
        told, first = versions.put_file(tx, 0.0, about(run)), versions.put_file(tx, 0.0, FIRST.tobytes())
        asked = commands.Begin(name=run, layer="net", settings=settings, about=told, version=first)
        commands.begin(tx, asked, TorchLearner(), 0.0)

    server.desk.do(do)


def begin_by_command(grid: Commands, run: str) -> None:
    secrets = msgspec.json.decode((grid.root / ".laminar" / "grid" / "secrets.json").read_bytes())
    with contextlib.closing(Commander(grid.told["url"], secrets["admin"])) as commander:
        told = about(run)
        commander.put_file(told)
        commander.put_file(FIRST.tobytes())
        commander.begin(
            commands.Begin(name=run, layer="net", settings=SETTINGS, about=digest.of_bytes(told), version=digest.of_bytes(FIRST.tobytes()))
        )


def learned(server: GridServer, name: str) -> bool:
    """The version that came of an answer is the first less one change, to the bit; and there is but one."""

    def look(tx: Tx) -> tuple[int, bytes]:
        run = runs.named(tx, name)
        assert run is not None
        return run.version, bytes(versions.get(tx, run.id, run.version).data)

    number, data = server.desk.do(look)
    return number == 1 and bool((np.frombuffer(data, "<f4") == FIRST - CHANGE).all())


def joined(server: GridServer, url: str) -> Client:
    client = Client(url, signing.Key.make(), pinned=server.key.public)
    client.enrol(server.secrets.join, Facts(name="n", cores=1, memory=1 << 30, platform="test", laminar="0"))
    return client


class Line:
    """A server with a run, and a node that has a task of it."""

    def __init__(self, server: GridServer, url: str, number: int) -> None:
        self.server, self.url, self.run = server, url, f"run {number}"
        begin(server, self.run)
        server.office.wake()
        self.client = joined(server, url)
        (self.task,) = self.client.work(Ask(want=1, wait=20)).tasks
        self.data = self.packed(self.task, CHANGE)

    @staticmethod
    def packed(task: Task, change: np.ndarray[Any, np.dtype[np.float32]]) -> bytes:
        return pack(task, change, SETTINGS.layout, Sketcher(VALUES, derive(0, "grid sketch")))

    @property
    def state(self) -> str:
        return str(self.server.desk.do(lambda tx: tasks.result(tx, self.task.result).state))

    @property
    def learned(self) -> bool:
        return learned(self.server, self.run)


@pytest.fixture(scope="module")
def grid(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[GridServer, str]]:
    with serving(tmp_path_factory.mktemp("uploads")) as found:
        yield found


@pytest.fixture
def line(grid: tuple[GridServer, str], request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Line]:
    monkeypatch.setattr(clients, "PIECE", PIECE)
    made = Line(*grid, abs(hash(request.node.name)))
    yield made
    made.client.close()


def test_a_line_that_breaks_in_the_middle_of_an_answer(line: Line) -> None:
    path = f"/v1/results/{line.task.result}"
    head = signed(line.client, "PUT", path, line.data)
    host, port = line.url.removeprefix("http://").split(":")
    words = "".join(f"{name}: {value}\r\n" for name, value in head.items())
    for much in (0, 1000, len(line.data) - 1):
        with socket.create_connection((host, int(port)), timeout=10) as broken:
            broken.sendall(f"PUT {path} HTTP/1.1\r\nHost: x\r\n{words}Content-Length: {len(line.data)}\r\n\r\n".encode())
            broken.sendall(line.data[:much])
    assert line.state == "in progress"
    assert line.client.answer(line.task.result, line.data).state == "returned" and line.learned


def break_after(line: Line, monkeypatch: pytest.MonkeyPatch, pieces: int, *, heard: bool) -> list[int]:
    """The line is gone when so many pieces were sent; `heard`: the server has the last of them, and the node does not know. Bytes sent."""
    request, sent = line.client._line.request, list[int]()

    def once(method: str, path: str, body: Any, headers: Any, **more: Any) -> Any:
        if method == "PUT":
            sent.append(sum(map(len, body)))
            if len(sent) == pieces:
                if heard:
                    request(method, path, body, headers, **more)
                line.client._line.close()
                raise ConnectionResetError("cut")
        return request(method, path, body, headers, **more)

    monkeypatch.setattr(line.client._line, "request", once)
    with pytest.raises(Unreachable, match="cut"):
        line.client.answer(line.task.result, line.data)
    return sent


@pytest.mark.parametrize("heard", [False, True], ids=["lost", "heard"])
@pytest.mark.parametrize("pieces", [1, 3])
def test_pieces_go_on_where_they_were(line: Line, monkeypatch: pytest.MonkeyPatch, pieces: int, heard: bool) -> None:
    sent = break_after(line, monkeypatch, pieces, heard=heard)
    assert line.state == "in progress"
    before = len(sent)
    assert line.client.answer(line.task.result, line.data).state == "returned" and line.learned
    here = (pieces - 1 + heard) * PIECE
    assert sum(sent[before:]) == len(line.data) - here  # what had come was not sent again


def test_the_last_reply_is_lost_and_the_answer_counts_once(line: Line, monkeypatch: pytest.MonkeyPatch) -> None:
    break_after(line, monkeypatch, -(-len(line.data) // PIECE), heard=True)
    assert line.learned
    again = line.client.answer(line.task.result, line.data)
    assert (again.state, again.reason) == ("valid", "repeated") and line.learned


def test_an_answer_that_was_computed_anew_is_not_mixed_with_what_was_here(line: Line, monkeypatch: pytest.MonkeyPatch) -> None:
    other = line.packed(line.task, 2 * CHANGE)
    line.data, data = other, line.data
    break_after(line, monkeypatch, 3, heard=True)
    assert line.client.answer(line.task.result, data).state == "returned" and line.learned


def test_pieces_that_do_not_follow_are_refused(line: Line) -> None:
    with pytest.raises(Refusal, match="0 bytes of"):
        line.client._send("PUT", f"/v1/results/{line.task.result}?at=5&size={len(line.data)}", line.data[5:100])
    with pytest.raises(Refusal, match="are allowed"):
        line.client._send("PUT", f"/v1/results/{line.task.result}?at=0&size={1 << 40}", line.data[:100])
    assert line.client.answer(line.task.result, line.data).state == "returned" and line.learned


@pytest.mark.parametrize("jump", [-86400.0, -400.0, 400.0])  # the last is less than the round has time
def test_the_clock_of_the_server_jumps_in_the_middle_of_an_answer(jump: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By more than a signature may be old: the node goes by the server's clock, and brings the rest."""
    monkeypatch.setattr(clients, "PIECE", PIECE)
    off = [0.0]
    with serving(tmp_path, lambda: time.time() + off[0]) as (server, url):
        line = Line(server, url, 0)
        path = f"/v1/results/{line.task.result}?at=0&size={len(line.data)}"
        assert line.client._send("PUT", path, line.data[:PIECE]).status == 202
        off[0] = jump
        server.office.wake()
        assert line.client.answer(line.task.result, line.data).state == "returned" and line.learned
        assert line.client.work(Ask(want=1)).tasks == []  # signed by the server's time, as it is now
        off[0] = 0.0
        assert line.client.work(Ask(want=1)).tasks == []
        again = line.client.answer(line.task.result, line.data)
        assert (again.state, again.reason) == ("valid", "repeated") and line.learned
        line.client.close()


def test_a_server_that_is_killed_in_the_middle_of_an_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pieces that it said to have are there when it comes back; of the one that was under way, nothing is; and all of it counts once."""
    monkeypatch.setattr(clients, "PIECE", PIECE)
    (tmp_path / "laminar.toml").write_text(STACK)
    folder = tmp_path / ".laminar" / "grid"
    with in_folder(tmp_path) as grid:
        server = grid.serve()
        begin_by_command(grid, "run")
        host, _, port = grid.told["url"].removeprefix("http://").rpartition(":")
        client = Client(grid.told["url"], signing.Key.make(), pinned=grid.told["key"])
        client.enrol(grid.told["token"], Facts(name="n", cores=1, memory=1 << 30, platform="test", laminar="0"))
        (task,) = client.work(Ask(want=1, wait=20)).tasks
        data = Line.packed(task, CHANGE)
        path = f"/v1/results/{task.result}?at=0&size={len(data)}"
        assert client._send("PUT", path, data[:PIECE]).status == 202
        path = f"/v1/results/{task.result}?at={PIECE}&size={len(data)}"
        piece = data[PIECE : 2 * PIECE]
        words = "".join(f"{name}: {value}\r\n" for name, value in signed(client, "PUT", path, piece).items())
        with socket.create_connection((host, int(port)), timeout=10) as broken:
            broken.sendall(f"PUT {path} HTTP/1.1\r\nHost: x\r\n{words}Content-Length: {len(piece)}\r\n\r\n".encode() + piece[:1000])
            server.kill()
            server.wait()
        with pytest.raises(Unreachable):
            client.answer(task.result, data)
        server = grid.serve("--port", port)
        assert client._ask("GET", f"/v1/results/{task.result}", type=Received).size == PIECE
        assert client.answer(task.result, data).state == "returned"
        server.kill()
        server.wait()
        server = grid.serve("--port", port)
        again = client.answer(task.result, data)
        assert (again.state, again.reason) == ("valid", "repeated")
        client.close()
        server.terminate()
        assert server.wait(30) == 0
        made = GridServer(Options(folder, "test"), TorchLearner())
        assert learned(made, "run")
        made.close()


# What nodes that leave have kept back


def test_a_large_residual_is_handed_in_in_pieces_and_taken_over_by_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clients, "PIECE", PIECE)
    strategy = msgspec.structs.replace(GRID, compress=TopK(sparsity=0.9))
    keeps_back = msgspec.structs.replace(SETTINGS, recipe=msgspec.structs.replace(SETTINGS.recipe, strategy=strategy))
    kept = save({"v": np.zeros(VALUES, np.float32)})
    sends, sent = Client._send, list[str]()

    def breaks(self: Client, method: str, path: str, *body: bytes, **more: Any) -> Any:
        sent.append(path)
        if len(sent) == 4:
            raise Unreachable("the line broke")
        return sends(self, method, path, *body, **more)

    with serving(tmp_path) as (server, url), contextlib.ExitStack() as stack:
        begin(server, "sparse", keeps_back)
        leaver, heir, other = (stack.enter_context(contextlib.closing(joined(server, url))) for _ in range(3))
        with monkeypatch.context() as patched:
            patched.setattr(Client, "_send", breaks)
            with pytest.raises(Unreachable):
                leaver.custody("sparse", kept)
        assert len(sent) == 4 and f"?at={PIECE}&size={len(kept)}" in sent[1]
        assert heir.custody("sparse") is None  # it is not whole
        with pytest.raises(Refusal) as caught:
            leaver._send("PUT", f"/v1/runs/sparse/custody?at={PIECE}&size={len(kept)}", kept[PIECE:])
        assert (caught.value.status, caught.value.error) == (409, "offset")
        leaver.custody("sparse", kept)
        assert [heir.custody("sparse"), other.custody("sparse"), heir.custody("sparse")] == [kept, None, kept]  # its reply may get lost
        with pytest.raises(Refusal) as caught:
            leaver.custody("sparse", kept + bytes(1 << 20))
        assert (caught.value.status, caught.value.error) == (413, "size")

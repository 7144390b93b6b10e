"""Tokens: how many nodes one lets in, and that none ever stands in the list of processes. And what a node remembers of its owner."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import io
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from laminar.core.errors import LaminarError
from laminar.grid.commander import Commander
from laminar.grid.db import nodes
from laminar.grid.node import token_given as given
from laminar.grid.node.home import Home
from laminar.grid.node.join import join
from laminar.grid.node.owner_words import OwnerWords, remember, remembered
from laminar.grid.node.token_given import VARIABLE, token_asked, token_given
from laminar.grid.server.serve import GridServer
from laminar.grid.server.service import Denied
from laminar.grid.wire.messages import ADMITTED, PROTOCOL, Enrol, Facts
from tests.multi.grid.served import commands, serving
from tests.multi.grid.test_grid_commands import STACK

FACTS = Facts(name="n", cores=1, memory=1 << 30, platform="test", laminar="0")


@pytest.fixture(scope="module")
def grid(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[GridServer, str]]:
    with serving(tmp_path_factory.mktemp("tokens")) as found:
        found[0].gate.unlimited = True
        yield found


def come(server: GridServer, token: str, number: int) -> str:
    key = base64.b64encode(hashlib.sha256(f"{token} {number}".encode()).digest()).decode()
    asked = Enrol(protocol=PROTOCOL, token=token, key=key, facts=FACTS)
    return server.desk.do(lambda tx: server.service.enrol(tx, asked)).node


def test_a_new_token_lets_in_fifty_nodes_and_more_when_that_is_said(grid: tuple[GridServer, str], tmp_path: Path) -> None:
    server, url = grid
    with contextlib.closing(Commander(url, server.secrets.admin)) as commander:
        told = commander.post("/v1/admin/tokens", {"name": "lab"})
        assert told["uses"] == ADMITTED == 50
        known = {come(server, told["token"], number) for number in range(50)}
        assert len(known) == 50 and come(server, told["token"], 7) in known  # who is known uses up no more
        (id,) = [row["id"] for row in server.desk.do(nodes.all_tokens) if row["name"] == "lab"]
        with pytest.raises(Denied, match=rf"used up: .*laminar grid token --id {id} --uses 50"):
            come(server, told["token"], 50)
        with pytest.raises(LaminarError, match=rf"refuses this node: the token is used up.*--id {id} --uses 50"):
            join(Home(tmp_path / "n"), url, told["token"], None, FACTS)
        assert commander.post(f"/v1/admin/tokens/{id}/uses", {"uses": 2}) == {"id": id, "uses": 2}
        for number in (50, 51):
            come(server, told["token"], number)
        with pytest.raises(Denied, match="used up"):
            come(server, told["token"], 52)
        with pytest.raises(LaminarError, match="no token 999"):
            commander.post("/v1/admin/tokens/999/uses", {"uses": 2})
        assert commander.post("/v1/admin/tokens", {"name": "one", "uses": 1})["uses"] == 1


def test_so_does_the_first_one_of_a_grid(tmp_path: Path) -> None:
    with serving(tmp_path / "a") as (server, _), serving(tmp_path / "b", admit=2) as (other, _):
        assert [row["uses"] for row in server.desk.do(nodes.all_tokens)] == [50]
        for number in range(2):
            come(other, other.secrets.join, number)
        with pytest.raises(Denied, match="used up"):
            come(other, other.secrets.join, 2)


def test_no_token_stands_in_the_list_of_processes(tmp_path: Path) -> None:
    with commands(tmp_path) as made:
        (tmp_path / "laminar.toml").write_text(STACK)
        made.serve()
        (tmp_path / "token").write_text(made.told["token"] + "\n")
        words = ["grid", "join", made.told["url"], "--name", "lab", "--cpu", "50%", "--hours", "0:01-0:00", "--home", "n0"]
        node = made._start(*words, "--token-file", "token", stderr=-1)
        line = node.stderr.readline()
        while not line.startswith("node "):
            assert line, node.wait(10)
            line = node.stderr.readline()
        said = [" ".join(process.cmdline()) for process in [psutil.Process(node.pid), *psutil.Process(node.pid).children(recursive=True)]]
        assert not any(made.told["token"] in words for words in said)
        node.terminate()
        node.wait(20)
        again = made._start("grid", "join", "--home", "n0", "--cpu", "25%", stderr=-1)  # with its name and its limits
        line = again.stderr.readline()
        while not line.startswith("as before:"):
            assert line, again.wait(10)
            line = again.stderr.readline()
        assert line == "as before: --name lab --cpu 25% --hours 0:01-0:00\n"
        made.wait_for(lambda: [node["name"] for node in made.ask("/v1/nodes")] == ["lab"])
        again.terminate()
        again.wait(20)
        assert remembered(Home(tmp_path / "n0")) == OwnerWords(name="lab", cpu="25%", hours="0:01-0:00")


def test_where_a_token_comes_from(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "t").write_text(" abc \n")
    assert token_given(tmp_path / "t") == "abc" and token_given(None) is None
    monkeypatch.setattr(sys, "stdin", io.StringIO("def\nmore"))
    assert token_given(Path("-")) == "def"
    monkeypatch.setenv(VARIABLE, "ghi")
    assert token_given(None) == "ghi" and VARIABLE not in os.environ  # what is started from here needs none
    assert token_asked("http://x") is None  # nobody sits there
    for text in ("", "two words", "x" * 201, "a\x1bb"):
        (tmp_path / "t").write_text(text)
        with pytest.raises(LaminarError, match="has no token") as caught:
            token_given(tmp_path / "t")
        assert caught.value.code == "L503" and VARIABLE in caught.value.hint
    (tmp_path / "t").write_bytes(b"\xff\xfe")
    for path in (tmp_path / "t", tmp_path, tmp_path / "none"):
        with pytest.raises(LaminarError, match="cannot be read"):
            token_given(path)


def test_whoever_sits_at_the_terminal_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setattr(sys, "stdin", Terminal())
    monkeypatch.setattr(sys, "stderr", Terminal())
    monkeypatch.setattr(given.getpass, "getpass", lambda *_, **__: "secret\n")
    assert token_asked("http://x") == "secret"


def test_what_is_said_again_counts_and_the_rest_is_remembered(tmp_path: Path) -> None:
    home = Home(tmp_path)
    assert remembered(home) == OwnerWords()
    before = OwnerWords(name="lab", cpu="50%", only_idle=True, allow_private=True)
    remember(home, before)
    now = OwnerWords(cpu="25%", battery=True).over(remembered(home))
    assert now == OwnerWords(name="lab", cpu="25%", only_idle=True, allow_private=True, battery=True)
    assert now.options == ["--name", "lab", "--cpu", "25%", "--only-idle", "--battery", "--allow-private"]
    assert now.limits.cpu == 0.25 and now.limits.private and now.limits.battery
    (tmp_path / "limits.json").write_text("{")
    with pytest.raises(LaminarError, match="cannot be read"):  # not as if nothing had been said
        remembered(home)

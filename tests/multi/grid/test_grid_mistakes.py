"""What a user gets wrong, or what goes wrong around him: it is said what happened, and the command that is named helps."""

from __future__ import annotations

import http.client
import http.server
import os
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from laminar.cli.grid_token import _state
from laminar.core.errors import LaminarError
from laminar.grid.commander import _url, commander_of
from laminar.grid.node.home import Home
from laminar.grid.node.join import join
from laminar.grid.server.certificates import check_certificate, own_certificate
from laminar.grid.server.listening import listen
from laminar.grid.server.patience import HEAD_BYTES
from laminar.grid.server.serve import GridServer
from laminar.grid.wire.messages import Facts
from tests.multi.grid.served import commands, serving

FACTS = Facts(name="n", cores=1, memory=1 << 30, platform="x", laminar="x")


@pytest.fixture(scope="module")
def grid(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[GridServer, str]]:
    with serving(tmp_path_factory.mktemp("grid")) as found:
        found[0].gate.unlimited = True
        yield found


# Options


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--name", "x" * 81], "has 81 letters; expected 1 to 80"),
        (["--name", "a\nb"], "that can be printed"),
        (["--ca", "nothing.pem"], "--ca nothing.pem: there is no such file"),
    ],
)
def test_options_of_join_are_looked_at_before_anything_is_sent(words: list[str], said: str, tmp_path: Path) -> None:
    with commands(tmp_path) as grid:
        done = grid.run("grid", "join", "http://127.0.0.1:1", "--home", "n0", *words)
        assert done.returncode == 2 and "error L008" in done.stderr and said in done.stderr
        assert not (tmp_path / "n0").exists()


def test_a_certificate_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    pair = own_certificate(tmp_path / "one", "127.0.0.1")
    check_certificate(*pair)
    other = own_certificate(tmp_path / "two", "127.0.0.1")
    (tmp_path / "text").write_text("no certificate")
    for wrong in ((pair[0], other[1]), (tmp_path / "text", tmp_path / "text"), (tmp_path / "none", pair[1]), (pair[0], tmp_path)):
        with pytest.raises(LaminarError) as caught:
            check_certificate(*wrong)
        assert caught.value.code == "L008" and "--tls" in caught.value.hint
        assert str(wrong[0]) in caught.value.message or str(wrong[1]) in caught.value.message


def test_an_address_with_too_much_behind_the_port_is_no_question_of_versions(grid: tuple[GridServer, str], tmp_path: Path) -> None:
    with pytest.raises(LaminarError, match="refuses this node: Not Found") as told:
        join(Home(tmp_path), grid[1] + "/nowhere", grid[0].secrets.join, None, FACTS)
    assert told.value.code == "L503" and "nothing behind the port" in told.value.hint


def test_an_address_that_cannot_be_listened_at_is_not_put_down_to_the_port() -> None:
    with pytest.raises(LaminarError) as caught:
        listen("192.0.2.1", 0)  # of documentation (RFC 5737): nobody has it
    assert caught.value.code == "L405" and "--host 127.0.0.1" in caught.value.hint and "while attempting" not in caught.value.message
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(LaminarError) as caught:
        listen("127.0.0.1", taken.getsockname()[1])
    assert "--port 0" in caught.value.hint


# The wrong address


@pytest.mark.parametrize("url", ["127.0.0.1:8787", "ftp://127.0.0.1"])
def test_an_address_without_http_is_no_question_of_certificates(url: str, tmp_path: Path) -> None:
    with pytest.raises(LaminarError, match="begins with http://") as caught:
        join(Home(tmp_path), url, "x", None, FACTS)
    assert "laminar grid join http://HOST:8787" in caught.value.hint


def test_whoever_takes_tls_for_plain_or_plain_for_tls_is_told(grid: tuple[GridServer, str], tmp_path: Path) -> None:
    plain = grid[1]
    pair = own_certificate(tmp_path / "tls", "127.0.0.1")
    with serving(tmp_path / "grid", certificate=pair) as (_, secure):
        for url, help in (
            (plain.replace("http:", "https:"), f"laminar grid join {plain} "),
            (secure.replace("https:", "http:"), f"laminar grid join {secure} "),
            (secure, "--ca FILE"),
        ):
            with pytest.raises(LaminarError) as caught:
                join(Home(tmp_path / "node"), url, "x", None, FACTS)
            assert caught.value.code == "L501" and help in caught.value.hint, url


@pytest.mark.parametrize("body", [b'{"key":"x"}', b"[1]", b"null", b"hello"])
def test_what_answers_and_is_no_grid_is_called_so(body: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    class Other(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            pass

    monkeypatch.setenv("LAMINAR_GRID_TOKEN", "x")
    with http.server.HTTPServer(("127.0.0.1", 0), Other) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        assert _url("grid://lab/") == "http://lab:8787" and _url("grids://[::1]") == "https://[::1]:8787"
        assert _url("grid://lab:9") == "http://lab:9" and _url("grid://lab:x") == "http://lab:x" and _url("http://lab/") == "http://lab"
        commander = commander_of(None, f"grid://127.0.0.1:{server.server_port}")
        try:
            with pytest.raises(LaminarError, match="answers, but is no grid") as caught:
                commander.get("/v1/status")
            assert caught.value.code == "L501" and "--on grid://HOST:8787" in caught.value.hint
        finally:
            commander.close()
            server.shutdown()
            thread.join()


def test_words_that_are_no_address_are_called_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LAMINAR_GRID_TOKEN", raising=False)
    with pytest.raises(LaminarError, match="nonsense is no address of a grid") as caught:
        commander_of(None, "nonsense")
    assert "--on grid://HOST:8787" in caught.value.hint


# Commands


def test_refused_commands_name_the_one_that_helps(grid: tuple[GridServer, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    server, url = grid
    for home in ("a", "b"):
        join(Home(tmp_path / home), url, server.secrets.join, None, FACTS).close()
    monkeypatch.setenv("LAMINAR_GRID_TOKEN", server.secrets.admin)
    commander = commander_of(None, url)
    for word, said in (("nobody", "no node has 'nobody'"), ("n", "2 nodes have 'n'")):
        with pytest.raises(LaminarError, match=said) as caught:
            commander.post(f"/v1/admin/nodes/{word}/ban", {"why": ""})
        assert (caught.value.code, caught.value.hint) == ("L503", "laminar grid nodes")
    commander.close()
    monkeypatch.setenv("LAMINAR_GRID_TOKEN", "wrong")
    commander = commander_of(None, url)
    with pytest.raises(LaminarError) as caught:
        commander.get("/v1/status")
    assert caught.value.code == "L503" and "export LAMINAR_GRID_TOKEN=" in caught.value.hint
    commander.close()


def test_a_token_is_good_for_as_long_as_it_lets_somebody_in() -> None:
    token = {"revoked": False, "expires": None, "uses": None}
    assert _state(token) == "good"
    assert _state({**token, "uses": 1, "expires": time.time() + 60}) == "good"
    assert _state({**token, "uses": 0}) == "used up"
    assert _state({**token, "expires": time.time() - 1}) == "expired"
    assert _state({**token, "expires": time.time() - 1, "revoked": True}) == "revoked"


# Strangers


@pytest.mark.parametrize(
    "head",
    [
        b"GET /v1/about HTTP/1.1\r\nHost: x\r\nX: " + b"a" * (4 << 20) + b"\r\n\r\n",
        b"GET /v1/about HTTP/1.1\r\nHost: x\r\n" + b"X: aaaaaaaaaaaaaaaa\r\n" * 50_000 + b"\r\n",
        b"GET /" + b"a" * HEAD_BYTES + b" HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET /v1/about HTTP/1.1\r\nHost: x\r\nX: " + b"a" * (4 << 20),  # and does not end
    ],
)
def test_a_head_that_is_too_large_is_not_kept(grid: tuple[GridServer, str], head: bytes) -> None:
    host, port = grid[1].removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=10) as line:
        said = b""
        try:
            line.sendall(head)
            while more := line.recv(65536):
                said += more
        except (BrokenPipeError, ConnectionResetError):
            pass  # it has not even been read
    assert b" 200 OK" not in said and (not said or said.startswith(b"HTTP/1.1 400 "))


def test_a_large_body_is_no_large_head(grid: tuple[GridServer, str]) -> None:
    host, port = grid[1].removeprefix("http://").split(":")
    line = http.client.HTTPConnection(host, int(port), timeout=10)
    for _ in range(3):  # on one line, together longer than any head
        line.request("POST", "/v1/enrol", bytes(60_000))
        with line.getresponse() as found:
            assert found.status == 422 and found.read()
    line.close()


@pytest.mark.skipif(os.name != "posix", reason="there are no such modes")
def test_what_answers_are_compared_by_can_be_read_by_its_owner_only(grid: tuple[GridServer, str]) -> None:
    found = list(grid[0].options.folder.glob("grid.db*"))
    assert found and all(path.stat().st_mode & 0o077 == 0 for path in found)

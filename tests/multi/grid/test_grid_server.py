"""The server's door: whoever is not who they say, says it twice, too loud, too slowly or not at all, gets an error and costs nothing."""

from __future__ import annotations

import hashlib
import os
import socket
import time
from collections.abc import Iterator
from email.message import Message
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import httpx
import msgspec
import pytest

from laminar.core.errors import LaminarError
from laminar.grid.daemons.learner import TorchLearner
from laminar.grid.node import client as clients
from laminar.grid.node.client import Busy, Client, Refusal, Unreachable
from laminar.grid.node.home import Home
from laminar.grid.node.join import join
from laminar.grid.node.keeper import Keeper
from laminar.grid.node.limits import Limits
from laminar.grid.node.line import Reply
from laminar.grid.node.machine import facts
from laminar.grid.server import patience
from laminar.grid.server.gate import Nonces, Rates
from laminar.grid.server.listening import listen
from laminar.grid.server.patience import connections_for, open_files
from laminar.grid.server.serve import GridServer, Options
from laminar.grid.wire import signing
from laminar.grid.wire.messages import PROTOCOL, Ask, Facts
from tests.multi.grid.served import serving

FACTS = Facts(name="n", cores=1, memory=1 << 30, platform="test", laminar="0")


@pytest.fixture(scope="module")
def grid(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[GridServer, str]]:
    with serving(tmp_path_factory.mktemp("grid")) as found:
        found[0].gate.unlimited = True  # all tests come from one address, faster than strangers may; rates have servers of their own
        yield found


@pytest.fixture
def client(grid: tuple[GridServer, str]) -> Iterator[Client]:
    server, url = grid
    made = Client(url, signing.Key.make(), pinned=server.key.public)
    made.enrol(server.secrets.join, FACTS)
    yield made
    made.close()


def signed(client: Client, method: str, path: str, body: bytes = b"", **changed: str) -> dict[str, str]:
    stamp, nonce = changed.get("time", f"{time.time():.3f}"), changed.get("nonce", signing.nonce())
    message = signing.of_request(method, path, stamp, nonce, hashlib.sha256(body).hexdigest())
    head = {signing.NODE: client.node, signing.TIME: stamp, signing.NONCE: nonce, signing.SIGNATURE: client._key.sign(message)}
    return head | {key: value for key, value in changed.items() if key not in ("time", "nonce")}


def reply(status: int, head: dict[str, str], body: bytes) -> Reply:
    headers = Message()
    for name, value in head.items():
        headers[name] = value
    return Reply(status, headers, body)


def error_of(response: httpx.Response) -> tuple[int, str]:
    return response.status_code, response.json()["error"]


def test_a_node_that_joined_is_answered(client: Client) -> None:
    work = client.work(Ask(want=1))
    assert work.tasks == [] and work.why == "nothing to do"


def test_a_request_counts_once(grid: tuple[GridServer, str], client: Client) -> None:
    body = b'{"want":1}'
    head = signed(client, "POST", "/v1/work", body)
    first = httpx.post(grid[1] + "/v1/work", content=body, headers=head)
    assert first.status_code == 200
    assert error_of(httpx.post(grid[1] + "/v1/work", content=body, headers=head)) == (409, "replay")


@pytest.mark.parametrize(
    ("changed", "error"),
    [
        ({"time": "0.0"}, (401, "clock")),
        ({"time": "nonsense"}, (401, "clock")),
        ({"nonce": "short"}, (409, "replay")),
        ({signing.SIGNATURE: "AAAA"}, (401, "signature")),
        ({signing.NODE: "0" * 20}, (401, "unknown")),
        ({signing.NODE: ""}, (401, "unknown")),
    ],
)
def test_who_is_not_who_they_say_is_turned_away(
    grid: tuple[GridServer, str], client: Client, changed: dict[str, str], error: tuple[int, str]
) -> None:
    body = b'{"want":1}'
    assert error_of(httpx.post(grid[1] + "/v1/work", content=body, headers=signed(client, "POST", "/v1/work", body, **changed))) == error


def test_a_body_that_was_changed_on_the_way_is_refused(grid: tuple[GridServer, str], client: Client) -> None:
    head = signed(client, "POST", "/v1/work", b'{"want":1}')
    assert error_of(httpx.post(grid[1] + "/v1/work", content=b'{"want":2}', headers=head)) == (401, "signature")


@pytest.mark.parametrize("body", [b"", b"garbage", b"[]", b'{"want":"one"}', b'{"want":1,"more":2}', b"\xff\xfe", b"{" * 5000])
def test_garbage_is_garbage(grid: tuple[GridServer, str], client: Client, body: bytes) -> None:
    assert error_of(httpx.post(grid[1] + "/v1/work", content=body, headers=signed(client, "POST", "/v1/work", body))) == (422, "schema")


def test_what_is_too_large_is_not_read(grid: tuple[GridServer, str], client: Client) -> None:
    body = bytes(1 << 20)
    assert error_of(httpx.post(grid[1] + "/v1/work", content=body, headers=signed(client, "POST", "/v1/work", body))) == (413, "size")


def test_a_token_that_is_wrong_or_used_up_or_revoked_lets_nobody_in(grid: tuple[GridServer, str]) -> None:
    server, url = grid
    admin = httpx.Client(base_url=url, headers={"Authorization": f"Bearer {server.secrets.admin}"})
    once = admin.post("/v1/admin/tokens", json={"name": "ann", "uses": 1}).json()["token"]

    def come(token: str) -> tuple[Client, Any]:
        made = Client(url, signing.Key.make(), pinned=server.key.public)
        try:
            return made, made.enrol(token, FACTS)
        except Refusal as error:
            made.close()
            return made, (error.status, str(error))

    assert come("wrong")[1] == (401, "no such token")
    client, enrolled = come(once)
    assert enrolled.grid == "test" and come(once)[1] == (
        401,
        "the token is used up: it has admitted all its nodes (for more: laminar grid token --id 2 --uses 50)",
    )
    tokens = admin.get("/v1/admin/tokens").json()
    (mine,) = [token["id"] for token in tokens if token["name"] == "ann"]
    assert once not in str(tokens)
    assert admin.post(f"/v1/admin/tokens/{mine}/revoke").json() == {"banned": 1}
    with pytest.raises(Refusal, match="revoked"):
        client.work(Ask(want=1))
    assert error_of(admin.post("/v1/admin/tokens/999/revoke")) == (404, "token")
    client.close()
    admin.close()


@pytest.mark.parametrize("path", ["/v1/admin/runs", "/v1/admin/tokens", "/v1/status", "/v1/nodes", "/metrics", "/"])
def test_commands_and_figures_need_their_tokens(grid: tuple[GridServer, str], path: str) -> None:
    server, url = grid
    assert error_of(httpx.get(url + path)) == (401, "token")
    assert error_of(httpx.get(url + path, headers={"Authorization": "Bearer wrong"})) == (401, "token")
    view = httpx.get(url + path, headers={"Authorization": f"Bearer {server.secrets.view}"})
    assert (view.status_code == 200) == ("admin" not in path)
    assert httpx.get(url + path, headers={"Authorization": f"Bearer {server.secrets.admin}"}).status_code == 200


def test_the_status_page_needs_nothing_from_elsewhere(grid: tuple[GridServer, str]) -> None:
    server, url = grid
    page = httpx.get(f"{url}/?token={server.secrets.view}")
    assert (
        page.status_code == 200
        and "http" not in page.text.replace("http-equiv", "")
        and "default-src 'none'" in page.headers["content-security-policy"]
    )
    for name in ("status.js", "view.js", "view.css"):
        given = httpx.get(f"{url}/{name}")
        assert given.status_code == 200 and "innerHTML" not in given.text and "https://" not in given.text
    metrics = httpx.get(f"{url}/metrics?token={server.secrets.view}").text
    assert 'laminar_grid_nodes{state="known"}' in metrics


@pytest.mark.parametrize(("method", "path"), [("GET", "/nowhere"), ("DELETE", "/v1/work"), ("GET", "/v1/work")])
def test_what_is_not_there_is_said_and_signed(grid: tuple[GridServer, str], method: str, path: str) -> None:
    server, url = grid
    found = httpx.request(method, url + path)
    assert found.status_code in (404, 405)
    message = signing.of_reply("", method, path, "", found.status_code, hashlib.sha256(found.content).hexdigest())
    assert signing.Checker().good(server.key.public, found.headers[signing.SIGNATURE], message)


def test_results_of_others_cannot_be_answered_or_looked_at(grid: tuple[GridServer, str], client: Client) -> None:
    for call in (lambda: client.answer(1, b"x"), lambda: client.answer(10**17, b"x")):
        with pytest.raises(Refusal, match="there is no result"):
            call()
    for path in ("/v1/results/-1", "/v1/results/one", "/v1/runs/no/versions/1", "/v1/files/" + "0" * 64, "/v1/runs/no/custody"):
        assert httpx.get(grid[1] + path, headers=signed(client, "GET", path)).status_code in (404, 422)


@pytest.mark.parametrize(
    ("first", "error"), [("5", (422, "schema")), ("999999", (422, "schema")), ("one", (422, "number")), ("10", (404, "result"))]
)
def test_a_request_for_work_before_an_answer_is_one(
    grid: tuple[GridServer, str], client: Client, first: str, error: tuple[int, str]
) -> None:
    body, path = b'{"want":1}answer', f"/v1/results/1?ask={first}"
    assert error_of(httpx.put(grid[1] + path, content=body, headers=signed(client, "PUT", path, body))) == error


def test_a_server_that_lies_is_not_listened_to(grid: tuple[GridServer, str], tmp_path: Path) -> None:
    server, url = grid
    other = Client(url, signing.Key.make(), pinned=signing.Key.make().public)
    with pytest.raises(Unreachable, match="not the server that this node joined"):
        other.work(Ask(want=1))
    other.close()
    with pytest.raises(LaminarError, match="was expected") as caught:
        join(Home(tmp_path), url, server.secrets.join, signing.Key.make().public, facts("n", Limits()))
    assert caught.value.code == "L502"


@pytest.mark.parametrize("head", [{"content-type": "application/octet-stream"}, {}, {signing.SIGNATURE: "AAAA"}])
def test_an_answer_that_is_not_signed_is_not_taken(client: Client, head: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client._line, "request", Mock(return_value=reply(200, head, b'{"tasks":[]}')))
    with pytest.raises(Unreachable, match="not the server that this node joined"):
        client.work(Ask(want=1))


def test_bytes_after_a_message_are_no_part_of_it(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """The message is signed; what follows is worth what its digest in the message says, whoever has put it there."""
    key = signing.Key.make()
    client.pinned = key.public
    monkeypatch.setattr(signing, "nonce", lambda: "0123456789abcdef")
    text = b'{"why":"nothing to do"}'
    message = signing.of_reply(client.node, "POST", "/v1/work", "0123456789abcdef", 200, hashlib.sha256(text).hexdigest())
    head = {signing.SIGNATURE: key.sign(message)}

    def told(body: bytes, **more: str) -> bytes:
        monkeypatch.setattr(client._line, "request", Mock(return_value=reply(200, head | more, body)))
        assert client.work(Ask(want=1)).why == "nothing to do"
        return bytes(client.after)

    assert told(text + b"more", **{signing.MESSAGE: str(len(text))}) == b"more"
    assert told(text) == b"" and told(text, **{signing.MESSAGE: "999"}) == b""
    for length in ("", "-1", "3", "9" * 20):
        with pytest.raises(Unreachable, match="not the server that this node joined"):
            told(text + b"more", **{signing.MESSAGE: length})


def test_an_answer_to_somebody_else_is_not_taken(grid: tuple[GridServer, str], client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another node asks with the nonce of this one, and has what it is answered played to it."""
    server, url = grid
    other = Client(url, signing.Key.make(), pinned=server.key.public)
    other.enrol(server.secrets.join, FACTS)
    monkeypatch.setattr(signing, "nonce", lambda: "0123456789abcdef")
    body = msgspec.json.encode(Ask(want=1))
    heard = httpx.post(url + "/v1/work", content=body, headers=signed(other, "POST", "/v1/work", body, nonce="0123456789abcdef"))
    assert heard.status_code == 200
    monkeypatch.setattr(client._line, "request", Mock(return_value=reply(200, dict(heard.headers), heard.content)))
    with pytest.raises(Unreachable, match="not the server that this node joined"):
        client.work(Ask(want=1))
    other.close()


def test_a_node_whose_clock_is_wrong_goes_by_the_servers(
    grid: tuple[GridServer, str], client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = time.time
    monkeypatch.setattr("laminar.grid.node.client.time.time", lambda: real() - 86400)
    assert client.work(Ask(want=1)).why == "nothing to do"


def test_who_says_nothing_or_byte_by_byte_is_hung_up_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patience, "HEAD", 0.3)
    with serving(tmp_path) as (_, url):
        host, port = url.removeprefix("http://").split(":")
        for said in (b"", b"POST /v1/work HTTP/1.1\r\nHost: x\r\nX-Slow: "):
            with socket.create_connection((host, int(port)), timeout=10) as line:
                line.sendall(said)
                assert line.recv(100) == b""  # closed, without a word
        with httpx.Client(base_url=url) as patient:
            assert all(patient.get("/v1/about").status_code == 200 for _ in range(3))


def test_who_goes_on_sending_what_is_not_wanted_is_hung_up_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patience, "HEAD", 0.3)
    with serving(tmp_path) as (_, url):
        host, port = url.removeprefix("http://").split(":")
        with socket.create_connection((host, int(port)), timeout=10) as line:
            line.sendall(b"POST /v1/enrol HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000000\r\n\r\nbyte by byte")
            with line.makefile("rb") as told:
                assert b" 413 " in told.read()  # all that it says before it hangs up


def test_bodies_of_strangers_take_little_memory(tmp_path: Path) -> None:
    """Whoever knows a node's name may send what looks like an answer of it, and only its end shows that it is none."""
    with serving(tmp_path) as (server, url):
        made = Client(url, signing.Key.make(), pinned=server.key.public)
        node = made.enrol(server.secrets.join, FACTS).node
        server.gate._held[False].most = 200_000
        host, port = url.removeprefix("http://").split(":")
        head = f"PUT /v1/results/1 HTTP/1.1\r\nHost: x\r\n{signing.NODE}: {node}\r\nContent-Length: 1000000\r\n\r\n".encode()
        with socket.create_connection((host, int(port)), timeout=10) as line, line.makefile("rb") as told:
            line.sendall(head + bytes(300_000))
            assert b" 503 " in told.readline()
        with pytest.raises(Refusal, match="there is no result 1"):  # the node has signed something on its own connection
            made.answer(1, bytes(1_000_000))
        made.close()
        again = Client(url, made._key, pinned=server.key.public)
        with pytest.raises(Refusal, match="there is no result 1"):  # and does so first where it has not yet
            again.answer(1, bytes(1_000_000))
        again.close()
        assert server.gate.refused == {"busy": 1, "result": 2} and [one.bytes for one in server.gate._held.values()] == [0, 0]


@pytest.mark.parametrize("status", [429, 502, 503, 504])
def test_a_server_without_room_is_not_taken_for_another(client: Client, status: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """What stands before a server, or is full, signs nothing. None of it is believed, but that it is worth another try."""
    for head in ({"Retry-After": "1000000"}, {}, {signing.SIGNATURE: "AAAA"}):
        for body in (
            b"Service Unavailable",
            b'{"error":"banned","message":"go away","now":1.0}',
            b'{"error":"clock","message":"","now":1.0}',
        ):
            monkeypatch.setattr(client._line, "request", Mock(return_value=reply(status, head, body)))
            with pytest.raises(Busy, match=f"no time just now \\({status}\\)") as told:
                client.work(Ask(want=1))
            assert "not the server" not in str(told.value) and "go away" not in str(told.value) and client._off == 0


def test_answers_are_not_held_back_until_their_head_is_acknowledged() -> None:
    with listen("127.0.0.1", 0) as here, socket.create_connection(here.getsockname(), timeout=10), here.accept()[0] as line:
        assert line.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


def test_rates_are_kept_per_name() -> None:
    now = [0.0]
    rates = Rates(2.0, burst=3.0, clock=lambda: now[0])
    assert rates.look("a") == 0
    assert [rates.take("a") for _ in range(3)] == [0, 0, 0]
    assert rates.look("a") == rates.take("a") == pytest.approx(0.5) and rates.take("b") == 0
    now[0] = 0.5
    assert rates.take("a") == 0 and rates.take("a") > 0


def test_large_bodies_are_not_read_from_where_much_rubbish_came(tmp_path: Path) -> None:
    with serving(tmp_path) as (server, url):
        made = Client(url, signing.Key.make(), pinned=server.key.public)
        node = made.enrol(server.secrets.join, FACTS).node
        server.gate._strangers = Rates(1e-3, burst=3.0)
        host, port = url.removeprefix("http://").split(":")

        def begin() -> bytes:
            """The answer to the head of a request whose megabyte never comes."""
            with socket.create_connection((host, int(port)), timeout=10) as line:
                line.sendall(f"PUT /v1/results/1 HTTP/1.1\r\nHost: x\r\n{signing.NODE}: {node}\r\nContent-Length: 1000000\r\n\r\n".encode())
                return line.recv(100)

        with httpx.Client(base_url=url) as rubbish:
            for _ in range(4):
                found = rubbish.put("/v1/results/1", content=b"x", headers={signing.NODE: node})
        assert found.status_code == 429
        assert b" 429 " in begin()
        assert made.work(Ask(want=1)).why == "nothing to do"  # a node that signs what it asks is heard all the same
        made.close()


def test_a_node_is_heard_whatever_else_comes_from_its_address(tmp_path: Path) -> None:
    with serving(tmp_path) as (server, url):
        made = Client(url, signing.Key.make(), pinned=server.key.public)
        made.enrol(server.secrets.join, FACTS)
        server.gate._strangers = Rates(1e-3, burst=3.0)
        with httpx.Client(base_url=url) as neighbour:  # an office may have one address
            found = [neighbour.get("/v1/status").status_code for _ in range(5)]
        assert found == [401, 401, 401, 429, 429]
        with pytest.raises(Refusal, match="there is no result 1"):  # and not that too many came
            made.answer(1, b"x" * 100_000)
        made.close()


def test_there_are_no_more_connections_than_files() -> None:
    assert connections_for(1 << 20) == 4096 and 700 < connections_for(1024) < 824 and connections_for(64) == 16
    assert open_files() >= 1024


def test_nonces_are_remembered_for_as_long_as_their_time_is_good() -> None:
    nonces = Nonces()
    assert nonces.fresh("n", "x", 0.0) and not nonces.fresh("n", "x", 100.0) and nonces.fresh("m", "x", 100.0)
    assert nonces.fresh("n", "x", 1000.0)


def test_a_killed_server_leaves_a_database_that_opens(tmp_path: Path) -> None:
    with serving(tmp_path) as (server, url):
        made = Client(url, signing.Key.make(), pinned=server.key.public)
        enrolled = made.enrol(server.secrets.join, FACTS)
        made.close()
    with serving(tmp_path) as (again, url):
        assert again.key.public == server.key.public and again.secrets == server.secrets
        known = httpx.get(f"{url}/v1/nodes", headers={"Authorization": f"Bearer {again.secrets.view}"}).json()
        assert [node["id"] for node in known] == [enrolled.node]


def test_tls_with_an_authority_of_its_own(tmp_path: Path) -> None:
    from laminar.grid.server.certificates import own_certificate

    pair = own_certificate(tmp_path / "tls", "127.0.0.1")
    with serving(tmp_path / "grid", certificate=pair) as (server, url):
        assert url.startswith("https://")
        home = Home(tmp_path / "node")
        client = join(home, url, server.secrets.join, server.key.public, facts("n", Limits()), tmp_path / "tls" / "ca.pem")
        assert client.work(Ask(want=1)).why == "nothing to do"
        client.close()
        later = join(home, None, None, None, facts("n", Limits()))  # it has kept the authority
        assert later.work(Ask(want=1)).why == "nothing to do"
        later.close()
        stranger = Client(url, signing.Key.make(), pinned=server.key.public)
        with pytest.raises(Unreachable, match="certificate"):
            stranger.work(Ask(want=1))
        stranger.close()


def test_another_protocol_is_named_to_whoever_joins_and_to_who_joined_long_ago(
    grid: tuple[GridServer, str], client: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server, url = grid
    home = Home(tmp_path)
    join(home, url, server.secrets.join, None, FACTS).close()
    monkeypatch.setattr(clients, "PROTOCOL", PROTOCOL + 1)  # this side has been installed anew
    known = join(home, None, None, None, FACTS)
    with pytest.raises(LaminarError, match=f"speaks protocol {PROTOCOL}, not {PROTOCOL + 1}") as told:
        Keeper(home, known, Limits(battery=True), "n", lambda _: None).run()
    known.close()
    assert told.value.code == "L503" and "pip install" in told.value.hint
    with pytest.raises(LaminarError, match=f"not {PROTOCOL + 1}") as told:
        join(Home(tmp_path / "new"), url, server.secrets.join, None, FACTS)
    assert "pip install" in told.value.hint
    body = msgspec.json.encode({"protocol": PROTOCOL + 1, "of": "fields that nobody here knows"})
    assert error_of(httpx.post(f"{url}/v1/enrol", content=body)) == (426, "version")
    for odd in ("", "3.0", "x" * 100):
        head = signed(client, "POST", "/v1/work", b'{"want":1}') | {signing.SPEAKS: odd}
        assert error_of(httpx.post(f"{url}/v1/work", content=b'{"want":1}', headers=head)) == (426, "version")


def test_one_server_for_a_folder_and_one_node_for_a_home(tmp_path: Path) -> None:
    with serving(tmp_path / "grid") as (_, url):
        with pytest.raises(LaminarError, match=f"served from .* already, by process {os.getpid()} at {url}") as told:
            GridServer(Options(tmp_path / "grid", "test", port=0), TorchLearner())
        assert told.value.code == "L506"
    with serving(tmp_path / "grid"):  # when the other has ended
        pass
    first, second = Home(tmp_path / "home"), Home(tmp_path / "home")
    first.take()
    with pytest.raises(LaminarError, match="another process is the node"):
        second.take()

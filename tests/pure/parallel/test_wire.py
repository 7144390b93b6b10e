"""The wire: whole messages whatever the pieces they come in, and nobody who can hold up or bring down a hub."""

from __future__ import annotations

import contextlib
import itertools
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from laminar.core.errors import LaminarError
from laminar.parallel.wire.addresses import connect
from laminar.parallel.wire.frames import HEADER_LIMIT, Gone
from laminar.parallel.wire.hub import Caller, Heard, Hub
from laminar.parallel.wire.link import Link

TOKEN = "a secret"
LIMIT = 1 << 20


@pytest.fixture(params=["unix", "tcp"])
def hub(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Hub]:
    made = Hub(f"unix:{tmp_path}/s" if request.param == "unix" else "127.0.0.1:0", TOKEN, payload_limit=LIMIT)
    yield made
    made.close()


@pytest.fixture
def unix(tmp_path: Path) -> Iterator[Hub]:
    made = Hub(f"unix:{tmp_path}/s", TOKEN, payload_limit=LIMIT)
    yield made
    made.close()


def hear(hub: Hub, count: int = 1) -> list[tuple[Caller, dict[str, Any] | None, bytes]]:
    """So many messages (or ends), however many turns they take."""
    found: list[tuple[Caller, dict[str, Any] | None, bytes]] = []
    while len(found) < count:
        found += [(heard.caller, heard.header, bytes(heard.payload)) for heard in hub.turn(5.0)]
    return found


def quiet(hub: Hub) -> None:
    """Let the hub do what it has to, and hear nothing of it."""
    assert [heard for _ in range(5) for heard in hub.turn(0.01)] == []


def raw(hub: Hub) -> socket.socket:
    return connect(hub.address, 5.0)


def frame(header: bytes, payload: bytes = b"", *, header_bytes: int | None = None, payload_bytes: int | None = None) -> bytes:
    lengths = len(header) if header_bytes is None else header_bytes, len(payload) if payload_bytes is None else payload_bytes
    return struct.pack("<IQ", *lengths) + header + payload


HELLO = frame(b'{"token":"a secret"}')


def test_a_message_and_its_reply(hub: Hub) -> None:
    link = Link(hub.address, TOKEN, timeout=5.0)
    link.send({"say": "push", "n": 3}, b"abc", memoryview(b"defg"))
    ((caller, header, payload),) = hear(hub)
    assert header == {"say": "push", "n": 3} and payload == b"abcdefg"
    hub.send(caller, {"say": "taken"}, b"12", b"", b"3")
    header, data = link.receive()
    assert header == {"say": "taken"} and bytes(data) == b"123"
    assert link.sent == caller.received and link.received == caller.sent
    link.close()


HEADERS = st.dictionaries(st.text(max_size=5), st.integers(-9, 9))


@settings(derandomize=True, max_examples=25, deadline=None)
@given(st.lists(st.tuples(HEADERS, st.binary(max_size=300)), max_size=5), st.lists(st.integers(1, 60), min_size=1, max_size=9))
def test_messages_are_whole_whatever_the_pieces(
    tmp_path_factory: pytest.TempPathFactory, messages: list[tuple[dict[str, int], bytes]], pieces: list[int]
) -> None:
    stream = HELLO + b"".join(frame(msgspec.json.encode(header), payload) for header, payload in messages)
    hub = Hub(f"unix:{tmp_path_factory.mktemp('w')}/s", TOKEN, payload_limit=LIMIT)
    with contextlib.closing(hub), contextlib.closing(raw(hub)) as peer:
        found: list[Any] = []
        for size in itertools.cycle(pieces):
            peer.sendall(stream[:size])
            stream = stream[size:]
            found += [(heard.header, bytes(heard.payload)) for heard in hub.turn(0.0)]
            if not stream:
                break
        while len(found) < len(messages):
            found += [(heard.header, bytes(heard.payload)) for heard in hub.turn(5.0)]
        assert found == messages


def test_a_large_reply_does_not_hold_up_others(unix: Hub) -> None:
    slow, quick = Link(unix.address, TOKEN, timeout=5.0), Link(unix.address, TOKEN, timeout=5.0)
    slow.send({"who": "slow"})
    ((caller, _, _),) = hear(unix)
    big = bytes(range(256)) * (64 << 10)  # 16 MiB: more than any socket takes at once
    unix.send(caller, {"big": True}, big)
    quick.send({"who": "quick"})
    ((other, _, _),) = hear(unix)
    unix.send(other, {"small": True})
    assert quick.receive()[0] == {"small": True}
    received: list[bytes] = []
    reader = threading.Thread(target=lambda: received.append(bytes(slow.receive()[1])))
    reader.start()
    while reader.is_alive():
        assert list(unix.turn(0.05)) == []
    assert received == [big]
    slow.close(), quick.close()
    assert {caller for caller, header, _ in hear(unix, 2) if header is None} == {caller, other}


def test_bytes_may_change_once_they_are_given(hub: Hub) -> None:
    link = Link(hub.address, TOKEN, timeout=5.0)
    link.send({"say": "hello"})
    ((caller, _, _),) = hear(hub)
    whole = bytes(range(256)) * 64
    answers = [bytearray(whole) for _ in range(1000)]  # 16 MiB: more than any socket takes at once
    for answer in answers:
        hub.send(caller, {}, answer)
        answer[:] = bytes(len(answer))
    received: list[bytes] = []
    reader = threading.Thread(target=lambda: received.extend(bytes(link.receive()[1]) for _ in answers))
    reader.start()
    while reader.is_alive():
        assert list(hub.turn(0.05)) == []
    assert received == [whole] * len(answers)
    link.close()


def test_many_callers_are_all_heard(hub: Hub) -> None:
    links = [Link(hub.address, TOKEN, timeout=5.0) for _ in range(40)]
    for round_ in range(3):
        for i, link in enumerate(links):
            link.send({"i": i, "round": round_}, bytes([i]) * i)
        found = hear(hub, len(links))
        assert sorted(header["i"] for _, header, _ in found if header) == list(range(40))
        for caller, header, payload in found:
            assert header is not None and payload == bytes([header["i"]]) * header["i"]
            hub.send(caller, header)
        assert [link.receive()[0]["i"] for link in links] == list(range(40))
    for link in links:
        link.close()
    assert len(hear(hub, 40)) == 40 and hub.callers == []


def test_the_end_of_a_caller_is_told_once(hub: Hub) -> None:
    link = Link(hub.address, TOKEN, timeout=5.0)
    link.send({"say": "hello"})
    ((caller, _, _),) = hear(hub)
    link.close()
    assert hear(hub) == [(caller, None, b"")]
    hub.send(caller, {"nobody": "hears"})
    quiet(hub)


def test_who_was_dropped_is_not_told_as_gone(hub: Hub) -> None:
    link = Link(hub.address, TOKEN, timeout=5.0)
    link.send({"say": "hello"})
    ((caller, _, _),) = hear(hub)
    hub.drop(caller)
    quiet(hub)
    with pytest.raises(Gone):
        link.receive()
    link.close()


def test_a_caller_dropped_while_it_speaks_is_heard_no_more(hub: Hub) -> None:
    links = [Link(hub.address, TOKEN, timeout=5.0) for _ in range(2)]
    for link in links:
        link.send({"say": "hello"})
    first, second = (caller for caller, _, _ in hear(hub, 2))
    for link in links:
        link.send({"say": "both"})
    heard: list[Heard] = []
    for one in hub.turn(5.0):
        heard.append(one)
        for other in (first, second):
            if other is not one.caller:
                hub.drop(other)
    assert len(heard) == 1
    quiet(hub)
    for link in links:
        link.close()
    hear(hub)


@pytest.mark.parametrize(
    "said",
    [
        frame(b'{"token":"another"}'),
        frame('{"token":"gehürt"}'.encode()),
        frame(b'{"say":"push"}'),
        frame(b"[1]"),
        frame(b""),
        frame(b"\xff\xfe\xfd"),
        frame(b'{"token":"\xff"}'),
        frame(b'{"token":' + b"[" * 200_000),
        frame(b'{"token":"a secret"}', b"bytes before the token is known"),
        frame(b"", header_bytes=HEADER_LIMIT + 1),
        b"GET / HTTP/1.1\r\nHost: somewhere\r\n\r\n",
        HELLO + frame(b"{}", payload_bytes=LIMIT + 1),
        HELLO + frame(b"{}", header_bytes=HEADER_LIMIT + 1),
        HELLO + frame(b"no json"),
        HELLO + frame(b'{"a":' + b"[" * 200_000),
        HELLO + frame(b'{"a":"\xff"}'),
    ],
)
def test_what_makes_no_sense_ends_the_call_and_not_the_hub(unix: Hub, said: bytes) -> None:
    good = Link(unix.address, TOKEN, timeout=5.0)
    good.send({"say": "hello"})
    hear(unix)
    bad = raw(unix)
    bad.sendall(said)
    assert [header for _, header, _ in hear(unix)] == [None]
    with contextlib.suppress(ConnectionError):
        assert bad.recv(100) == b""
    good.send({"say": "still here"})
    assert hear(unix)[0][1] == {"say": "still here"}
    good.close(), bad.close()
    hear(unix)


@pytest.mark.parametrize("said", [b"", HELLO[:5], HELLO, HELLO + frame(b'{"a":1}', b"abc")[:-1], HELLO + frame(b'{"a":1}')[:14]])
def test_half_a_message_is_no_message(hub: Hub, said: bytes) -> None:
    peer = raw(hub)
    peer.sendall(said)
    quiet(hub)
    peer.close()
    assert [header for _, header, _ in hear(hub)] == [None]


def serving(answer: Callable[[socket.socket], None]) -> tuple[str, threading.Thread]:
    """A peer of a link that is no hub."""
    listener = socket.socket(socket.AF_INET)
    listener.bind(("127.0.0.1", 0))
    listener.listen()

    def run() -> None:
        made, _ = listener.accept()
        answer(made)
        made.close()
        listener.close()

    thread = threading.Thread(target=run)
    thread.start()
    return f"127.0.0.1:{listener.getsockname()[1]}", thread


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"HTTP/1.1 400 Bad Request\r\n\r\n",
        frame(b"{}", payload_bytes=1 << 62),
        frame(b"{}", payload_bytes=(1 << 64) - 1),
        frame(b"[]"),
        frame(b'{"a":1}', b"abc", payload_bytes=4),
    ],
)
def test_a_link_to_something_else_says_so(answer: bytes) -> None:
    address, thread = serving(lambda peer: peer.sendall(answer))
    link = Link(address, TOKEN, timeout=5.0)
    with pytest.raises(Gone):
        link.receive()
    link.close()
    thread.join()


def test_nobody_there_is_gone(tmp_path: Path) -> None:
    with pytest.raises(Gone, match="No such file"):
        Link(f"unix:{tmp_path}/nobody", TOKEN)


def test_a_hub_that_says_nothing_is_gone_after_the_timeout(unix: Hub) -> None:
    link = Link(unix.address, TOKEN, timeout=0.01)
    with pytest.raises(Gone, match="timed out"):
        link.ask({"say": "hello"})
    link.close()
    hear(unix, 2)


def test_a_port_that_is_taken_is_told() -> None:
    first = Hub("127.0.0.1:0", TOKEN, payload_limit=LIMIT)
    with pytest.raises(LaminarError, match="it is in use") as caught:
        Hub(first.address, TOKEN, payload_limit=LIMIT)
    assert caught.value.code == "L405" and caught.value.exit_code == 4 and "port" in caught.value.hint
    first.close()
    Hub(first.address, TOKEN, payload_limit=LIMIT).close()  # and free again


def test_a_port_that_cannot_be_is_no_matter_of_the_host() -> None:
    """Servers take one port after the other, and the last may be above all there are."""
    with pytest.raises(LaminarError, match="no ports above 65535") as caught:
        Hub("127.0.0.1:65536", TOKEN, payload_limit=LIMIT)
    assert caught.value.code == "L405" and "another port" in caught.value.hint


@pytest.mark.parametrize("address", ["203.0.113.7:7100", "nowhere.invalid:7100", "unix:/nowhere/at/all"])
def test_an_address_that_is_none_of_this_machine_is_told(address: str) -> None:
    with pytest.raises(LaminarError, match="cannot listen on") as caught:
        Hub(address, TOKEN, payload_limit=LIMIT)
    assert caught.value.code == "L405"


def test_a_hub_takes_the_place_of_one_that_was_killed(tmp_path: Path) -> None:
    address = f"unix:{tmp_path}/s"
    left = socket.socket(socket.AF_UNIX)
    left.bind(address.removeprefix("unix:"))
    left.close()  # the file stays
    hub = Hub(address, TOKEN, payload_limit=LIMIT)
    link = Link(address, TOKEN, timeout=5.0)
    link.send({"say": "hello"})
    assert hear(hub)[0][1] == {"say": "hello"}
    link.close()
    hub.close()


def test_a_message_that_does_not_go_is_the_end_of_the_line(tmp_path: Path) -> None:
    """What is said next would be taken for its rest."""
    with socket.socket(socket.AF_UNIX) as hangs:
        hangs.bind(f"{tmp_path}/s")
        hangs.listen()
        link = Link(f"unix:{tmp_path}/s", "a")
        link.wait(0.01)
        with pytest.raises(Gone):
            link.send({"say": "push"}, bytes(32 << 20))
        with pytest.raises(Gone):
            link.send({"say": "alive"})
        assert link.ready(0.0)
        link.close()

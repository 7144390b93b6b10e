"""Rooms: bytes that lie in shared memory arrive as if they had been sent, and nobody reads what is not his."""

from __future__ import annotations

import os
import socket
import struct
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from laminar.parallel.wire.addresses import connect
from laminar.parallel.wire.frames import IN_ROOM, Gone
from laminar.parallel.wire.hub import Caller, Hub
from laminar.parallel.wire.link import Link
from laminar.parallel.wire.room import DOWN, UP, Room

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="a hub finds rooms in /proc")
TOKEN = "a secret"
LIMIT = 1 << 20
SMALL = b"0123456789" * 10
LARGE = bytes(range(256)) * 64


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[Hub]:
    made = Hub(f"unix:{tmp_path}/s", TOKEN, payload_limit=LIMIT)
    yield made
    made.close()


def hear(hub: Hub) -> tuple[Caller, dict[str, Any] | None, memoryview]:
    while True:
        for heard in hub.turn(5.0):
            return heard.caller, heard.header, heard.payload


def greeted(hub: Hub, up: int = 1000, down: int = 1000) -> tuple[Link, Caller]:
    link = Link(hub.address, TOKEN, timeout=5.0, room=(up, down))
    assert not link.near, "before the hub has answered nobody knows"
    link.send({"say": "hello"})
    caller, _, _ = hear(hub)
    hub.send(caller, {"say": "welcome"})
    link.receive()
    return link, caller


def on_the_wire(link: Link) -> int:
    """Bytes that wait in its socket."""
    return len(link._socket.recv(1 << 20, socket.MSG_PEEK))


def test_bytes_lie_in_the_room_and_count_as_sent(hub: Hub) -> None:
    link, caller = greeted(hub)
    assert link.near
    for number in range(3):
        link.send({"n": number}, SMALL, memoryview(b"more"))
        caller, header, payload = hear(hub)
        assert (header, bytes(payload)) == ({"n": number}, SMALL + b"more")
        hub.send(caller, {"n": number}, SMALL)
        assert link.ready() and on_the_wire(link) < len(SMALL)
        header, data = link.receive()
        assert (header, bytes(data)) == ({"n": number}, SMALL)
        assert not link.ready()
    assert link.sent == caller.received and link.received == caller.sent
    link.close()


@pytest.mark.parametrize(("up", "down"), [(10, 1000), (1000, 10), (0, 0)])
def test_what_does_not_fit_is_sent(hub: Hub, up: int, down: int) -> None:
    link, caller = greeted(hub, up, down)
    link.send({}, SMALL)
    assert bytes(hear(hub)[2]) == SMALL
    hub.send(caller, {}, SMALL)
    assert bytes(link.receive()[1]) == SMALL
    link.close()


def test_a_place_that_is_taken_is_left_alone(hub: Hub) -> None:
    link, caller = greeted(hub)
    link.send({"n": 0}, b"first")
    link.send({"n": 1}, b"second")
    assert [bytes(hear(hub)[2]) for _ in range(2)] == [b"first", b"second"]
    hub.send(caller, {"n": 0}, b"third")
    hub.send(caller, {"n": 1}, b"fourth")
    assert bytes(link.receive()[1]) == b"third"
    assert bytes(link.receive()[1]) == b"fourth"
    link.close()


@pytest.mark.parametrize("room", [(1000, 1000), None])
def test_bytes_may_change_once_they_are_given(hub: Hub, room: tuple[int, int] | None) -> None:
    link = Link(hub.address, TOKEN, timeout=5.0, room=room)
    link.send({"say": "hello"})
    caller, _, _ = hear(hub)
    answers = [bytearray(LARGE) for _ in range(200)]  # more than a socket takes
    for answer in answers:
        hub.send(caller, {}, answer)
        answer[:] = bytes(len(answer))
    found = 0
    while found < len(answers):
        list(hub.turn(0.0))
        if link.ready():
            assert bytes(link.receive()[1]) == LARGE
            found += 1
    link.close()


def test_a_room_is_only_for_who_is_near() -> None:
    hub = Hub("127.0.0.1:0", TOKEN, payload_limit=LIMIT)
    link, caller = greeted(hub)
    assert not link.near and caller._room is None
    link.close(), hub.close()


@pytest.mark.parametrize("wrong", [{"mark": 1}, {"fd": 9999}, {"pid": 2**22 + 1}, {"up": 1 << 40}, {"up": -1}, {"more": 1}])
def test_a_room_that_is_another_one_is_not_used(wrong: dict[str, int]) -> None:
    room = Room.make(100, 100)
    assert room is not None
    told = msgspec.to_builtins(room.told(os.getpid()))
    assert Room.find(told) is not None and room.shared
    assert Room.find(told | wrong) is None
    assert Room.find("nonsense") is None
    room.close()


@pytest.mark.parametrize("size", [1001, LIMIT + 1])
def test_a_message_with_more_bytes_than_its_room_ends_the_connection(hub: Hub, size: int) -> None:
    link, caller = greeted(hub)
    text = b"{}"
    link._socket.sendall(struct.pack("<IQ", len(text), size | IN_ROOM) + text)
    assert hear(hub)[:2] == (caller, None)
    with pytest.raises(Gone):
        link.receive()
    link.close()


def test_bytes_in_a_room_that_there_is_not(hub: Hub) -> None:
    peer = connect(hub.address, 5.0)
    token, text = b'{"token":"a secret"}', b"{}"
    peer.sendall(struct.pack("<IQ", len(token), 0) + token + struct.pack("<IQ", len(text), 5 | IN_ROOM) + text)
    assert hear(hub)[1] is None
    peer.close()


def test_memory_goes_with_the_connection(hub: Hub) -> None:
    before = len(os.listdir("/proc/self/fd"))
    link, caller = greeted(hub)
    link.send({}, SMALL)
    hear(hub)
    link.close()
    assert hear(hub)[1] is None and caller._room is None
    assert len(os.listdir("/proc/self/fd")) == before


def test_no_memory_no_room(monkeypatch: pytest.MonkeyPatch, hub: Hub) -> None:
    monkeypatch.setattr("laminar.parallel.segment.available", lambda: 10)
    assert Room.make(100, 100) is None
    link, _ = greeted(hub)
    assert not link.near
    link.close()


def test_places_are_apart() -> None:
    room = Room.make(100, 100)
    assert room is not None
    Room.find(room.told(os.getpid()))
    assert room.put(UP, [b"u" * 100], 100) and room.put(DOWN, [b"d" * 100], 100)
    assert not room.put(UP, [b"x"], 1), "it is taken"
    up, down = room.get(UP, 100), room.get(DOWN, 100)
    assert up is not None and down is not None and (bytes(up), bytes(down)) == (b"u" * 100, b"d" * 100)
    assert room.get(UP, 101) is None
    room.free(UP)
    assert room.put(UP, [b"x"], 1)
    room.close()

"""What strangers can make a server write into its log: a line, and a count now and then."""

from __future__ import annotations

import logging
import socket
from pathlib import Path

import pytest

from laminar.grid.server.patience import Seldom
from tests.multi.grid.served import serving


def test_strangers_cannot_fill_the_log(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    upgrade = b"GET /v1/about HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"
    log = logging.getLogger("uvicorn.error")
    with serving(tmp_path) as (server, url):
        host, port = url.removeprefix("http://").split(":")
        log.addHandler(caplog.handler)
        for said in (b"\x16\x03\x01 nothing that anybody knows\r\n\r\n", upgrade):
            for _ in range(20):
                with socket.create_connection((host, int(port)), timeout=10) as line:
                    line.sendall(said)
                    assert line.recv(100)
        log.removeHandler(caplog.handler)
        lines = [record.getMessage() for record in caplog.records if record.name == log.name]
        assert "Invalid HTTP request received." in lines and len(lines) == len(set(lines)) <= 3
        assert server.gate.refused["http"] >= 40
    assert not log.filters


def test_what_anybody_can_make_it_say_is_counted() -> None:
    now, counted = [0.0], list[str]()
    seldom = Seldom(counted.append, lambda: now[0])

    def say(text: str) -> str | None:
        record = logging.LogRecord("uvicorn.error", logging.WARNING, "", 0, text, (), None)
        return record.getMessage() if seldom.filter(record) else None

    told = "Invalid HTTP request received."
    assert [say(told) for _ in range(4)] == [told, None, None, None] and say("Unsupported upgrade request.") is not None
    assert all(say("Exception in ASGI application") for _ in range(3))
    now[0] += 3601
    assert say(told) == f"{told} (3 more of these since the last line)" and say(told) is None
    assert counted == ["http"] * 7

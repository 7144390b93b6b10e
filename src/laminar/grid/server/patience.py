"""Patience: connections that say nothing, or say it byte by byte, are closed. uvicorn waits for a request's head for ever."""

from __future__ import annotations

import asyncio
from typing import Any, Final

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

HEAD: Final = 15.0  # seconds from the first moment of a connection, or from the first byte of a request, to the end of its head


class PatientProtocol(HttpToolsProtocol):
    _waits: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        super().connection_lost(exc)

    def on_message_begin(self) -> None:
        self._wait()
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        self._stop_waiting()
        super().on_headers_complete()

    def _wait(self) -> None:
        self._stop_waiting()
        self._waits = self.loop.call_later(HEAD, self._close)

    def _stop_waiting(self) -> None:
        if self._waits is not None:
            self._waits.cancel()
            self._waits = None

    def _close(self) -> None:
        if not self.transport.is_closing():
            self.transport.close()

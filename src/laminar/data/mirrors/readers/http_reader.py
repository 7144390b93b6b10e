"""A mirror over http or https: one connection kept alive, ranges, redirects. From the standard library, which is quick enough.

Pieces are asked for by their ranges. A server that ignores them sends the file from its beginning; then the answer is kept open, so that
what comes behind a piece can be read on.
"""

from __future__ import annotations

import base64
import contextlib
import http.client
import re
import socket
import ssl
from collections.abc import Generator
from typing import Final, final
from urllib.parse import quote, unquote, urljoin, urlsplit

from laminar.data.mirrors.faults import Fault, Kind
from laminar.data.mirrors.readers.protocol import BLOCK, Ask, Timeouts
from laminar.data.mirrors.readers.reach import dial, restricted
from laminar.data.mirrors.readers.socket_faults import connecting, shut

REDIRECTS: Final = 5
SMALL: Final = 1 << 16  # bytes of an error page that are read, so that the connection can be used again
_RANGE: Final = re.compile(r"bytes (\d+)-(\d+)/(\d+|\*)")
_STALE: Final = (http.client.BadStatusLine, ConnectionError)  # BadStatusLine: RemoteDisconnected is one
_STATUS: Final = {
    401: Kind.REFUSED,
    403: Kind.REFUSED,
    404: Kind.MISSING,
    410: Kind.MISSING,
    416: Kind.SHORT,
    429: Kind.BUSY,
    503: Kind.BUSY,
}


@final
class HttpReader:
    def __init__(self, url: str, timeouts: Timeouts) -> None:
        parts = urlsplit(url)
        self._base = parts._replace(netloc=parts.netloc.rpartition("@")[2], path=parts.path.rstrip("/") + "/", fragment="")
        self._timeouts = timeouts
        self._only_public = restricted()
        self._headers = {"User-Agent": "laminar", "Accept-Encoding": "identity"}
        self._login: dict[str, str] = {}
        if parts.username is not None:
            secret = f"{unquote(parts.username)}:{unquote(parts.password or '')}".encode()
            self._login = {"Authorization": "Basic " + base64.b64encode(secret).decode()}
        self._connections: dict[tuple[str, str], http.client.HTTPConnection] = {}
        self._sockets: list[socket.socket] = []
        self._answer: http.client.HTTPResponse | None = None  # the last one, as long as it is open
        self._stands: tuple[str, int] | None = None  # the file and the byte at which it was left, if it can be gone on with

    def stream(self, ask: Ask) -> Generator[bytes, None, None]:
        complete = False
        try:
            answer, at = self._at(ask)
            while at < ask.start:
                block = self._read(answer, min(BLOCK, ask.start - at))
                if not block:
                    raise Fault(Kind.SHORT, f"ends after {at:,} bytes")
                at += len(block)
                assert ask.skip is not None
                ask.skip(len(block))
            while ask.end is None or at < ask.end:
                block = self._read(answer, BLOCK if ask.end is None else min(BLOCK, ask.end - at))
                if not block:
                    if ask.end is None:
                        break
                    raise Fault(Kind.BROKE, f"broke off after {at:,} of {ask.end:,} bytes")
                at += len(block)
                yield block
            complete = True
            if answer.length == 0:
                answer.close()  # it does not notice that itself; the connection stays
            self._stands = None if answer.isclosed() else (ask.path, at)
        finally:
            if not complete:
                self.close()

    def abort(self) -> None:
        for sock in list(self._sockets):
            shut(sock)

    def close(self) -> None:
        self._stands = None
        if self._answer is not None:
            self._answer.close()
            self._answer = None
        for connection in self._connections.values():
            connection.close()
        for sock in self._sockets:
            sock.close()
        self._connections.clear()
        self._sockets.clear()

    def _at(self, ask: Ask) -> tuple[http.client.HTTPResponse, int]:
        """An answer, and the byte of the file at which it stands."""
        if self._answer is not None and self._stands is not None:
            path, at = self._stands
            if path == ask.path and (at == ask.start or (at < ask.start and ask.skip is not None)):
                return self._answer, at
            self.close()
        answer = self._ask(ask)
        if answer.getheader("Content-Encoding", "identity") != "identity":
            raise Fault(Kind.ERROR, f"sends {answer.getheader('Content-Encoding')} that was not asked for")
        if answer.status == 206:
            found = _RANGE.fullmatch(answer.getheader("Content-Range", ""))
            if found is None or int(found[1]) != ask.start:
                raise Fault(Kind.ERROR, f"sends the range {answer.getheader('Content-Range')!r}, not that from {ask.start}")
            total, at = None if found[3] == "*" else int(found[3]), ask.start
        else:
            total, at = answer.length, 0
            if ask.start and ask.skip is None:
                raise Fault(Kind.WHOLE, "cannot begin in the middle of a file")
        if ask.size is not None and total is not None and total != ask.size:
            raise Fault(Kind.SHORT, f"{total:,} bytes, not {ask.size:,}")
        return answer, at

    def _ask(self, ask: Ask) -> http.client.HTTPResponse:
        url = self._base._replace(path=self._base.path + quote(ask.path)).geturl()
        headers = dict(self._headers)
        if ask.end is not None and (ask.start, ask.end) != (0, ask.size):
            headers["Range"] = f"bytes={ask.start}-{ask.end - 1}"
        for _ in range(REDIRECTS):
            answer = self._send(url, headers)
            if answer.status in (200, 206):
                return answer
            if answer.status in (301, 302, 303, 307, 308):
                url = urljoin(url, answer.getheader("Location", ""))
                self._drain(answer)
                if urlsplit(url).scheme not in ("http", "https"):
                    raise Fault(Kind.ERROR, f"redirects to {url}")
                continue
            self._drain(answer)
            kind = _STATUS.get(answer.status, Kind.ERROR if answer.status >= 500 else Kind.REFUSED)
            raise Fault(kind, f"{answer.status} {answer.reason}".strip())
        raise Fault(Kind.ERROR, f"redirects more than {REDIRECTS} times")

    def _send(self, url: str, headers: dict[str, str]) -> http.client.HTTPResponse:
        parts = urlsplit(url)
        place = (parts.scheme, parts.netloc)
        login = self._login if place == (self._base.scheme, self._base.netloc) else {}
        target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        for fresh in (False, True):
            connection = None if fresh else self._connections.get(place)
            if not fresh and (connection is None or connection.sock is None):  # it did not keep the last one
                continue
            if connection is None:
                connection = self._connect(place)
            try:
                connection.request("GET", target, headers=headers | login)
                self._answer = connection.getresponse()
                return self._answer
            except _STALE as error:
                connection.close()
                self._connections.pop(place, None)
                if fresh:  # else the server had ended a connection that it had kept for us
                    raise Fault(Kind.BROKE, str(error) or type(error).__name__) from error
            except TimeoutError as error:
                raise Fault(Kind.STALLED, f"no answer for {self._timeouts.read:.3g} s") from error
            except (OSError, http.client.HTTPException, ValueError) as error:
                raise Fault(Kind.ERROR, f"{type(error).__name__}: {error}") from error
        raise AssertionError

    def _dial(self, host: str, port: int) -> socket.socket:
        return dial(host, port, self._timeouts.connect, only_at_public=self._only_public)

    def _connect(self, place: tuple[str, str]) -> http.client.HTTPConnection:
        scheme, netloc = place
        made: http.client.HTTPConnection
        with connecting(self._timeouts.connect):
            if scheme == "https":
                context = ssl.create_default_context()
                made = http.client.HTTPSConnection(netloc, context=context)
                made.sock = context.wrap_socket(self._dial(made.host, made.port), server_hostname=made.host)
            else:
                made = http.client.HTTPConnection(netloc)
                made.sock = self._dial(made.host, made.port)
        made.auto_open = 0  # so that we notice when it is gone
        made.sock.settimeout(self._timeouts.read)
        self._sockets = [sock for sock in self._sockets if sock.fileno() != -1]
        self._sockets.append(made.sock)
        self._connections[place] = made
        return made

    def _read(self, answer: http.client.HTTPResponse, count: int) -> bytes:
        try:
            return answer.read1(count)
        except TimeoutError as error:
            raise Fault(Kind.STALLED, f"no byte for {self._timeouts.read:.3g} s") from error
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise Fault(Kind.BROKE, f"{type(error).__name__}: {error}") from error

    def _drain(self, answer: http.client.HTTPResponse) -> None:
        """Read what nobody wants, so that the connection can be used again; or end it."""
        with contextlib.suppress(OSError, http.client.HTTPException):
            if answer.length is not None and answer.length <= SMALL:
                answer.read()
                return
        self.close()

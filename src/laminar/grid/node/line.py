"""Line: one connection to a server, kept open between requests. HTTP/1.1 by the standard library, a third of what httpx costs a request.

Proxies are those of the environment or the system, as for most programs. Redirects are not followed: they come back as they are. A reply
has at most as many bytes as the caller allows, and every wait for the other side has an end.
"""

from __future__ import annotations

import base64
import contextlib
import os
import select
import socket
import ssl
import time
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from email.message import Message
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from typing import Final, final
from urllib.parse import SplitResult, unquote, urlsplit

CHUNK: Final = 256 << 10  # bytes passed to the operating system at a time
SLOWEST: Final = 16 << 10  # bytes per second of the slowest connection that is supported
Broken = (OSError, HTTPException)  # what a request may end with


@dataclass(frozen=True)
class Reply:
    status: int
    headers: Message  # whatever the case of their names
    body: bytes
    sending: float = 0.0  # seconds from the beginning of the request to the head of the reply
    receiving: float = 0.0  # from there to its end


@final
class Line:
    """ValueError for an address, or a proxy, that cannot be used; OSError for an authority that cannot be read."""

    def __init__(self, url: str, *, ca: str | None = None) -> None:
        there = _place(url)
        self._host, self._port, self._prefix = there.hostname or "", there.port, there.path.rstrip("/")
        self._secure = there.scheme == "https"
        self._context = _context(ca) if self._secure else None
        self._headers = {"Authorization": told} if (told := _secret(there)) else {}
        self._tunnel: dict[str, str] = {}  # headers for the proxy
        self._proxy = _proxy(there)
        if self._proxy is not None and (told := _secret(self._proxy)):
            self._tunnel = {"Proxy-Authorization": told}
        if self._proxy is not None and not self._secure:  # it is asked for the whole address
            self._prefix = f"http://{there.netloc.rpartition('@')[2]}{self._prefix}"
            self._headers |= self._tunnel
        self._open: HTTPConnection | None = None
        self._hung_up = False

    def request(self, method: str, path: str, body: Sequence[bytes], headers: Mapping[str, str], *, timeout: float, most: int) -> Reply:
        """One of `Broken` when it cannot be had: nobody is there, the wait is too long, or the reply has more than `most` bytes."""
        line = self._connected(timeout)
        began = time.monotonic()
        try:
            head = {**self._headers, **headers, "Content-Length": str(sum(map(len, body)))}
            try:
                line.request(method, self._prefix + path, body=_in_chunks(body), headers=head)
            except (BrokenPipeError, ConnectionResetError):
                if line.sock is None:
                    raise  # else it does not want all of it, and may have said why
            if self._hung_up:
                raise HTTPException("this side has hung up")
            if line.sock is not None:
                line.sock.settimeout(timeout + _held(line.sock, body) / SLOWEST)
            with line.getresponse() as found:
                return self._reply(found, most, began)
        except BaseException:
            self.close()
            raise

    @property
    def is_open(self) -> bool:
        """There was a request on it, and the other side has not hung up since."""
        return self._open is not None and self._open.sock is not None and not _ended(self._open)

    def hang_up(self) -> None:
        """For good, from a signal's handler: a request that waits for the other side ends at once."""
        self._hung_up = True
        there = self._open.sock if self._open is not None else None
        if there is not None:
            with contextlib.suppress(OSError):
                socket.socket.shutdown(there, socket.SHUT_RDWR)  # not TLS's own, which would forget its state under whoever reads

    def close(self) -> None:
        if self._open is not None:
            self._open.close()
            self._open = None

    def _reply(self, found: HTTPResponse, most: int, began: float) -> Reply:
        known, head = found.length, time.monotonic()
        body = b"" if known is not None and known > most else found.read(None if known is not None else most + 1)
        if len(body) > most or (known or 0) > most:
            raise HTTPException(f"it sends more than the {most} bytes that are expected")
        if found.will_close:
            self.close()
        return Reply(found.status, found.headers, body, head - began, time.monotonic() - head)

    def _connected(self, timeout: float) -> HTTPConnection:
        if self._open is not None and self.is_open:
            self._open.sock.settimeout(timeout)
            return self._open
        self.close()
        self._open = self._dialled(timeout)
        return self._open

    def _dialled(self, timeout: float) -> HTTPConnection:
        """By way of the proxy, if there is one."""
        if self._proxy is None:
            if self._secure:
                return HTTPSConnection(self._host, self._port, timeout=timeout, context=self._context)
            return HTTPConnection(self._host, self._port, timeout=timeout)
        host, port = self._proxy.hostname or "", self._proxy.port
        if not self._secure:
            return HTTPConnection(host, port or 80, timeout=timeout)
        line = HTTPSConnection(host, port or 80, timeout=timeout, context=self._context)
        line.set_tunnel(self._host, self._port or 443, self._tunnel)
        return line


def _held(there: socket.socket, body: Sequence[bytes]) -> int:
    """The most bytes that the system may have buffered and not sent yet; the server cannot answer before they arrive."""
    return min(there.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF), sum(map(len, body)))


def _in_chunks(body: Sequence[bytes]) -> Iterator[bytes | memoryview]:
    """Split large parts, because a socket's timeout applies to each send: many small sends may take longer in total."""
    for part in body:
        if len(part) <= CHUNK:
            yield part
        else:
            whole = memoryview(part)
            for at in range(0, len(part), CHUNK):
                yield whole[at : at + CHUNK]


def _ended(line: HTTPConnection) -> bool:
    """The other side has hung up: a line that nobody asks anything has nothing to say."""
    with contextlib.suppress(ValueError, OSError):
        return bool(select.select([line.sock], [], [], 0)[0])
    return True


def _place(url: str) -> SplitResult:
    there = urlsplit(url)
    if there.scheme not in ("http", "https") or not there.hostname:
        raise ValueError("an address begins with http:// or https:// and a host")
    _ = there.port  # ValueError where it is none
    if any(letter.isspace() or not letter.isprintable() for letter in url):
        raise ValueError("there are blanks in it")
    return there


def _proxy(there: SplitResult) -> SplitResult | None:
    proxies = urllib.request.getproxies()
    named = proxies.get(there.scheme) or proxies.get("all")
    if not named or urllib.request.proxy_bypass(there.netloc.rpartition("@")[2]):
        return None
    found = urlsplit(named if "://" in named else f"http://{named}")
    if found.scheme != "http" or not found.hostname:
        raise ValueError(f"the proxy of the environment is {found.scheme}://{found.hostname}, and only http:// is known")
    return found


def _secret(there: SplitResult) -> str:
    if there.username is None:
        return ""
    words = f"{unquote(there.username)}:{unquote(there.password or '')}"
    return "Basic " + base64.b64encode(words.encode()).decode()


def _context(ca: str | None) -> ssl.SSLContext:
    """Authorities: the server's own, those that the environment names (OpenSSL's variables), or Mozilla's, which every system then has."""
    if ca is None and not any(name in os.environ for name in ("SSL_CERT_FILE", "SSL_CERT_DIR")):
        import certifi

        ca = certifi.where()
    return ssl.create_default_context(cafile=ca)

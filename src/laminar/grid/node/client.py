"""Client: signed requests of a node, and answers whose signature is that of the server that was pinned.

Outgoing connections only. What fails for a while is tried again, each time later and at a random moment, so that a server that comes back
is not run over by all at once.
"""

from __future__ import annotations

import hashlib
import random
import time
from collections.abc import Callable
from typing import Any, Final, TypeVar, final

import msgspec

from laminar.core.errors import LaminarError
from laminar.grid.node.line import Broken, Line, Reply
from laminar.grid.wire import signing
from laminar.grid.wire.messages import PROTOCOL, Ask, Enrol, Enrolled, Facts, Problem, Received, Verdict, Work

PIECE: Final = 4 << 20  # bytes of an upload, at most
SMALLEST: Final = 256 << 10  # and at least
PIECE_SECONDS: Final = 10.0  # seconds that sending a piece should take
QUICK: Final = 2.0  # an upload expected to take longer is not combined with a request for work, which would hide its duration
MEASURED: Final = 64 << 10  # smallest transfer whose duration measures the connection
TIMEOUT: Final = 30.0
MESSAGE: Final = 16 << 20  # bytes that a reply may have
FILE: Final = 4 << 30
ROOM: Final = 64 << 10  # bytes by which packing may make a version larger
DIGITS: Final = 12
LARGE: Final = 64 << 10  # bytes that a server may not want to hear from somebody who has said nothing yet
BUSY: Final = (429, 502, 503, 504)
T = TypeVar("T")


class Refusal(Exception):
    """The server has said no, and means it."""

    def __init__(self, status: int, problem: Problem) -> None:
        super().__init__(problem.message)
        self.status, self.error = status, problem.error


class Unreachable(Exception):
    """Nobody answers, or what answers is not the server. Worth another try."""


class Busy(Unreachable):
    """It has no time, or something that stands before it says so. Not signed: nothing else of it is believed."""


@final
class Client:
    def __init__(self, url: str, key: signing.Key, *, pinned: str | None = None, ca: str | None = None) -> None:
        self.url, self._key, self.pinned = url.rstrip("/"), key, pinned
        self.node = signing.node_id(key.public)
        self._checker = signing.Checker()
        self._off = 0.0  # seconds that our clock is behind the server's
        self.up = self.down = 0.0  # bytes a second of the line, as measured last; 0: not known
        self._largest = PIECE  # limit for a piece, lowered after failures
        self.after = memoryview(b"")  # what came after the last message: bytes of versions (Packed)
        try:
            self._line = Line(self.url, ca=ca)
        except ValueError as error:
            raise LaminarError(
                "L501", f"{url} cannot be used: {error}", hint="laminar grid join http://HOST:8787 --token-file FILE"
            ) from error
        except OSError as error:
            raise LaminarError(
                "L501",
                f"{url} cannot be used with the authority {ca}: {error.strerror or error}",
                hint="--ca FILE is ca.pem in the folder .laminar/grid/tls of the server",
            ) from error

    def close(self) -> None:
        self._line.close()

    def hang_up(self) -> None:
        """From a signal's handler: no request waits any more, nor do those to come."""
        self._line.hang_up()

    # Requests

    def about(self) -> dict[str, Any]:
        found: dict[str, Any] = self._ask("GET", "/v1/about", type=dict[str, Any])
        return found

    def enrol(self, token: str, facts: Facts) -> Enrolled:
        asked = Enrol(protocol=PROTOCOL, token=token, key=self._key.public, facts=facts)
        return self._ask("POST", "/v1/enrol", asked, type=Enrolled)

    def work(self, asked: Ask) -> Work:
        return self._ask("POST", "/v1/work", asked, type=Work, timeout=TIMEOUT + asked.wait)

    def file(self, sha256: str) -> bytes:
        return self._send("GET", f"/v1/files/{sha256}", signed=False, most=FILE).body

    def version(self, run: str, number: int, base: int | None, size: int) -> bytes:
        """`size`: of its plain bytes. Refusal with the error `base` where the difference cannot be had."""
        path = f"/v1/runs/{_quoted(run)}/versions/{number}" + (f"?from={base}" if base is not None else "")
        return self._send("GET", path, signed=False, most=size + size // 64 + ROOM).body

    def answer(self, result: int, data: bytes, asked: Ask | None = None) -> Verdict:
        """In pieces where it is large for the line; what the server has already is not sent again. `asked`: what to do next is in the
        reply, if it is not too large for that."""
        if len(data) <= self._piece():
            if len(data) > LARGE and not self._line.is_open:
                self._ask("GET", f"/v1/results/{result}", type=Received)  # with which it knows who calls
            if asked is None or (len(data) > MEASURED and len(data) > QUICK * self.up):
                return self._read(self._put(f"/v1/results/{result}", data), Verdict)
            text = msgspec.json.encode(asked)
            path, timeout = f"/v1/results/{result}?ask={len(text)}", TIMEOUT + asked.wait
            reply = self._send("PUT", path, text, data, timeout=timeout)
            if reply.sending > QUICK + asked.wait:
                self.up = 0.0  # the connection became slower: measure it again
            return self._read(reply, Verdict)
        there = self._ask("GET", f"/v1/results/{result}", type=Received)
        at = there.size if there.sha256 == hashlib.sha256(data[: there.size]).hexdigest() else 0
        while True:
            piece = data[at : at + self._piece()] or data[-1:]
            at = min(at, len(data) - 1)
            reply = self._put(f"/v1/results/{result}?at={at}&size={len(data)}", piece)
            if reply.status != 202:
                return self._read(reply, Verdict)
            at = self._read(reply, Received).size

    def _piece(self) -> int:
        """Bytes that are sent at once: what the line takes in some seconds."""
        fits = self._largest if not self.up else min(self._largest, int(self.up * PIECE_SECONDS))
        return min(PIECE, max(SMALLEST, fits))

    def _put(self, path: str, data: bytes) -> Reply:
        """Bytes of an answer; the next piece is smaller if they do not come through, and the line is measured if they do."""
        try:
            reply = self._send("PUT", path, data)
        except Unreachable:
            self._largest, self.up = max(SMALLEST, min(self._largest, len(data)) // 2), 0.0
            raise
        if len(data) >= MEASURED and reply.sending > 0:
            self._largest, self.up = min(PIECE, 2 * self._largest), len(data) / reply.sending
        return reply

    def custody(self, run: str, data: bytes | None = None) -> bytes | None:
        """Leave what is kept back with the server, in pieces where it is large; or get it again."""
        path = f"/v1/runs/{_quoted(run)}/custody"
        if data is not None:
            at, size = 0, self._piece()
            while at < len(data):
                self._put(path if len(data) <= size else f"{path}?at={at}&size={len(data)}", data[at : at + size])
                at += size
            return None
        try:
            return self._send("GET", path, most=FILE).body
        except Refusal:
            return None

    # How

    def _ask(self, method: str, path: str, body: Any = None, *, type: type[T], timeout: float = TIMEOUT) -> T:
        content = () if body is None else (body if isinstance(body, bytes) else msgspec.json.encode(body),)
        return self._read(self._send(method, path, *content, timeout=timeout), type)

    def _read(self, reply: Reply, kind: type[T]) -> T:
        try:
            return msgspec.json.decode(reply.body, type=kind)
        except msgspec.DecodeError as error:
            raise Unreachable(f"{self.url} says something that is no answer: {error}") from error

    def _send(
        self, method: str, path: str, *body: bytes, timeout: float = TIMEOUT, again: bool = True, signed: bool = True, most: int = MESSAGE
    ) -> Reply:
        """Not `signed`: bytes whose digest is known from a message that was."""
        digest = hashlib.sha256()
        for part in body:
            digest.update(part)
        stamp, nonce = f"{time.time() + self._off:.3f}", signing.nonce()
        message = signing.of_request(method, path, stamp, nonce, digest.hexdigest())
        headers = {signing.NODE: self.node, signing.TIME: stamp, signing.NONCE: nonce, signing.SIGNATURE: self._key.sign(message)}
        headers[signing.SPEAKS] = str(PROTOCOL)
        try:
            reply = self._line.request(method, path, body, headers, timeout=timeout, most=most)
        except Broken as error:
            raise Unreachable(f"{self.url}: {str(error) or error.__class__.__name__}") from error
        if signed or reply.status >= 400:
            reply = self._checked(reply, method, path, nonce)
        if reply.status < 300:
            if len(reply.body) >= MEASURED and reply.receiving > 0:
                self.down = len(reply.body) / reply.receiving
            return reply
        try:
            problem = msgspec.json.decode(reply.body, type=Problem)
        except msgspec.DecodeError:
            raise Unreachable(f"{self.url} answers {reply.status}") from None
        if problem.error == "clock" and again:
            self._off = problem.now - time.time()
            return self._send(method, path, *body, timeout=timeout, again=False, signed=signed, most=most)
        if reply.status >= 500 or problem.error in ("rate", "slow", "gone"):
            raise Unreachable(f"{self.url}: {problem.message}")
        raise Refusal(reply.status, problem)

    def _checked(self, reply: Reply, method: str, target: str, nonce: str) -> Reply:
        """Its message: what is signed. What follows is kept apart, and of no use unless a message has its digest."""
        told = reply.headers.get(signing.MESSAGE, "")
        if told.isascii() and told.isdigit() and len(told) < DIGITS:
            end = int(told)
            reply, self.after = Reply(reply.status, reply.headers, reply.body[:end]), memoryview(reply.body)[end:]
        else:
            self.after = memoryview(b"")
        if self.pinned is None:
            return reply
        message = signing.of_reply(self.node, method, target, nonce, reply.status, hashlib.sha256(reply.body).hexdigest())
        if not self._checker.good(self.pinned, reply.headers.get(signing.SIGNATURE, ""), message):
            if reply.status in BUSY:
                raise Busy(f"{self.url} has no time just now ({reply.status})")
            raise Unreachable(f"what answers at {self.url} ({reply.status}) is not the server that this node joined")
        return reply


def _quoted(name: str) -> str:
    from urllib.parse import quote

    return quote(name, safe="")


@final
class Backoff:
    """Seconds to wait after the n-th failure in a row: doubling up to `most`, and somewhere between half and all of it."""

    def __init__(self, first: float = 0.5, most: float = 300.0, dice: Callable[[], float] = random.random) -> None:
        self._first, self._most, self._dice, self._failures = first, most, dice, 0

    def failed(self) -> float:
        self._failures += 1
        longest = min(self._most, self._first * 2 ** min(self._failures - 1, 20))
        return float(longest * (0.5 + 0.5 * self._dice()))

    def worked(self) -> None:
        self._failures = 0

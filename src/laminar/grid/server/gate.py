"""Gate: who may come in. Every request of a node is signed; what is too large, too often, too old or played again is turned away first.

Turned away costs little: sizes are looked at before bodies are read, and signatures before anything is asked of the database.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, final

from starlette.requests import ClientDisconnect, Request

from laminar.grid.server.door import SECRET, VISIT, Door, place_of
from laminar.grid.server.service import Denied
from laminar.grid.wire import signing
from laminar.grid.wire.messages import PROTOCOL

SKEW: Final = 300.0  # seconds that a node's clock may be wrong
SMALL: Final = 64 << 10  # bytes of a body that is no answer
STALL: Final = 20.0  # seconds without a byte of a body
LONGEST: Final = 60.0  # seconds for a body, and more
SLOWEST: Final = 64 << 10  # bytes a second that a large one must come with
NONCES: Final = 200_000
LATELY: Final = 600.0  # seconds for which a node that has signed something is known where it is
SIGNERS: Final = 50_000
BODIES: Final = 1 << 30  # bytes of bodies that may be on their way at once, on connections of the known
STRANGE: Final = 64 << 20  # and on those of strangers, of which one may send what looks like an answer
SOON: Final = 5  # seconds after which whoever came when there was no room may come again


@final
class Rates:
    """Token buckets by name: so many requests a second in the long run, and a burst."""

    def __init__(self, per_second: float, burst: float, clock: Callable[[], float] = time.monotonic, most: int = 20_000) -> None:
        self._rate, self._burst, self._clock, self._most = per_second, burst, clock, most
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def look(self, name: str) -> float:
        """What `take` would say."""
        left, at = self._left.get(name, (self._burst, 0.0))
        return max(0.0, (1 - left) / self._rate - (self._clock() - at))

    def take(self, name: str) -> float:
        """0: go on; else seconds to wait."""
        now = self._clock()
        left, at = self._left.pop(name, (self._burst, now))
        left = min(self._burst, left + (now - at) * self._rate)
        while len(self._left) >= self._most:
            self._left.popitem(last=False)
        if left < 1:
            self._left[name] = (left, now)
            return (1 - left) / self._rate
        self._left[name] = (left - 1, now)
        return 0.0


@final
class Nonces:
    """Those that were used lately. Older ones are too old by their time stamp."""

    def __init__(self) -> None:
        self._seen: OrderedDict[tuple[str, str], float] = OrderedDict()

    def fresh(self, node: str, nonce: str, now: float) -> bool:
        while self._seen and (len(self._seen) > NONCES or next(iter(self._seen.values())) < now - 2 * SKEW):
            self._seen.popitem(last=False)
        if (node, nonce) in self._seen:
            return False
        self._seen[node, nonce] = now
        return True


@dataclass
class Held:
    """Bodies that are not complete yet."""

    most: int
    bytes: int = 0


@final
class Gate:
    def __init__(self, clock: Callable[[], float], *, admin: str, view: str, per_second: float = 200.0, limit: int) -> None:
        self._clock, self._admin, self._view = clock, admin, view
        self.limit = limit  # bytes of an answer
        self._rates = Rates(per_second, burst=2 * per_second)
        self._strangers = Rates(5.0, burst=50.0)  # by address: for those who show nothing, or something wrong
        self._nonces, self._checker = Nonces(), signing.Checker()
        self._signers: OrderedDict[tuple[str, str], float] = OrderedDict()  # who has signed something from where, and when
        self.refused: dict[str, int] = {}  # by name
        self.unlimited = False  # strangers may ask as often as they like
        self.door: Door | None = None  # of the server that listens
        self._held = {True: Held(BODIES), False: Held(STRANGE)}  # of the known, and of strangers

    @staticmethod
    def speaks(protocol: str | int) -> None:
        """A node that joined long ago may be older than the server by now, or newer."""
        if str(protocol) != str(PROTOCOL):
            raise Denied(
                426, "version", f"this server speaks protocol {PROTOCOL}, not {str(protocol)[:20]}: install the same Laminar on both sides"
            )

    async def body(self, request: Request, limit: int, node: str = "") -> bytes:
        """Denied when it is too large, or stops coming. `node`: of which it says to be."""
        told = request.headers.get("content-length")
        if told is not None and (not told.isdigit() or int(told) > limit):
            raise Denied(413, "size", f"{told} bytes, but {limit} are allowed")
        known = self._clock() - self._signers.get((node, _address(request)), -LATELY) < LATELY
        if limit > SMALL and not known and not self.unlimited and (wait := self._strangers.look(_address(request))):
            # nobody knows yet whose it is, and much that came from there was nobody's; but a whole office may have one address
            raise Denied(429, "rate", f"too many bad requests from this address; again in {wait:.1f} s")
        return await self._read(request, limit)

    async def _read(self, request: Request, limit: int) -> bytes:
        parts: list[bytes] = []
        size, clock = 0, asyncio.get_running_loop().time
        began, whose = clock(), self._held[self._is_known(request)]
        try:
            async with asyncio.timeout(STALL) as patience:
                async for part in request.stream():
                    size += len(part)
                    whose.bytes += len(part)
                    patience.reschedule(min(clock() + STALL, began + LONGEST + size / SLOWEST))
                    if size > limit:
                        raise Denied(413, "size", f"more than {limit} bytes")
                    if size > SMALL and whose.bytes > whose.most:
                        raise Denied(503, "busy", "too much is on its way to the server already; try again in a while")
                    parts.append(part)
        except TimeoutError:
            raise Denied(408, "slow", f"no byte for {STALL:g} s, or too few in {clock() - began:.0f} s") from None
        except ClientDisconnect:
            raise Denied(400, "gone", "the line broke") from None
        finally:
            whose.bytes -= size
        return b"".join(parts)

    def stranger(self, request: Request) -> None:
        """Before a stranger is listened to."""
        if not self.unlimited and (wait := self._strangers.take(_address(request))):
            raise Denied(429, "rate", f"too many requests; again in {wait:.1f} s")

    def signed(self, request: Request, node: str, key: str, body: bytes) -> str:
        """The request's nonce, if the node that it names has signed it just now. Denied otherwise."""
        head = request.headers
        stamp, nonce, signature = (head.get(name, "") for name in (signing.TIME, signing.NONCE, signing.SIGNATURE))
        message = signing.of_request(request.method, target_of(request), stamp, nonce, hashlib.sha256(body).hexdigest())
        if not self._checker.good(key, signature, message):
            self._signers.pop((node, _address(request)), None)  # somebody there takes its name
            self.stranger(request)
            raise Denied(401, "signature", f"the request is not signed by node {node}")
        try:
            off = abs(float(stamp) - self._clock())
        except ValueError:
            off = float("inf")
        if not off <= SKEW:
            raise Denied(401, "clock", f"the request is {off:.0f} s old or early; {SKEW:g} are allowed")
        if not 8 <= len(nonce) <= 64 or not self._nonces.fresh(node, nonce, self._clock()):
            raise Denied(409, "replay", "this very request was here before")
        if wait := self._rates.take(node):
            raise Denied(429, "rate", f"too many requests; again in {wait:.1f} s")
        self._signers.pop((node, _address(request)), None)
        self._signers[node, _address(request)] = self._clock()
        while len(self._signers) > SIGNERS:
            self._signers.popitem(last=False)
        return nonce

    def vouch(self, request: Request, name: str) -> None:
        """Somebody known has sent the request: its connection is no stranger's."""
        visit = request.scope.get(VISIT)
        if self.door is not None and visit is not None and not self.door.vouch(visit, name):
            raise Denied(503, "busy", "more nodes than there is room for are connected; try again in a while")

    @staticmethod
    def unvouch(request: Request) -> None:
        """It was somebody known, and is not welcome."""
        if (visit := request.scope.get(VISIT)) is not None:
            visit.vouched = False

    @staticmethod
    def _is_known(request: Request) -> bool:
        visit = request.scope.get(VISIT)
        return visit is None or bool(visit.name)

    def command(self, request: Request) -> None:
        """Whoever runs the grid shows its secret."""
        if not _same(_bearer(request), self._admin):
            self.stranger(request)
            raise Denied(401, "token", "commands need the grid's own token: it is in .laminar/grid/server.json where the grid is served")
        self.vouch(request, SECRET + "admin")

    def look(self, request: Request) -> None:
        """Whoever may look, may."""
        given = _bearer(request) or request.query_params.get("token", "")
        if not (_same(given, self._view) or _same(given, self._admin)):
            self.stranger(request)
            raise Denied(401, "token", "looking needs the token in the address that `laminar grid serve` printed")
        self.vouch(request, SECRET + "view")

    def count(self, error: str) -> None:
        self.refused[error] = self.refused.get(error, 0) + 1


def _address(request: Request) -> str:
    return place_of(request.client.host) if request.client else "?"


def target_of(request: Request) -> str:
    """Path and query, as they stand in the request."""
    path = request.scope.get("raw_path", b"").decode("ascii", "replace") or request.url.path
    return path + (f"?{request.url.query}" if request.url.query else "")


def _bearer(request: Request) -> str:
    kind, _, secret = request.headers.get("authorization", "").partition(" ")
    return secret.strip() if kind.lower() == "bearer" else ""


def _same(given: str, wanted: str) -> bool:
    return bool(wanted) and hmac.compare_digest(given.encode(), wanted.encode())

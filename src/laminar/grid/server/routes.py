"""Routes of nodes: HTTP around service.py. Every answer is signed with the server's key and the nonce of the request."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any, Final, TypeVar, final

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from laminar import __version__
from laminar.grid.db import nodes, runs, versions
from laminar.grid.db.book import Tx
from laminar.grid.desk import Desk, Wants
from laminar.grid.server.door import NODE
from laminar.grid.server.gate import SMALL, SOON, Gate, target_of
from laminar.grid.server.service import Denied, Service
from laminar.grid.trouble import Trouble, is_full, log, passes
from laminar.grid.wire import model_bytes, signing
from laminar.grid.wire.messages import DIGITS, PROTOCOL, Ask, Enrol, Packed, Problem, Received, Spoken, Work

JSON: Final = "application/json"
BYTES: Final = "application/octet-stream"
LARGEST_PIECE: Final = 8 << 20
SMALL_VERSION: Final = 4 << 20  # bytes of a version that is sent with the task
VERSION_DIGITS: Final = 9
TOKENS: Final = 10_000  # that are remembered
PACKED: Final = 8  # versions that are kept packed
Packing = tuple[str, int, int | None]  # run, version, and the one that the node has
T = TypeVar("T")
Handler = Callable[[Request], Awaitable[Response]]


@final
class NodeRoutes:
    def __init__(self, service: Service, desk: Desk, gate: Gate, key: signing.Key, clock: Callable[[], float]) -> None:
        self._service, self._desk, self._gate, self._key, self._clock = service, desk, gate, key, clock
        self._keys: dict[str, str] = {}  # of nodes; a node's id is the digest of its key, so this never changes
        self._knows_all = False  # of those that there were when the server started
        self._packed: dict[Packing, asyncio.Task[bytes]] = {}  # versions on their way down
        self._good: set[bytes] = set()  # digests of tokens
        self._closing = False
        self._trouble = Trouble("requests are put off")
        self._work = asyncio.Event()  # set, and a new one made, when there is work

    def routes(self) -> list[Route]:
        return [
            Route("/v1/about", self.safely(self._about), methods=["GET"]),
            Route("/v1/enrol", self.safely(self._enrol), methods=["POST"]),
            Route("/v1/work", self.safely(self._ask), methods=["POST"]),
            Route("/v1/files/{sha256}", self.safely(self._file), methods=["GET"]),
            Route("/v1/runs/{run}/versions/{version}", self.safely(self._version), methods=["GET"]),
            Route("/v1/results/{result}", self.safely(self._result), methods=["GET", "PUT"]),
            Route("/v1/runs/{run}/custody", self.safely(self._custody), methods=["GET", "PUT"]),
        ]

    def close(self) -> None:
        """Whoever waits is told that there is nothing."""
        self._closing = True
        self.there_is_work()

    def there_is_work(self) -> None:
        """On the event loop: whoever waits asks again."""
        self._work.set()
        self._work = asyncio.Event()

    def safely(self, handler: Handler) -> Handler:
        """Refusals become answers with a name; anything else is ours, and says nothing of the inside."""

        async def handle(request: Request) -> Response:
            try:
                found = await handler(request)
            except Denied as error:
                self._gate.count(error.error)
                if error.status in (401, 403):
                    self._gate.unvouch(request)
                told = Problem(error=error.error, message=str(error)[:2000], now=self._clock())
                found = self.reply(request, told, error.status)
                if error.status == 503:
                    found.headers.update({"Retry-After": str(SOON), "Connection": "close"})
                return found
            except Exception as error:
                if not passes(error):
                    log.exception("%s %s failed", request.method, request.url.path)
                else:
                    self._trouble.tell(error)
                return self._failed(request, full=is_full(error))
            if request.method != "GET":  # which may be answered all the time
                self._trouble.over()
            return found

        return handle

    def _failed(self, request: Request, *, full: bool) -> Response:
        message = "the server's disk is full; try again when it has room" if full else "the server failed; try again"
        return self.reply(request, Problem(error="full" if full else "server", message=message, now=self._clock()), 507 if full else 500)

    def reply(self, request: Request, message: Any, status: int = 200, after: Sequence[bytes] = ()) -> Response:
        """`after`: bytes that follow the message, which has their digests. The same go to many: they are neither signed nor encoded."""
        body = msgspec.json.encode(message)
        head = {signing.SIGNATURE: self._signature(request, status, body)}
        if not after:
            return Response(body, status, head, JSON)
        return Response(b"".join((body, *after)), status, {**head, signing.MESSAGE: str(len(body))}, BYTES)

    def _signature(self, request: Request, status: int, body: bytes) -> str:
        node, nonce = (request.headers.get(name, "")[:64] for name in (signing.NODE, signing.NONCE))
        message = signing.of_reply(node, request.method, target_of(request), nonce, status, hashlib.sha256(body).hexdigest())
        return self._key.sign(message)

    def signed_bytes(self, request: Request, data: bytes) -> Response:
        """Of which no message says what they are."""
        return Response(data, 200, {signing.SIGNATURE: self._signature(request, 200, data)}, BYTES)

    async def do(self, operation: Callable[[Tx], T], wants: Wants | None = None) -> T:
        return await asyncio.wrap_future(self._desk.submit(operation, wants))

    async def _signed(self, request: Request, limit: int = SMALL) -> tuple[str, bytes]:
        """The node and the body."""
        self._gate.speaks(request.headers.get(signing.SPEAKS, PROTOCOL))
        node = request.headers.get(signing.NODE, "")
        if len(node) != 20:
            self._gate.stranger(request)
            raise Denied(401, "unknown", "the request does not say which node it is of")
        if not self._knows_all:  # after a start: all nodes of an office, which has one address, may come at once
            self._keys = await self.do(nodes.keys) | self._keys
            self._knows_all = True
        if node not in self._keys:
            self._gate.stranger(request)
            self._keys[node] = (await self.do(lambda tx: self._service.node(tx, node))).key
        body = await self._gate.body(request, limit, node)
        self._gate.signed(request, node, self._keys[node], body)
        self._gate.vouch(request, NODE + node)
        return node, body

    # Routes

    async def _about(self, request: Request) -> Response:
        told = {"grid": self._service.name, "protocol": PROTOCOL, "laminar": __version__, "key": self._key.public, "now": self._clock()}
        return self.reply(request, told)

    async def _enrol(self, request: Request) -> Response:
        body = await self._gate.body(request, SMALL)
        try:
            self._gate.speaks(_decode(body, Spoken).protocol)  # before all else: another protocol has other fields
            asked = _decode(body, Enrol)
        except Denied:
            self._gate.stranger(request)
            raise
        token, id = hashlib.sha256(asked.token.encode()).digest(), signing.node_id(asked.key)
        if token not in self._good:  # who has a token that was good is heard, whatever else comes from its address
            self._gate.stranger(request)
        self._gate.signed(request, id, asked.key, body)
        try:
            told = await self.do(lambda tx: self._service.enrol(tx, asked))
        except Denied:
            self._good.discard(token)
            raise
        self.is_good(asked.token)
        self._keys[id] = asked.key
        self._gate.vouch(request, NODE + id)
        return self.reply(request, told)

    def is_good(self, token: str) -> None:
        """A token with which somebody was let in. It is looked at again each time."""
        if len(self._good) >= TOKENS:
            self._good.pop()
        self._good.add(hashlib.sha256(token.encode()).digest())

    async def _ask(self, request: Request) -> Response:
        node, body = await self._signed(request)
        work, after = await self._find_work(node, _decode(body, Ask))
        return self.reply(request, work, after=after)

    async def _find_work(self, node: str, asked: Ask, *, patient: bool = False) -> tuple[Work, list[bytes]]:
        """Held open until there is work, for as long as the node allows: so a round begins for all at once.

        And the bytes of versions that come with it. `patient`: the node has just answered. Where there is nothing to do, which is known
        without the database, and it has nothing to say, it is as if it asked when there is.
        """
        began = asyncio.get_running_loop().time()
        until, held = began + asked.wait, 0.0
        if patient and asked.wait and not (asked.cannot or asked.heard or asked.facts):
            signal = self._work
            if self._service.idle and not self._closing:
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(signal.wait(), asked.wait)
                held = asyncio.get_running_loop().time() - began
        while True:
            signal = self._work
            found = await self.do(partial(self._service.ask, id=node, asked=asked), Wants(node, asks=True, spent=_spent(asked)))
            found = msgspec.structs.replace(found, held=held)
            left = until - asyncio.get_running_loop().time()
            if found.tasks or left <= 0 or self._closing or found.why != "nothing to do":
                return await self._with_versions(node, asked, found)
            asked = msgspec.structs.replace(asked, cannot=[], facts=None, heard=[], spent=[])
            try:
                await asyncio.wait_for(signal.wait(), left)
            except TimeoutError:
                return msgspec.structs.replace(found, held=asyncio.get_running_loop().time() - began), []
            held = asyncio.get_running_loop().time() - began

    async def _with_versions(self, node: str, asked: Ask, found: Work) -> tuple[Work, list[bytes]]:
        """And what the tasks begin from, where that is little: it saves the node a request."""
        small = {
            (task.run, task.version.number) for task in found.tasks if task.run in asked.versions and task.version.size <= SMALL_VERSION
        }
        packed, after = [], []
        for run, number in small:
            base = asked.versions[run]
            if number != base:
                with contextlib.suppress(Denied):  # the node asks for the whole then
                    data = await self._pack((run, number, base))
                    packed.append(Packed(run=run, number=number, base=base, size=len(data)))
                    after.append(data)
        if not packed:
            return found, []
        size = sum(map(len, after))
        self._desk.submit(lambda tx: nodes.moved_bytes(tx, node, self._clock(), down=size), Wants(node, passing=True))
        return msgspec.structs.replace(found, versions=packed), after

    async def _file(self, request: Request) -> Response:
        node, _ = await self._signed(request)
        sha256 = request.path_params["sha256"]
        data = await self.do(lambda tx: versions.get_file(tx, sha256) if len(sha256) == 64 else None)
        if data is None:
            raise Denied(404, "file", "there is no such file")
        return await self._bytes(node, data)

    async def _version(self, request: Request) -> Response:
        node, _ = await self._signed(request)
        run, number = request.path_params["run"], _number(request.path_params["version"], VERSION_DIGITS)
        base = request.query_params.get("from")
        return await self._bytes(node, await self._pack((run, number, None if base is None else _number(base, VERSION_DIGITS))))

    async def _pack(self, key: Packing) -> bytes:
        """A version as it goes down. Packed once for all who ask, and not in the thread that writes, which has other things to do."""
        if key not in self._packed:
            self._packed[key] = asyncio.create_task(self._pack_anew(key))
            while len(self._packed) > PACKED:
                self._packed.pop(next(iter(self._packed)))
        try:
            return await asyncio.shield(self._packed[key])
        except BaseException:
            task = self._packed.get(key)
            if task is not None and task.done():
                self._packed.pop(key)  # whoever asks next may have more luck
            raise

    async def _pack_anew(self, key: Packing) -> bytes:
        whole, base = await self.do(lambda tx: _versions(tx, *key))
        return await asyncio.to_thread(model_bytes.pack, whole, base)

    async def _bytes(self, node: str, data: bytes) -> Response:
        """Counted, and not for everybody. What they are is in signed messages by its digest, so they are not signed."""
        await self.do(lambda tx: self._service.fetch(tx, node, len(data)), Wants(node))
        return Response(data, media_type=BYTES)

    async def _result(self, request: Request) -> Response:
        result = _number(request.path_params["result"])
        if request.method == "GET":
            node, _ = await self._signed(request)
            return self.reply(request, await self.do(lambda tx: self._service.here(tx, node, result)))
        node, body = await self._signed(request, min(self._gate.limit, LARGEST_PIECE))
        asked = None
        if "ask" in request.query_params:  # the first bytes are a request for work, which is answered together with the answer
            first = _number(request.query_params["ask"])
            asked, body = _decode(body[: min(first, SMALL)], Ask), body[first:]
        at = _number(request.query_params.get("at", "0"))
        total = _number(request.query_params.get("size", str(at + len(body))))

        answer = partial(self._service.deliver, id=node, result=result, data=body, limit=self._gate.limit, at=at, total=total, asked=asked)
        said = await self.do(answer, Wants(node, result, spent=_spent(asked)))
        if isinstance(said, int):
            return self.reply(request, Received(size=said), 202)
        after: list[bytes] = []
        if asked is not None:
            asked = msgspec.structs.replace(asked, spent=[])
            work, after = await self._find_work(node, asked, patient=said.state == "returned" and not said.reason)
            said = msgspec.structs.replace(said, work=work)
        return self.reply(request, said, after=after)

    async def _custody(self, request: Request) -> Response:
        """What a node that leaves has kept back, for when it, or its successor, comes again."""
        node, body = await self._signed(request, min(self._gate.limit, LARGEST_PIECE))
        name = request.path_params["run"]
        if request.method == "PUT":
            at = _number(request.query_params.get("at", "0"))
            total = _number(request.query_params.get("size", str(at + len(body))))
            here = await self.do(lambda tx: self._service.leave_behind(tx, node, name, body, limit=self._gate.limit, at=at, total=total))
            return self.reply(request, Received(size=total)) if here is None else self.reply(request, Received(size=here), 202)
        found = await self.do(lambda tx: self._service.take_over(tx, node, name))
        if found is None:
            raise Denied(404, "custody", "nothing is kept here")
        return self.signed_bytes(request, found)


def _versions(tx: Tx, name: str, number: int, base: int | None) -> tuple[bytes, bytes | None]:
    """The bytes of a version, and of the one that the node has."""
    run = runs.named(tx, name)
    row = versions.get(tx, run.id, number) if run is not None else None
    if run is None or row is None or row.data is None:
        raise Denied(404, "version", f"there is no version {number} of '{name}' here (any more)")
    old = versions.get(tx, run.id, base) if base is not None else None
    if base is not None and (old is None or old.data is None):
        raise Denied(404, "base", f"there is no version {base} of '{name}' here any more: fetch the whole")
    return bytes(row.data), bytes(old.data) if old is not None else None


def _spent(asked: Ask | None) -> tuple[int, ...]:
    """Results of which a request says what time was spent on them."""
    return () if asked is None else tuple(one.result for one in asked.spent if one.result)


def _number(text: str, digits: int = DIGITS) -> int:
    if not text.isascii() or not text.isdigit() or len(text) > digits:
        raise Denied(422, "number", f"{text[:40]!r} is no number")
    return int(text)


def _decode(body: bytes, kind: type[T]) -> T:
    try:
        return msgspec.json.decode(body, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise Denied(422, "schema", str(error)[:500]) from error

"""Routes of whoever runs the grid: HTTP around commands.py and overview.py. They need the grid's own token."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, final

from msgspec import Meta
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from laminar.grid.daemons.assimilator import Assimilator, Learner
from laminar.grid.db import nodes, runs, versions
from laminar.grid.db.book import Tx
from laminar.grid.server import commands, overview
from laminar.grid.server.gate import SMALL, Gate
from laminar.grid.server.routes import BYTES, VERSION_DIGITS, NodeRoutes, _decode, _number
from laminar.grid.server.service import Denied
from laminar.grid.wire.messages import ADMITTED, Message, Name

Uses = Annotated[int, Meta(ge=1, le=1_000_000)]


class Token(Message, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """For whom, how often, and for how long."""

    name: Annotated[str, Meta(max_length=80)] = ""
    uses: Uses = ADMITTED
    seconds: Annotated[float, Meta(gt=0, le=1e10)] | None = None


class More(Message, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Nodes that a token lets in from now on."""

    uses: Uses


class Which(Message, frozen=True, kw_only=True, forbid_unknown_fields=True):
    run: Name | None = None
    why: Annotated[str, Meta(max_length=200)] = ""


class Metrics(Message, frozen=True, kw_only=True, forbid_unknown_fields=True):
    metrics: dict[Annotated[str, Meta(max_length=40)], float]


@final
class AdminRoutes:
    def __init__(
        self,
        node_routes: NodeRoutes,
        gate: Gate,
        assimilator: Assimilator,
        learner: Learner,
        clock: Callable[[], float],
        changed: Callable[[], None],
        bytes_a_day: int | None = None,
    ) -> None:
        self._nodes, self._gate, self._assimilator, self._learner = node_routes, gate, assimilator, learner
        self._clock, self._changed, self._bytes_a_day = clock, changed, bytes_a_day

    def routes(self) -> list[Route]:
        def route(path: str, handler: Callable[[Request], Any], *methods: str) -> Route:
            return Route(path, self._nodes.safely(handler), methods=list(methods))

        return [
            route("/v1/admin/files", self._put_file, "PUT"),
            route("/v1/admin/runs", self._runs, "GET", "POST"),
            route("/v1/admin/runs/{run}", self._run, "GET"),
            route("/v1/admin/runs/{run}/stop", self._stop, "POST"),
            route("/v1/admin/runs/{run}/versions/{version}", self._version, "GET", "PUT"),
            route("/v1/admin/pause", self._pause, "POST"),
            route("/v1/admin/resume", self._resume, "POST"),
            route("/v1/admin/tokens", self._tokens, "GET", "POST"),
            route("/v1/admin/tokens/{token}/revoke", self._revoke, "POST"),
            route("/v1/admin/tokens/{token}/uses", self._uses, "POST"),
            route("/v1/admin/nodes/{node}/{verb}", self._node, "POST"),
            route("/v1/status", self._look(overview.status), "GET"),
            route("/v1/nodes", self._look(overview.nodes_told), "GET"),
            route("/v1/tasks", self._look(overview.tasks_told), "GET"),
            route("/v1/rounds", self._look(overview.rounds_told), "GET"),
        ]

    def _look(self, tell: Callable[[Tx, float], Any]) -> Callable[[Request], Any]:
        async def handle(request: Request) -> Response:
            self._gate.look(request)
            return self._nodes.reply(request, await self._nodes.do(lambda tx: tell(tx, self._clock())))

        return handle

    async def _body(self, request: Request, limit: int = SMALL) -> bytes:
        self._gate.command(request)
        return await self._gate.body(request, limit)

    async def _put_file(self, request: Request) -> Response:
        data = await self._body(request, self._gate.limit)
        return self._nodes.reply(request, {"sha256": await self._nodes.do(lambda tx: versions.put_file(tx, self._clock(), data))}, 201)

    async def _runs(self, request: Request) -> Response:
        body = await self._body(request, 16 << 20)
        if request.method == "GET":
            return self._nodes.reply(request, await self._nodes.do(lambda tx: [overview.run_told(tx, run) for run in runs.all_of(tx)]))
        asked = _decode(body, commands.Begin)
        said = await self._nodes.do(lambda tx: commands.begin(tx, asked, self._learner, self._clock()))
        self._changed()
        return self._nodes.reply(request, said, 201)

    async def _run(self, request: Request) -> Response:
        """With who there is to do it, and who was caught."""
        await self._body(request)
        name = request.path_params["run"]

        def tell(tx: Tx) -> dict[str, Any]:
            run = commands._need(tx, name)
            there = {"nodes": overview.company(tx, run, self._clock(), self._bytes_a_day), "caught": overview.caught(tx, run)}
            return {**overview.run_told(tx, run), **there}

        return self._nodes.reply(request, await self._nodes.do(tell))

    async def _stop(self, request: Request) -> Response:
        await self._body(request)
        said = await self._nodes.do(lambda tx: commands.stop(tx, request.path_params["run"], self._assimilator, self._clock()))
        self._changed()
        return self._nodes.reply(request, said)

    async def _version(self, request: Request) -> Response:
        """The plain bytes of a version, or what a test of it gave."""
        body = await self._body(request)
        name, number = request.path_params["run"], _number(request.path_params["version"], VERSION_DIGITS)
        if request.method == "PUT":
            metrics = _decode(body, Metrics).metrics
            found = await self._nodes.do(lambda tx: versions.tested(tx, commands._need(tx, name).id, number, metrics))
        else:
            row = await self._nodes.do(lambda tx: versions.get(tx, commands._need(tx, name).id, number))
            if row is not None and row.data is not None:
                return Response(bytes(row.data), media_type=BYTES)
            found = False
        if not found:
            raise Denied(404, "version", f"there is no version {number} of '{name}' here (any more)")
        return self._nodes.reply(request, {"version": number})

    async def _pause(self, request: Request) -> Response:
        return await self._set(request, "paused")

    async def _resume(self, request: Request) -> Response:
        return await self._set(request, "open")

    async def _set(self, request: Request, state: str) -> Response:
        which = _decode(await self._body(request) or b"{}", Which)
        names = await self._nodes.do(lambda tx: commands.set_state(tx, which.run, state, self._clock(), which.why))
        self._changed()
        return self._nodes.reply(request, {"runs": names, "state": state})

    async def _tokens(self, request: Request) -> Response:
        body = await self._body(request)
        if request.method == "GET":
            return self._nodes.reply(request, await self._nodes.do(nodes.all_tokens))
        asked = _decode(body or b"{}", Token)
        secret = await self._nodes.do(
            lambda tx: nodes.make_token(tx, self._clock(), name=asked.name, uses=asked.uses, seconds=asked.seconds)
        )
        return self._nodes.reply(request, {"token": secret, "uses": asked.uses}, 201)

    async def _uses(self, request: Request) -> Response:
        more = _decode(await self._body(request), More)
        token = _number(request.path_params["token"])
        if not await self._nodes.do(lambda tx: nodes.admit(tx, token, more.uses)):
            raise Denied(404, "token", f"there is no token {token}, or it was revoked")
        return self._nodes.reply(request, {"id": token, "uses": more.uses})

    async def _revoke(self, request: Request) -> Response:
        await self._body(request)
        token = _number(request.path_params["token"])
        banned = await self._nodes.do(lambda tx: nodes.revoke_token(tx, token))
        if banned is None:
            raise Denied(404, "token", f"there is no token {token}")
        return self._nodes.reply(request, {"banned": banned})

    async def _node(self, request: Request) -> Response:
        which = _decode(await self._body(request) or b"{}", Which)
        word, verb = request.path_params["node"], request.path_params["verb"]
        if verb in ("ban", "unban"):
            why = (which.why or "by command") if verb == "ban" else None
            told = await self._nodes.do(lambda tx: commands.ban(tx, word, why))
            self._changed()  # a node that waits for work hears of it
            return self._nodes.reply(request, told)
        if verb in ("trust", "distrust"):
            return self._nodes.reply(request, await self._nodes.do(lambda tx: commands.trust(tx, word, verb == "trust")))
        raise Denied(404, "verb", f"a node can be banned, unbanned, trusted and distrusted, not '{verb[:40]}'")

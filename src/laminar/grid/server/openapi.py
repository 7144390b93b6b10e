"""OpenAPI 3.1: the interface as a document, made from the very types that are decoded (wire/messages.py)."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, Final

import msgspec
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from laminar import __version__
from laminar.core.errors import docs
from laminar.grid.server.admin_routes import Metrics, More, Token, Which
from laminar.grid.server.commands import Begin
from laminar.grid.server.routes import BYTES, Handler
from laminar.grid.wire import signing
from laminar.grid.wire.messages import Ask, Enrol, Enrolled, Problem, Received, Verdict, Work

TYPES: Final = (Ask, Begin, Enrol, Enrolled, Metrics, More, Problem, Received, Token, Verdict, Which, Work)
# method, path, summary, who (node, view, admin, anyone), body, answers by status
_CALLS: Final[tuple[tuple[str, str, str, str, Any, dict[int, Any]], ...]] = (
    ("get", "/v1/about", "What this grid is, and its key", "anyone", None, {200: dict}),
    ("post", "/v1/enrol", "Join, with a token and a key of one's own", "stranger", Enrol, {200: Enrolled}),
    ("post", "/v1/work", "Ask for tasks; waits until there are some", "node", Ask, {200: Work}),
    ("get", "/v1/files/{sha256}", "A graph or a description", "node", None, {200: bytes}),
    ("get", "/v1/runs/{run}/versions/{version}", "A version, whole or as the difference to another (?from=)", "node", None, {200: bytes}),
    ("get", "/v1/results/{result}", "How much of an answer is here", "node", None, {200: Received}),
    (
        "put",
        "/v1/results/{result}",
        "An answer after a request for work (?ask=), or a piece (?at=&size=)",
        "node",
        bytes,
        {200: Verdict, 202: Received},
    ),
    ("get", "/v1/runs/{run}/custody", "What this node has kept back", "node", None, {200: bytes}),
    (
        "put",
        "/v1/runs/{run}/custody",
        "Leave what is kept back with the server, or a piece of it",
        "node",
        bytes,
        {200: Received, 202: Received},
    ),
    ("get", "/v1/status", "The grid in figures", "view", None, {200: dict}),
    ("get", "/v1/nodes", "All nodes", "view", None, {200: list}),
    ("get", "/v1/tasks", "The newest results", "view", None, {200: list}),
    ("get", "/v1/rounds", "The newest rounds", "view", None, {200: list}),
    ("get", "/metrics", "Figures for Prometheus", "view", None, {200: str}),
    ("put", "/v1/admin/files", "A file of a run to come", "admin", bytes, {201: dict}),
    ("get", "/v1/admin/runs", "All runs", "admin", None, {200: list}),
    ("post", "/v1/admin/runs", "Begin a run", "admin", Begin, {201: dict}),
    ("get", "/v1/admin/runs/{run}", "One run", "admin", None, {200: dict}),
    ("post", "/v1/admin/runs/{run}/stop", "End a run; what it has learned stays", "admin", None, {200: dict}),
    ("get", "/v1/admin/runs/{run}/versions/{version}", "The bytes of a version", "admin", None, {200: bytes}),
    ("put", "/v1/admin/runs/{run}/versions/{version}", "What a test of a version gave", "admin", Metrics, {200: dict}),
    ("post", "/v1/admin/pause", "Pause a run, or all", "admin", Which, {200: dict}),
    ("post", "/v1/admin/resume", "Open it again", "admin", Which, {200: dict}),
    ("get", "/v1/admin/tokens", "Tokens, without their secrets", "admin", None, {200: list}),
    ("post", "/v1/admin/tokens", "A new token", "admin", Token, {201: dict}),
    ("post", "/v1/admin/tokens/{token}/revoke", "Revoke a token, and ban who came with it", "admin", None, {200: dict}),
    ("post", "/v1/admin/tokens/{token}/uses", "How many more nodes a token lets in", "admin", More, {200: dict}),
    ("post", "/v1/admin/nodes/{node}/{verb}", "ban, unban, trust or distrust a node", "admin", Which, {200: dict}),
)
_PARAMETERS: Final = {
    "sha256": {"type": "string", "pattern": "^[0-9a-f]{64}$"},
    "run": {"type": "string", "minLength": 1, "maxLength": 80},
    "version": {"type": "integer", "minimum": 0},
    "result": {"type": "integer", "minimum": 0},
    "token": {"type": "integer", "minimum": 0},
    "node": {"type": "string", "minLength": 1, "maxLength": 80},
    "verb": {"type": "string", "enum": ["ban", "unban", "trust", "distrust"]},
}
_QUERY: Final = {
    ("get", "/v1/runs/{run}/versions/{version}"): ("from",),
    ("put", "/v1/results/{result}"): ("ask", "at", "size"),
    ("put", "/v1/runs/{run}/custody"): ("at", "size"),
}
_PLAIN: Final[dict[Any, dict[str, Any]]] = {
    dict: {"application/json": {"schema": {"type": "object"}}},
    list: {"application/json": {"schema": {"type": "array"}}},
    bytes: {BYTES: {"schema": {"type": "string", "format": "binary"}}},
    str: {"text/plain; version=0.0.4; charset=utf-8": {"schema": {"type": "string"}}},
}
_FOLLOWED: Final = {  # a message that bytes of versions may follow
    "type": "string",
    "format": "binary",
    "description": f"Where versions come with tasks: the message, as many bytes as the header {signing.MESSAGE} says, then their bytes.",
}
_REFUSALS: Final = (400, 401, 403, 404, 408, 409, 413, 422, 426, 429, 503)


def openapi(safely: Callable[[Handler], Handler]) -> Route:
    async def handle(request: Request) -> Response:  # noqa: ARG001
        return JSONResponse(document())

    return Route("/v1/openapi.json", safely(handle), methods=["GET"])


@cache
def document() -> dict[str, Any]:
    schemas, components = msgspec.json.schema_components(TYPES, ref_template="#/components/schemas/{name}")
    by_type = dict(zip(TYPES, schemas, strict=True))

    def content(kind: Any) -> dict[str, Any]:
        if kind in _PLAIN:
            return _PLAIN[kind]
        return {"application/json": {"schema": by_type[kind]}} | ({BYTES: {"schema": _FOLLOWED}} if kind in (Work, Verdict) else {})

    paths: dict[str, dict[str, Any]] = {}
    for method, path, summary, who, body, answers in _CALLS:
        names = [part[1:-1] for part in path.split("/") if part.startswith("{")]
        parameters = [{"name": name, "in": "path", "required": True, "schema": _PARAMETERS[name]} for name in names]
        parameters += [
            {"name": name, "in": "query", "required": False, "schema": {"type": "integer", "minimum": 0}}
            for name in _QUERY.get((method, path), ())
        ]
        call: dict[str, Any] = {
            "summary": summary,
            "operationId": f"{method}{path.replace('/', '_').replace('{', '').replace('}', '').replace('.', '_')}",
            "parameters": parameters,
            "security": {"anyone": [], "stranger": [{"signature": []}], "node": [{"node": [], "signature": []}]}.get(who, [{"bearer": []}]),
            "responses": {
                **{str(status): {"description": "Done", "content": content(kind)} for status, kind in answers.items()},
                **{str(status): {"description": "Refused", "content": content(Problem)} for status in _REFUSALS if who != "anyone"},
            },
        }
        if body is not None:
            call["requestBody"] = {"required": body not in (Which, Token), "content": content(body)}
        paths.setdefault(path, {})[method] = call
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Laminar grid",
            "version": __version__,
            "description": f"Requests of nodes are signed: {docs('ref-grid-protocol.md')}",
        },
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {
                "bearer": {"type": "http", "scheme": "bearer"},
                "node": {"type": "apiKey", "in": "header", "name": signing.NODE},
                "signature": {"type": "apiKey", "in": "header", "name": signing.SIGNATURE},
            },
        },
    }

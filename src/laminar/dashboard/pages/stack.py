"""The page Stack: the layers from bottom to top, what a build would do about each, one in full; and the two changes: rollback, tag."""

from __future__ import annotations

from typing import Any

from starlette.requests import Request
from starlette.routing import Route

from laminar.core.errors import LaminarError
from laminar.dashboard.answer import get, post
from laminar.dashboard.context import Context
from laminar.dashboard.layer_detail import detail, model_of
from laminar.dashboard.layers import Overview, overview, states
from laminar.stack.rollback import rollback
from laminar.store.resolve import resolve


def routes(context: Context) -> list[Route]:
    def shown(request: Request) -> Overview:  # noqa: ARG001
        return overview(context.project(), context.store())

    def planned(request: Request) -> dict[str, Any]:  # noqa: ARG001
        file, store = context.project().need_file(), context.store()
        return {"layers": states(file, store, context.runs.all(store))}

    def one(request: Request) -> dict[str, Any]:
        return detail(context.project().file, context.store(), _text(dict(request.query_params), "ref"), request.query_params.get("id"))

    def model(request: Request) -> dict[str, Any]:
        store = context.store()
        return model_of(store, resolve(store, _text(dict(request.query_params), "id"), context.project().stack))

    def back(asked: dict[str, Any]) -> dict[str, Any]:
        moved = rollback(context.project().need_file(), context.store_to_write(), _text(asked, "target"), write=asked.get("write") is True)
        return moved.to_json()

    def tag(asked: dict[str, Any]) -> dict[str, Any]:
        store = context.store_to_write()
        id = resolve(store, _text(asked, "id"), context.project().stack)
        store.refs.tag(_text(asked, "name"), id, force=asked.get("force") is True)
        return {"name": asked["name"], "id": id}

    return [
        get("/api/stack", shown),
        get("/api/stack/plan", planned),
        get("/api/stack/layer", one),
        get("/api/stack/model", model),
        post("/api/stack/rollback", back),
        post("/api/stack/tag", tag),
    ]


def _text(asked: dict[str, Any], name: str) -> str:
    value = asked.get(name)
    if not isinstance(value, str) or not value or len(value) > 400:
        raise LaminarError("L008", f"'{name}' should be a text, found {str(value)[:40]!r}", hint="reload the page")
    return value

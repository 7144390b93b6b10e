"""Grid: what a grid's server tells, shown by the script of its own status page (grid/server/view.js). No command is given from here."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from laminar.core.errors import LaminarError
from laminar.dashboard.answer import get, problem
from laminar.dashboard.context import Context
from laminar.grid.extra import need_grid

LOOKS: Final = {"status": "/v1/status", "nodes": "/v1/nodes", "rounds": "/v1/rounds", "tasks": "/v1/tasks"}


def routes(context: Context) -> list[Route]:
    def told(request: Request) -> dict[str, Any] | Response:  # noqa: ARG001
        """Everything that is shown, and where it comes from; L501 where there is no grid, which is no failure if none was named."""
        need_grid()
        from laminar.grid.commander import commander_of

        try:
            commander = commander_of(_folder(context), context.grid, option="laminar ui --grid")
        except LaminarError as error:
            if context.grid is not None or error.code != "L501":
                raise
            return problem(error.code, error.message, error.hint, status=200)
        try:
            return {"url": commander.url, **{name: commander.get(path) for name, path in LOOKS.items()}}
        finally:
            commander.close()

    return [
        get("/api/grid", told),
        get("/grid/view.js", _given("view.js", "text/javascript")),
        get("/grid/view.css", _given("view.css", "text/css")),
    ]


def _given(name: str, kind: str) -> Callable[[Request], Response]:
    def give(request: Request) -> Response:  # noqa: ARG001
        need_grid()
        from laminar.grid.server.pages import text_of

        return Response(text_of(name), media_type=f"{kind}; charset=utf-8")

    return give


def _folder(context: Context) -> Any:
    try:
        return context.store().root / "grid"
    except LaminarError:  # no store that can be read: then no grid is served from here
        return None

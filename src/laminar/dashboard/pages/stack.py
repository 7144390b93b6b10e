"""The page Stack: layers from bottom to top."""

from __future__ import annotations

from typing import Any

from starlette.requests import Request
from starlette.routing import Route

from laminar.dashboard.answer import get
from laminar.dashboard.context import Context


def routes(context: Context) -> list[Route]:
    def overview(request: Request) -> dict[str, Any]:  # noqa: ARG001
        return {"stack": context.project().stack}

    return [get("/api/stack", overview)]

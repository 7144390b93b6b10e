"""Kernels: the project's kernels with what is known of them, from a process that reads and emulates one (kernel_process.py)."""

from __future__ import annotations

import math
import threading
from typing import Any, Final

from starlette.datastructures import QueryParams
from starlette.requests import Request
from starlette.routing import Route

from laminar.core.errors import LaminarError
from laminar.dashboard.answer import get
from laminar.dashboard.child import ask
from laminar.dashboard.context import Context
from laminar.dashboard.kernel_list import kernel_path, kernels

MODULE: Final = "laminar.dashboard.kernel_process"
SECONDS: Final = 20.0
GIVEN: Final = "v."  # before the name of a value, in the query


def routes(context: Context) -> list[Route]:
    turn = threading.Semaphore(2)  # kernels at once

    def offered(request: Request) -> dict[str, Any]:  # noqa: ARG001
        root = context.project().root
        return {"root": str(root), "kernels": kernels(root)}

    def looked_at(request: Request) -> dict[str, Any]:
        query = request.query_params
        path = kernel_path(context.project().root, query.get("file", ""))
        asked = {
            "path": str(path),
            "entry": query.get("entry", "kernel"),
            "values": values(query),
            "instances": _whole(query.get("instances")),
        }
        with turn:
            try:
                return ask(MODULE, asked, seconds=SECONDS)
            except TimeoutError:
                raise LaminarError(
                    "L704",
                    f"{path.name} was looked at for {SECONDS:g} s and not done",
                    hint="smaller sizes, or laminar kernel run --engine native",
                ) from None

    return [get("/api/kernels", offered), get("/api/kernels/one", looked_at)]


def values(query: QueryParams) -> dict[str, bool | int | float]:
    """`v.slope=0.1`. L008 for what is no number."""
    return {name.removeprefix(GIVEN): _number(name, text) for name, text in query.items() if name.startswith(GIVEN) and text.strip()}


def _number(name: str, text: str) -> bool | int | float:
    if text in ("true", "false"):
        return text == "true"
    try:
        found = int(text) if text.lstrip("+-").isdecimal() else float(text)
    except ValueError:
        found = math.nan
    if not math.isfinite(found):
        raise LaminarError("L008", f"{name.removeprefix(GIVEN)} = {text[:40]!r} is no number", hint="a number such as 16 or 0.1")
    return found


def _whole(text: str | None) -> int | None:
    if not text:
        return None
    found = _number("instances", text)
    if isinstance(found, bool) or found != int(found):
        raise LaminarError("L008", f"{text[:40]!r} instances", hint="a whole number")
    return int(found)

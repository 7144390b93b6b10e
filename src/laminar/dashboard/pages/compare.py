"""Compare: two or more layers side by side. What needs a model to be run is done by a process beside the dashboard (judging.py)."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any

from starlette.requests import Request
from starlette.routing import Route

from laminar.core.errors import LaminarError
from laminar.dashboard.answer import get
from laminar.dashboard.comparison import Comparison, Curve, choices, compare, curve, layers
from laminar.dashboard.context import Context
from laminar.dashboard.judging import Judging
from laminar.dashboard.module_changes import modules
from laminar.stack.diff import diff


def routes(context: Context) -> list[Route]:
    judging = Judging()

    @lru_cache(maxsize=64)
    def differences(first: str, second: str) -> dict[str, Any]:
        """Layers never change, so this is worth remembering."""
        store = context.store()
        found = diff(store, first, second)
        tensors = [one.to_json() | {"norms": one.norms, "elements": one.size} for one in found.tensors]
        return {"tensors": tensors, "equal": found.equal_tensors, "modules": modules(found, store.layer(first), store.layer(second))}

    def offered(request: Request) -> dict[str, Any]:  # noqa: ARG001
        project = context.project()
        data = list(project.file.spec.data) if project.file else []
        store = context.store()
        return {"choices": choices(store, context.runs.all(store)), "stack": project.stack, "data": data}

    def side_by_side(request: Request) -> Comparison:
        def look(path: Path) -> Curve:
            return context.histories.look(path, lambda history: curve(history.others))

        return compare(context.store(), request.query_params.getlist("layer"), context.project().stack, look)

    def tensors(request: Request) -> dict[str, Any]:
        first, second = layers(context.store(), request.query_params.getlist("layer"), context.project().stack)[:2]
        return differences(first.id, second.id)

    def judged(request: Request) -> dict[str, Any]:
        project, query = context.project(), request.query_params
        asked = layers(context.store(), query.getlist("layer"), project.stack)
        data = query.get("data", "")
        if not data:
            raise LaminarError("L008", "no data is named to ask the layers about", hint="choose some of the stack file")
        text = project.file.text if project.file else None
        return judging.look(str(context.start), [manifest.id for manifest in asked], data, text, again="again" in query)

    return [
        get("/api/compare", side_by_side),
        get("/api/compare/choices", offered),
        get("/api/compare/tensors", tensors),
        get("/api/compare/judged", judged),
    ]

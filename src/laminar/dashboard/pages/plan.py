"""Plan: the planner's kept answers, layer by layer, and predicted against measured. Nothing is measured from here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any, Final

import msgspec
from starlette.requests import Request
from starlette.routing import Route

from laminar.core.errors import LaminarError
from laminar.dashboard.answer import get
from laminar.dashboard.context import Context
from laminar.plan import ledger
from laminar.plan.kept_plans import KeptAnswer, kept
from laminar.plan.ledger_check import check
from laminar.store.layout import quoted, unquoted
from laminar.store.store import Store

ENTRIES: Final = 500  # of the ledger that are shown
AUTO: Final = "auto chose "  # how a note of such a build begins (plan/trials/auto.py)


class Summary(msgspec.Struct, frozen=True, kw_only=True):
    """A layer, with its kept answer in a line. `error`: the file is there, and damaged."""

    layer: str
    in_stack: bool
    when: float | None = None
    by: str | None = None
    best: str | None = None
    conclusion: str | None = None
    error: str | None = None


def routes(context: Context) -> list[Route]:
    def layers(request: Request) -> dict[str, Any]:  # noqa: ARG001
        project = context.project()
        named = [layer.name for layer in project.file.spec.layer] if project.file else []
        return {"stack": project.stack, "layers": summaries(context.store(), project.stack, named)}

    def answer(request: Request) -> dict[str, Any]:
        layer = request.query_params.get("layer", "")
        stack = context.project().stack
        found = kept(context.store(), stack, layer) if stack is not None else None
        return {"answer": found, "auto": chosen_by_builds(context, layer)}

    def past(request: Request) -> dict[str, Any]:  # noqa: ARG001
        entries = ledger.look()
        told = [entry for entry in entries if not entry.calibration]
        rows = [asdict(entry) for entry in told[-ENTRIES:]]
        return {
            "path": str(ledger.default_path()),
            "check": check(entries).to_json(),
            "calibrations": len(entries) - len(told),
            "entries": rows,
        }

    return [get("/api/plan", layers), get("/api/plan/answer", answer), get("/api/plan/ledger", past)]


def summaries(store: Store, stack: str | None, named: Sequence[str]) -> list[Summary]:
    """Of the stack's layers, and of others that were planned under its name."""
    if stack is None:
        return []
    others = sorted({unquoted(path.stem) for path in (store.layout.plans / quoted(stack)).glob("*.json")} - set(named))
    return [_summary(store, stack, layer, layer in named) for layer in (*named, *others)]


def _summary(store: Store, stack: str, layer: str, in_stack: bool) -> Summary:
    try:
        found = kept(store, stack, layer)
    except LaminarError as error:
        return Summary(layer=layer, in_stack=in_stack, error=error.message)
    if found is None:
        return Summary(layer=layer, in_stack=in_stack)
    best = _best(found)
    return Summary(layer=layer, in_stack=in_stack, when=found.when, by=found.by, best=best, conclusion=found.conclusion)


def _best(found: KeptAnswer) -> str:
    return found.plans[found.chosen].name


def chosen_by_builds(context: Context, layer: str, most: int = 20) -> list[dict[str, Any]]:
    """What builds with `--strategy auto` have said of this layer, newest first."""
    store, stack = context.store(), context.project().stack
    found: list[dict[str, Any]] = []
    for entry in reversed(store.refs.log(f"{stack}/{layer}")) if f"{stack}/{layer}" in store.refs.names() else []:
        if len(found) >= most or not store.has_layer(entry.id):
            continue
        notes = [note for note in store.layer(entry.id).notes if note.startswith(AUTO)]
        found += [{"when": entry.time, "id": entry.id, "why": note} for note in notes]
    return found

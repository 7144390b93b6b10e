"""The page Runs: which there are, their curves, what happened, and all of it as CSV."""

from __future__ import annotations

import csv
import io
import math
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from laminar.core.errors import LaminarError
from laminar.dashboard.answer import get
from laminar.dashboard.context import Context
from laminar.dashboard.curves import AXES, Axis, curves
from laminar.dashboard.history import FIELDS, History, is_figure, table_of
from laminar.dashboard.runs import history_of
from laminar.dashboard.trial_runs import TrialRuns
from laminar.dashboard.workers import shares

POINTS: Final = (50, 700, 5000)  # of a series: least, usual, most
RUNS: Final = 12  # at once


def routes(context: Context) -> list[Route]:
    trials = TrialRuns()

    def listed(request: Request) -> dict[str, Any]:  # noqa: ARG001
        store = context.store()
        return {"now": context.clock.now(), "runs": context.runs.all(store), "trials": trials.all(store)}

    def curved(request: Request) -> dict[str, Any]:
        asked = request.query_params
        axis = _axis(asked.get("x", "step"))
        points = int(min(max(_number(asked.get("points"), POINTS[1]), POINTS[0]), POINTS[2]))
        low, high = (_number(asked.get(name), None) for name in ("low", "high"))
        store = context.store()
        found = {}
        for run in dict.fromkeys(asked.getlist("run")[:RUNS]):
            path = history_of(store, run)
            found[run] = context.histories.look(path, lambda history: _told(history, axis, points, low, high))
        return {"x": axis, "runs": found}

    def as_csv(request: Request) -> Response:
        run = request.query_params.get("run", "")
        path = history_of(context.store(), run)
        text = context.histories.look(path, _csv)
        return Response(text, media_type="text/csv; charset=utf-8", headers={"content-disposition": f'attachment; filename="{run}.csv"'})

    return [get("/api/runs", listed), get("/api/runs/curves", curved), get("/api/runs/csv", as_csv)]


def _axis(text: str) -> Axis:
    for axis in AXES:
        if axis == text:
            return axis
    raise LaminarError("L008", f"x={text[:40]}: expected one of {', '.join(AXES)}", hint="x=step")


def _told(history: History, axis: Axis, points: int, low: float | None, high: float | None) -> dict[str, Any]:
    return {
        "series": curves(history, axis, points, low, high),
        "workers": shares(history),
        "steps": history.steps,
        "damaged": history.damaged,
        "last": history.last,
        "events": [e for e in history.others if e.get("event") not in ("epoch", "worker", "checkpoint", "saved")][-100:],
    }


def _csv(history: History) -> str:
    """A row a step, then a row an epoch: spreadsheets and pandas read it as it is."""
    out = io.StringIO()
    writer = csv.writer(out)
    epochs = [e for e in history.others if e.get("event") == "epoch"]
    sides = [(side, name) for side in ("train", "test") for name in _names(epochs, side)]
    writer.writerow(["event", *FIELDS, "samples_per_second", *(f"{side}_{name}" for side, name in sides)])  # so no name begins a formula
    columns = [history.column(name).tolist() for name in FIELDS]
    writer.writerows(
        ["step", *("" if math.isnan(v) else f"{v:.10g}" if v != v // 1 else int(v) for v in row)] for row in zip(*columns, strict=True)
    )
    for e in epochs:
        figures = [table_of(e, side).get(name) for side, name in sides]
        told = [*(e.get(name) for name in FIELDS), e.get("samples_per_second"), *figures]
        writer.writerow(["epoch", *(value if is_figure(value) else "" for value in told)])
    return out.getvalue()


def _names(epochs: list[dict[str, Any]], side: str) -> list[str]:
    return list(dict.fromkeys(str(name) for e in epochs for name in table_of(e, side)))


def _number(text: str | None, otherwise: Any) -> Any:
    if text is None:
        return otherwise
    try:
        value = float(text)
    except ValueError:
        return otherwise
    return value if math.isfinite(value) else otherwise

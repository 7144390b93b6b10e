"""Pages: the status page, which needs nothing from elsewhere, and figures for Prometheus.

What it shows is drawn by view.js and view.css, which the dashboard takes from here, too.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.resources import files
from typing import Any, Final, final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from laminar.grid.server import overview
from laminar.grid.server.gate import Gate
from laminar.grid.server.routes import Handler, NodeRoutes
from laminar.grid.utilization import PARTS

POLICY: Final = "; ".join(
    (
        "default-src 'none'",
        "style-src 'self'",
        "script-src 'self'",
        "connect-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
    )
)
HEADERS: Final = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}

FILES: Final = {"status.js": "text/javascript", "view.js": "text/javascript", "view.css": "text/css"}


@final
class Pages:
    def __init__(self, node_routes: NodeRoutes, gate: Gate, clock: Callable[[], float]) -> None:
        self._nodes, self._gate, self._clock = node_routes, gate, clock

    def routes(self) -> list[Route]:
        safely = self._nodes.safely
        return [
            Route("/", safely(self._page), methods=["GET"]),
            *(Route(f"/{name}", safely(_given(name)), methods=["GET"]) for name in FILES),
            Route("/metrics", safely(self._metrics), methods=["GET"]),
        ]

    async def _page(self, request: Request) -> Response:
        self._gate.look(request)
        return Response(text_of("status.html"), headers=HEADERS, media_type="text/html; charset=utf-8")

    async def _metrics(self, request: Request) -> Response:
        self._gate.look(request)
        told = await self._nodes.do(lambda tx: overview.status(tx, self._clock()))
        return Response(prometheus(told, self._gate.refused), media_type="text/plain; version=0.0.4; charset=utf-8")


def prometheus(told: dict[str, Any], turned_away: dict[str, int]) -> str:
    """Text format 0.0.4."""
    lines: list[str] = []

    def family(name: str, kind: str, about: str, rows: list[tuple[dict[str, str], float]]) -> None:
        lines.extend([f"# HELP laminar_grid_{name} {about}", f"# TYPE laminar_grid_{name} {kind}"])
        for labels, value in rows:
            inside = ",".join(f'{key}="{_escaped(text)}"' for key, text in labels.items())
            lines.append(f"laminar_grid_{name}{{{inside}}} {_figure(value)}")

    runs = told["runs"]
    family("nodes", "gauge", "Nodes by what they are.", [({"state": state}, count) for state, count in told["nodes"].items()])
    family("results", "gauge", "Results by state.", [({"state": state}, count) for state, count in sorted(told["tasks"].items())])
    family("requests_refused_total", "counter", "Requests turned away.", [({"reason": why}, n) for why, n in sorted(turned_away.items())])
    family("version", "gauge", "Newest version of a run.", [({"run": run["name"]}, run["version"]) for run in runs])
    family("answers_total", "counter", "Answers taken.", [({"run": run["name"]}, run["answers"]) for run in runs])
    family("applied_total", "counter", "Tasks whose answers are in the model.", [({"run": run["name"]}, run["applied"]) for run in runs])
    refused = [({"run": run["name"], "reason": why}, n) for run in runs for why, n in sorted(run["refused"].items())]
    family("answers_refused_total", "counter", "Answers found wrong.", refused)
    family("bytes_up_total", "counter", "Bytes of answers.", [({"run": run["name"]}, run["bytes"]["up"]) for run in runs])
    known = [(run["name"], run["utilization"]) for run in runs if run["utilization"]["seconds"]]
    spent = [({"run": name, "part": part}, shares[part]) for name, shares in known for part in PARTS]
    family("utilization", "gauge", "Shares of the time of nodes, as they say: the mean of those that worked for a run.", spent)
    tested = [({"run": run["name"], "metric": key}, value) for run in runs if run["curve"] for key, value in _last(run["curve"][-1])]
    family("metric", "gauge", "What the newest test gave.", tested)
    return "\n".join(lines) + "\n"


def _last(point: dict[str, Any]) -> list[tuple[str, float]]:
    return [(key, float(value)) for key, value in point.items() if key not in ("version", "made")]


def _figure(value: float) -> str:
    """All of its digits: rates are made from differences of counts."""
    return str(value).replace("nan", "NaN").replace("inf", "Inf")


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _given(name: str) -> Handler:
    async def give(request: Request) -> Response:  # noqa: ARG001 - nothing in it is secret
        return Response(text_of(name), headers=HEADERS, media_type=f"{FILES[name]}; charset=utf-8")

    return give


def text_of(name: str) -> str:
    """A file of the status page."""
    return (files("laminar.grid.server") / name).read_text(encoding="utf-8")

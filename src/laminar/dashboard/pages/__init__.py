"""Pages: what each page can be asked for, one module each. `routes(context)` are its routes, below /api/NAME/.

A page is a line here and one in static/pages.js.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from starlette.routing import Route

from laminar.dashboard.context import Context
from laminar.dashboard.pages import compare, experiments, grid, kernels, plan, runs, stack

PAGES: Final[dict[str, Callable[[Context], list[Route]]]] = {
    "stack": stack.routes,
    "runs": runs.routes,
    "compare": compare.routes,
    "plan": plan.routes,
    "experiments": experiments.routes,
    "grid": grid.routes,
    "kernels": kernels.routes,
}

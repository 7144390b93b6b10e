"""The posts between the workers of a grid: one for each edge of a plan that leads to another lane, and one back where gradients go back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import Final

from laminar.parallel.split.dims import local_sizes
from laminar.parallel.split.grid import Grid
from laminar.parallel.stages.plan import Edge
from laminar.parallel.stages.post import Post, PostSpec
from laminar.parallel.stages.prepare import Prepared
from laminar.parallel.stages.runner import Mail
from laminar.train.splitting import LANES

JUDGING: Final = 4  # messages ahead where nothing has to be kept, at least


@dataclass(frozen=True)
class Route:
    """A post, and what goes there."""

    spec: PostSpec
    edge: Edge
    fit: bool  # in training; else when the model is judged
    back: bool  # gradients


def routes(prepared: Prepared, grid: Grid) -> list[Route]:
    """In an order that everybody knows."""
    found = []
    axes = {axis: size for axis, size in grid.mesh.items() if axis != LANES}
    for fit, plan, placed in ((True, prepared.fit, prepared.training), (False, prepared.test, prepared.judging)):
        rooms = prepared.batches if fit else max(JUDGING, plan.lanes)
        for places in product(*map(range, axes.values())):
            at = dict(zip(axes, places, strict=True))
            for edge in plan.edges:
                lanes = plan.stages[edge.source].lane, plan.stages[edge.taker].lane
                if lanes[0] == lanes[1]:
                    continue
                source, taker = (grid.rank({LANES: lane, **at}) for lane in lanes)
                sizes = local_sizes(placed.values[edge.value][0], at, placed.mesh, prepared.rows)
                room = prod(sizes) * placed.traced.dtypes[edge.value][0].itemsize
                found.append(Route(PostSpec(source, taker, room, rooms), edge, fit, back=False))
                if fit and edge.value in plan.learns:
                    found.append(Route(PostSpec(taker, source, room, rooms), edge, fit, back=True))
    return found


def mail(found: list[Route], rank: int, post: Callable[[int], Post], *, fit: bool) -> Mail:
    """A worker's ends of those that are used in training, or when the model is judged."""
    taken = Mail({}, {}, {}, {})
    for number, route in enumerate(found):
        if route.fit != fit or rank not in (route.spec.source, route.spec.taker):
            continue
        if rank == route.spec.source:
            (taken.grads_out if route.back else taken.values_out)[route.edge] = post(number)
        else:
            (taken.grads_in if route.back else taken.values_in)[route.edge] = post(number)
    return taken

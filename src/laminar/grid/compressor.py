"""The compressor of a run, as its nodes and its server have it."""

from __future__ import annotations

from laminar.parallel.compress.layout import Layout
from laminar.parallel.compress.make import make_compressor
from laminar.parallel.compress.protocol import Compressor
from laminar.train.on_grid import Grid
from laminar.train.recipe import Recipe


def compressor_of(recipe: Recipe, layout: Layout, *, gradients: bool) -> Compressor:
    """Distances have the momentum, clipping and decay of the inner optimizer in them already; gradients have not."""
    assert isinstance(recipe.strategy, Grid)
    known = recipe.settings()
    return make_compressor(
        recipe.strategy.compression,
        layout,
        workers=recipe.strategy.workers,
        momentum=known.get("momentum", 0.0) if gradients else 0.0,
        nesterov=gradients and bool(known.get("nesterov")),
        clip=recipe.clip if gradients else None,
        weight_decay=known["weight_decay"] if gradients else 0.0,
        seed=recipe.seed,
    )

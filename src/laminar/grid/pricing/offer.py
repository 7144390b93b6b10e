"""Offer: may this job be planned for a grid at all? Only what strangers can train is offered."""

from __future__ import annotations

import dataclasses

import msgspec

from laminar.core.errors import LaminarError
from laminar.grid.describe import describe
from laminar.grid.pricing.price import grid_price
from laminar.plan.desktops import GridPrice
from laminar.stack.open_job import Description
from laminar.train.job import Job
from laminar.train.on_grid import Grid


def price_for(job: Job, description: Description) -> tuple[GridPrice | None, str]:
    """Who prices it; or nobody, and why. It is described as `laminar grid train` would do it, and thrown away."""
    how = job.recipe.strategy if isinstance(job.recipe.strategy, Grid) else Grid()
    try:
        recipe = msgspec.structs.replace(job.recipe, strategy=how)
        layer = next(layer for layer in description.file.spec.layer if layer.name == description.layer)
        spec = description.file.spec.data[layer.data]
        describe(dataclasses.replace(job, recipe=recipe), description.layer, spec, list(layer.freeze))
    except LaminarError as error:
        return None, f"nothing is planned for the grid: {error.message}"
    except ValueError as error:  # the recipe does not go with it
        return None, f"nothing is planned for the grid: {error}"
    return grid_price, ""

"""Prepare: a job's model, placed on the mesh of its strategy by the chief, so that mistakes start no process."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor, nn

from laminar.core.errors import LaminarError
from laminar.core.nearest import did_you_mean
from laminar.data.dataset import as_float
from laminar.parallel.split.dims import ROWS
from laminar.parallel.split.place import Placed, place
from laminar.parallel.split.rules import Rules
from laminar.parallel.split.trace import trace
from laminar.train import dtype
from laminar.train.job import Job, Route
from laminar.train.splitting import OnMesh


def rules_of(how: OnMesh) -> Rules:
    return Rules(how.mesh, how.split, how.module)


def _examples(route: Route, dtype_name: str, rows: int = 2) -> list[Tensor]:
    wanted = dtype.of_tensors(dtype_name)
    found = []
    for x in route.inputs:
        some = x[np.arange(rows) % len(x)]  # the same ones again, if there are fewer
        example = torch.from_numpy(as_float(some))
        found.append(example.to(wanted) if example.is_floating_point() else example)
    return found


def some_samples(job: Job, rows: int) -> list[Tensor]:
    """As training has them."""
    return _examples(job.fit_route, job.recipe.dtype, rows)


Way = tuple[nn.Module, Sequence[Tensor]]  # what samples go through, and some of them


def placed_model(model: nn.Module, fit: Way, test: Way, rules: Rules, frozen: Sequence[nn.Module] = ()) -> tuple[Placed, Placed]:
    """As it is trained and as it is judged, with the same layouts of the model's tensors."""
    names = {id(tensor): name for name, tensor in [*model.named_parameters(), *model.named_buffers()]}

    def name_of(tensor: Tensor) -> str:
        return names[id(tensor)]

    training = place(trace(*fit, name_of, training=True, frozen=frozen), rules)
    judging = place(trace(*test, name_of, training=False), rules, training.layouts)
    return training, judging


def place_whole(job: Job, rules: Rules) -> Placed:
    """The model from samples to outputs, also where its first part is not run in this training."""
    plain = Route(job.model, [job.data.train.x])
    way = job.model, _examples(plain, job.recipe.dtype)
    return placed_model(job.model, way, way, rules)[0]


def place_job(job: Job, rules: Rules) -> tuple[Placed, Placed]:
    """L012 for rules that this model does not allow."""
    fit, test = ((route.module, _examples(route, job.recipe.dtype)) for route in (job.fit_route, job.test_route))
    placed = placed_model(job.model, fit, test, rules, list(job.frozen.modules()) if job.frozen is not None else [])
    names, paths = dict(placed[0].names), [path for path, _ in job.model.named_modules() if path]
    if job.fit is not None:  # rules are for the model, whether features are kept this time or not
        names |= place_whole(job, rules).names
    for where, table in [("split", rules.split), *((f'module."{path}"', table) for path, table in rules.modules.items())]:
        for name in table:
            if name not in names:
                there = "; ".join(f"{one}: {_sizes(found)}" for one, found in sorted(names.items()))
                raise LaminarError(
                    "L012",
                    f"strategy.{where}.{name}: no tensor of this model has a dimension '{name}'",
                    hint=f"dimensions there are, with their sizes: {there}",
                )
    for path in rules.modules:
        if path not in paths:
            raise LaminarError(
                "L012", f'strategy.module."{path}": the model has no such module; {did_you_mean(path, paths)}', hint="laminar show --split"
            )
    return placed


def _sizes(found: set[int]) -> str:
    return ", ".join("rows of a batch" if size % ROWS == 0 else str(size) for size in sorted(found))

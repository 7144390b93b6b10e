"""Prepare: a job's model, placed on the mesh of its strategy by the chief, so that mistakes start no process."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor, nn

from laminar.data.dataset import as_float
from laminar.parallel.split.named import more_names, names_of, paths_of, refuse_unknown
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
    names = names_of(placed[0])
    if job.fit is not None:  # rules are for the model, whether features are kept this time or not
        names = more_names(names, names_of(place_whole(job, rules)))
    refuse_unknown(rules, names, paths_of(job.model), placed[0])
    return placed

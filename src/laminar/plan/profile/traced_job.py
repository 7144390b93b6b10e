"""A job's model, traced once and placed as often as somebody asks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property
from typing import final

from torch import Tensor, nn

from laminar.core import digest
from laminar.core.errors import LaminarError
from laminar.core.nearest import did_you_mean
from laminar.parallel.split.calls import Traced, packed
from laminar.parallel.split.dims import ROWS
from laminar.parallel.split.place import Placed, place
from laminar.parallel.split.prepare import place_whole, some_samples
from laminar.parallel.split.rules import Rules
from laminar.parallel.split.trace import trace
from laminar.parallel.stages.flow import Flow
from laminar.train.job import Job
from laminar.train.snapshot import trainable


@final
class TracedJob:
    def __init__(self, job: Job) -> None:
        self.job = job
        self._names = {id(tensor): name for name, tensor in [*job.model.named_parameters(), *job.model.named_buffers()]}

    @cached_property
    def trained(self) -> dict[str, nn.Parameter]:
        return trainable(self.job.model)

    @cached_property
    def training(self) -> Traced:
        """L209 if it cannot be traced."""
        job = self.job
        frozen = list(job.frozen.modules()) if job.frozen is not None else []
        return trace(job.fit_route.module, some_samples(job, 2), self._name, training=True, frozen=frozen)

    @cached_property
    def judging(self) -> Traced:
        as_test = replace(self.job, fit=self.job.test_route)
        return trace(as_test.fit_route.module, some_samples(as_test, 2), self._name, training=False)

    @cached_property
    def digest(self) -> str:
        """Of all that decides what is computed, but for the numbers in tensors."""
        traced = self.training
        calls = [[one.name, one.target, one.args, one.kwargs] for one in traced.calls]
        learned = {name: name in self.trained for name in traced.tensors.values()}
        return digest.of_json(packed([calls, traced.sizes, traced.dtypes, learned]))

    @cached_property
    def flow(self) -> Flow:
        """Of the model as it is, nothing split."""
        return Flow(place(self.training, Rules({})), self.trained)

    @cached_property
    def judged(self) -> Flow:
        return Flow(place(self.judging, Rules({}), self.flow.placed.layouts), self.trained)

    def tensors(self) -> dict[str, Tensor]:
        """The model's own, by name; and constants of its code."""
        return dict([*self.job.model.named_parameters(), *self.job.model.named_buffers()]) | self.training.constants

    def placed(self, rules: Rules) -> tuple[Placed, Placed]:
        """As it is trained and as it is judged. L012 for rules that this model does not allow, as whoever trains it would say."""
        training = place(self.training, rules)
        judging = place(self.judging, rules, training.layouts)
        self._refuse(rules, training)
        return training, judging

    def _name(self, tensor: Tensor) -> str:
        return self._names[id(tensor)]

    def _refuse(self, rules: Rules, training: Placed) -> None:
        names: Mapping[str, set[int]] = training.names
        tables = [("split", rules.split), *((f'module."{path}"', table) for path, table in rules.modules.items())]
        if self.job.fit is not None and any(name not in names for _, table in tables for name in table):
            names = {**names, **place_whole(self.job, rules).names}
        for where, table in tables:
            for name in table:
                if name not in names:
                    there = "; ".join(f"{one}: {_sizes(found)}" for one, found in sorted(names.items()))
                    what = f"strategy.{where}.{name}: no tensor of this model has a dimension '{name}'"
                    raise LaminarError("L012", what, hint=f"dimensions there are, with their sizes: {there}")
        paths = [path for path, _ in self.job.model.named_modules() if path]
        for path in rules.modules:
            if path not in paths:
                what = f'strategy.module."{path}": the model has no such module; {did_you_mean(path, paths)}'
                raise LaminarError("L012", what, hint="laminar show --split")


def _sizes(found: set[int]) -> str:
    return ", ".join("rows of a batch" if size % ROWS == 0 else str(size) for size in sorted(found))


def rules(mesh: Mapping[str, int], split: Mapping[str, str], module: Mapping[str, Mapping[str, str]]) -> Rules:
    return Rules(dict(mesh), dict(split), {path: dict(table) for path, table in module.items()})

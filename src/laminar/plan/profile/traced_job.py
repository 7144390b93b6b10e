"""A job's model, traced once and placed as often as somebody asks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property
from typing import final

from torch import Tensor, nn

from laminar.core import digest
from laminar.parallel.split.calls import Traced, packed
from laminar.parallel.split.named import Names, more_names, names_of, paths_of, refuse_unknown
from laminar.parallel.split.place import Placed, Seen, look_at, place
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
        self._flows: dict[str, tuple[Flow, Flow]] = {}
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
        return Flow(place(self.training, Rules({}), seen=self._seen[0]), self.trained)

    @cached_property
    def _seen(self) -> tuple[Seen, Seen]:
        """What does not depend on rules, of training and of judging."""
        return look_at(self.training), look_at(self.judging)

    @cached_property
    def names(self) -> Names:
        """The dimensions of modules, those before kept features included."""
        own = names_of(self.flow.placed)
        return own if self.job.fit is None else more_names(own, names_of(place_whole(self.job, Rules({}))))

    def tensors(self) -> dict[str, Tensor]:
        """The model's own, by name; and constants of its code."""
        return dict([*self.job.model.named_parameters(), *self.job.model.named_buffers()]) | self.training.constants

    def placed(self, rules: Rules) -> tuple[Placed, Placed]:
        """As it is trained and as it is judged. L012 for rules that this model does not allow, as whoever trains it would say."""
        training = place(self.training, rules, seen=self._seen[0])
        judging = place(self.judging, rules, training.layouts, seen=self._seen[1])
        refuse_unknown(rules, self.names, paths_of(self.job.model), training)
        return training, judging

    def flows(self, rules: Rules) -> tuple[Flow, Flow]:
        """The same, with what is found out of them; for rules that many plans have in common, and so remembered."""
        key = repr(rules)
        if key not in self._flows:
            training, judging = self.placed(rules)
            self._flows[key] = Flow(training, self.trained), Flow(judging, self.trained)
        return self._flows[key]

    def _name(self, tensor: Tensor) -> str:
        return self._names[id(tensor)]


def rules(mesh: Mapping[str, int], split: Mapping[str, str], module: Mapping[str, Mapping[str, str]]) -> Rules:
    return Rules(dict(mesh), dict(split), {path: dict(table) for path, table in module.items()})

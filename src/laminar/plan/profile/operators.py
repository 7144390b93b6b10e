"""Operators: a placed model as one worker runs it, operator by operator: seconds, exchanges, bytes.

The worker is the one at the last place on every axis: where sizes do not divide it has the most, and the others wait for it. Exchanges are
those of parallel/split/traffic.py, to the byte; what a worker itself copies for them is measured, and what lies between workers is not
(links.py). Behind the model's operators comes one more, the loss, which needs all that the loss of the own rows needs.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from math import prod
from typing import Any, Final, final

import torch

from laminar.parallel.split.dims import At, Dims, Mesh, local_sizes, shape_of
from laminar.parallel.split.place import Operation, Placed
from laminar.parallel.split.prepare import some_samples
from laminar.parallel.split.program import deferred
from laminar.parallel.split.team import BUCKET
from laminar.parallel.split.traffic import Handed, Sent, Traffic, traffic
from laminar.plan.facts import Exchange, ModelCost, OperatorCost
from laminar.plan.profile.copying import bucketing, copying
from laminar.plan.profile.meter import Meter, Wanted
from laminar.plan.profile.one_operator import Site, engine_time
from laminar.plan.profile.patterns import Seen, look
from laminar.plan.profile.timing import Effort, timed
from laminar.plan.profile.traced_job import TracedJob
from laminar.train.losses import loss_name, make_loss

LOSS: Final = "loss"


def last_place(mesh: Mesh) -> dict[str, int]:
    return {axis: size - 1 for axis, size in mesh.items()}


@final
class Operators:
    def __init__(self, traced: TracedJob, meter: Meter) -> None:
        self._traced, self._meter, self._job = traced, meter, traced.job
        self._seen: Seen | None = None
        self._tensors = traced.tensors()
        self.odd: dict[str, str] = {}  # operators that could not be run by themselves, and why
        self._known: dict[Any, dict[str, Any]] = {}  # times of operators: the keys of what is kept take longer to make than to look up

    def cost(self, placed: Placed, rows: int, *, at: At | None = None, threads: int = 1) -> ModelCost:
        """As measured, not calibrated."""
        at = last_place(placed.mesh) if at is None else at
        site = Site(placed, at, rows, self._look().patterns, self._traced.flow.learns)
        times = self._times(site, threads)
        sent = traffic(placed, at, rows, self._trains)
        carried = copying(site, self._meter, threads)
        found = [self._one(site, i, times[i], sent.operators[i], carried[i]) for i in range(len(placed.operations))]
        found.append(self._loss(site, sent.output, carried[-1], threads))
        added = buckets(placed, sent, self._traced.trained)
        packed = bucketing([(size, count) for _, size, count in added], self._meter, threads)
        first = next((i for i, op in enumerate(placed.operations) if op.call.name in site.learns), 0)
        found[first] = replace(found[first], weights=found[first].weights + packed)  # whose gradients are the last
        gradients = tuple(Exchange("sum", axis, size) for axes, size, _ in added for axis in axes)
        return ModelCost(rows, tuple(found), gradients, *self._own_bytes(placed, at))

    def _trains(self, name: str) -> bool:
        return name in self._traced.trained

    def _look(self) -> Seen:
        if self._seen is None:
            self._seen = look(self._traced.flow, self._tensors, some_samples(self._job, 2))
        return self._seen

    def _one(self, site: Site, i: int, time: Mapping[str, Any], sent: Sent, carried: tuple[float, float]) -> OperatorCost:
        op, flow = site.placed.operations[i], self._traced.flow
        dtypes = site.placed.traced.dtypes[op.call.name]
        given = sum(prod(sizes) * dtype.itemsize for sizes, dtype in zip(site.sizes(op), dtypes, strict=False))
        # the lower quartile: what took longer was disturbed, or found memory that was not there yet
        forward, backward = (time[way][1] if time[way] is not None else 0.0 for way in ("forward", "backward"))
        if "odd" in time:
            self.odd[op.call.name] = time["odd"]
        return OperatorCost(
            name=str(op.call.name),
            path=op.call.path,
            needs=tuple(sorted({flow.maker[node] for node in op.operands if node in flow.maker})),
            forward=forward + carried[0],
            inputs=backward * (1 - time["later"]) + carried[1],
            weights=backward * time["later"],
            before=_exchanges(sent.before),
            after=_exchanges(sent.after),
            back=_exchanges(sent.back)[::-1],  # what came last comes first
            kept=round(given * self._look().kept[i]),
            given=given,
        )

    def _times(self, site: Site, threads: int) -> list[dict[str, Any]]:
        near = [self._near(site, i, op, threads) for i, op in enumerate(site.placed.operations)]
        missing = [i for i, one in enumerate(near) if one not in self._known]
        if missing:
            effort = self._meter.effort
            engine: float = self._meter.one("the backward engine", {"what": "engine"}, lambda: engine_time(effort), threads=threads)
            operations = [site.placed.operations[i] for i in missing]
            wanted = [Wanted(site.key(op), _timer(site, op, engine, effort)) for op in operations]
            times = self._meter.many("operators", wanted, threads=threads)
            self._known |= {near[i]: time for i, time in zip(missing, times, strict=True)}
        return [self._known[one] for one in near]

    @staticmethod
    def _near(site: Site, i: int, op: Operation, threads: int) -> Any:
        """What tells it from all others of this model."""
        shapes = tuple(tuple(shape_of(dim) for dim in dims) for dims in (*op.needs, *op.gives))
        made = tuple(site.as_made(op, k) for k in range(len(op.operands)))
        return i, shapes, made, op.run, op.sums, site.rows, tuple(site.placed.mesh.items()), repr(op.facts), threads

    # The loss, and what is known without measuring

    def _loss(self, site: Site, sent: Sent, carried: tuple[float, float], threads: int) -> OperatorCost:
        job, placed, effort = self._job, site.placed, self._meter.effort
        name = loss_name(job.recipe, job.data.task)
        sizes = local_sizes(placed.output, site.at, placed.mesh, site.rows)
        y = job.data.train.y
        key = {
            "what": LOSS,
            "loss": name,
            "smoothing": job.recipe.label_smoothing,
            "sizes": sizes,
            "targets": [list(y.shape[1:]), str(y.dtype)],
        }

        def measure() -> list[float]:
            own = torch.from_numpy(y[torch.arange(sizes[0]).numpy() % len(y)])
            outputs = torch.randn(sizes, requires_grad=True)
            loss_of = make_loss(name, label_smoothing=job.recipe.label_smoothing)
            forward = timed(lambda: loss_of(outputs, own).item(), effort).low
            root = loss_of(outputs, own)
            back = timed(lambda: torch.autograd.grad(root, outputs, retain_graph=True), effort).low
            return [forward, back]  # with the engine, which a whole pass starts once, too

        forward, backward = self._meter.one("the loss", key, measure, threads=threads)
        maker = self._traced.flow.maker[placed.traced.output]
        return OperatorCost(
            LOSS, "", (maker,), forward + carried[0], backward + carried[1], 0.0, _exchanges(sent.before), (), _exchanges(sent.back)
        )

    def _own_bytes(self, placed: Placed, at: At) -> tuple[int, int]:
        """Of the own parts of tensors that are trained, and of all others."""
        trained = untrained = 0
        for name, tensor in self._tensors.items():
            layout: Dims | None = placed.layouts.get(name)
            own = (prod(local_sizes(layout, at, placed.mesh, 0)) if layout is not None else tensor.numel()) * tensor.element_size()
            if self._trains(name):
                trained += own
            else:
                untrained += own
        return trained, untrained


def buckets(placed: Placed, sent: Traffic, trained: Collection[str]) -> list[tuple[tuple[str, ...], int, int]]:
    """In which a team adds up gradients after the backward pass: axes, bytes, tensors. `trained`: in the order of the model."""
    axes = deferred(placed)
    groups: dict[tuple[str, ...], list[tuple[int, int]]] = {}
    for name in trained:
        if name in sent.gradients:
            own = sent.gradients[name] // len(axes[name])
            some = groups.setdefault(axes[name], [(0, 0)])
            if some[-1][0] and some[-1][0] + own > BUCKET:
                some.append((0, 0))
            some[-1] = some[-1][0] + own, some[-1][1] + 1
    return [(names, size, count) for names, some in sorted(groups.items()) for size, count in some]


def _timer(site: Site, op: Operation, engine: float, effort: Effort) -> Any:
    return lambda: site.time(op, engine, effort)


def _exchanges(some: Sequence[Handed]) -> tuple[Exchange, ...]:
    return tuple(Exchange(one.kind, one.axis, one.bytes) for one in some)

"""By modules: what is known of a model that cannot be traced. Its innermost modules are timed one by one on what really goes into them.

What the model computes between modules is one piece at the end, as long as the rest of a whole pass, with the loss; the order is that in
which modules are called. So time and memory of the whole are right, and it is known when which gradients are there; but nothing can be
split or cut.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final, final

import torch
from torch import Tensor

from laminar.core.figures import many
from laminar.plan.budget import OutOfTime
from laminar.plan.facts import ModelCost, OperatorCost, Pass
from laminar.plan.profile.meter import Meter, Wanted
from laminar.plan.profile.module_calls import Call, Example, Recorded, mapped, record, tensors_in
from laminar.plan.profile.one_operator import engine_time
from laminar.plan.profile.passes import in_training
from laminar.plan.profile.timing import Effort, timed
from laminar.plan.profile.unchanged import unchanged
from laminar.train import dtype
from laminar.train.job import Job
from laminar.train.snapshot import trainable

REST: Final = "between modules"
NAMED: Final = 3  # modules, in a remark


@final
class ByModules:
    def __init__(self, job: Job, meter: Meter) -> None:
        self._job, self._meter = job, meter
        self._recorded: dict[int, Recorded] = {}  # by rows
        self._costs: dict[tuple[int, int], ModelCost] = {}  # by rows and threads
        self._share = 0.0  # of the modules, of the last pass
        self.odd: dict[str, str] = {}  # modules that do not run by themselves, and why

    def cost(self, rows: int, threads: int, whole: Pass) -> ModelCost:
        """Together as long as a whole pass. OutOfTime where something of it is not known and there is no time to measure it."""
        if (rows, threads) not in self._costs:
            calls, times = self._times(rows, threads)
            self._costs[rows, threads] = self._scaled(rows, calls, times, whole)
        return self._costs[rows, threads]

    def told(self) -> str:
        """What is known of the model, and what is not, in words."""
        if not self._costs:
            return "there was no time to measure its modules, so a pass is one piece"
        last = self._recorded[max(self._recorded)]
        known = f"{many(len(last.calls), 'call')} of {many(last.kinds, 'kind')}, {100 * self._share:.0f} % of a pass"
        found = f"so it is known by its modules ({known}), and all that is computed between them is a piece of its own"
        if self.odd:
            some = ", ".join(f"{path} ({why})" for path, why in list(self.odd.items())[:NAMED])
            found += f"; {many(len(self.odd), 'module', 'is')} in it, too, that could not be run alone: {some}"
        return found

    def _record(self, rows: int) -> Recorded:
        """One pass. It is made anew by every process that plans: what goes into modules is not kept."""
        if rows not in self._recorded:
            if self._meter.budget.over:
                raise OutOfTime("modules")
            self._recorded[rows] = record(self._job, rows)
        return self._recorded[rows]

    def _times(self, rows: int, threads: int) -> tuple[Recorded, list[dict[str, Any]]]:
        recorded, effort = self._record(rows), self._meter.effort
        engine: float = self._meter.one("the backward engine", {"what": "engine"}, lambda: engine_time(effort), threads=threads)
        measure = partial(_measured, self._job, engine, effort)
        wanted = [Wanted(call.key, partial(measure, one)) for call, one in zip(recorded.calls, recorded.examples, strict=True)]
        return recorded, self._meter.many("modules", wanted, threads=threads)

    def _scaled(self, rows: int, recorded: Recorded, times: list[dict[str, Any]], whole: Pass) -> ModelCost:
        there, back = (sum(_low(one, way) for one in times) for way in ("forward", "backward"))
        scale = min(1.0, whole.forward / there) if there else 1.0, min(1.0, whole.backward / back) if back else 1.0
        found = [self._one(i, call, time, scale) for i, (call, time) in enumerate(zip(recorded.calls, times, strict=True))]
        forward, backward = max(0.0, whole.forward - there * scale[0]), max(0.0, whole.backward - back * scale[1])
        before = (len(found) - 1,) if found else ()
        found.append(OperatorCost(REST, "", before, forward, backward, 0.0, kept=recorded.kept))
        self._share = 1.0 - (forward + backward) / max(whole.seconds, 1e-12)
        names = trainable(self._job.model)
        tensors: dict[str, Tensor] = dict([*self._job.model.named_parameters(), *self._job.model.named_buffers()])
        trained = sum(one.nbytes for name, one in tensors.items() if name in names)
        return ModelCost(rows, tuple(found), (), trained, sum(one.nbytes for one in tensors.values()) - trained)

    def _one(self, i: int, call: Call, time: dict[str, Any], scale: tuple[float, float]) -> OperatorCost:
        if "odd" in time:
            self.odd[call.path or call.kind] = time["odd"]
        return OperatorCost(
            name=f"{call.kind} {i}",
            path=call.path or call.kind,
            needs=(i - 1,) if i else (),
            forward=_low(time, "forward") * scale[0],
            inputs=_low(time, "backward") * scale[1],
            weights=0.0,
            kept=call.kept,
            given=call.given,
            trained=call.trained,
        )


def _low(time: dict[str, Any], way: str) -> float:
    """The lower quartile, as of operators: what took longer was disturbed."""
    return float(time[way][1]) if time.get(way) is not None else 0.0


def _measured(job: Job, engine: float, effort: Effort, example: Example) -> dict[str, Any]:
    """Seconds there and back; or why it cannot be run by itself."""
    with unchanged(job):
        in_training(job)
        try:
            return _timed(example, job.recipe.dtype, engine, effort)
        except Exception as error:  # whatever the author's code may raise
            return {"odd": f"{type(error).__name__}: {error}".splitlines()[0][:120]}


def _timed(example: Example, precision: str, engine: float, effort: Effort) -> dict[str, Any]:
    learns = iter(example.learns)
    args, kwargs = mapped((example.args, example.kwargs), lambda one: one.clone().requires_grad_(next(learns)))
    once = _runner(example, args, kwargs, precision)
    roots = [one for one in tensors_in(once()) if one.requires_grad]
    found: dict[str, Any] = {"forward": timed(once, effort).to_json(), "backward": None}
    learn = [one for one in [*tensors_in([args, kwargs]), *example.module.parameters()] if one.requires_grad]
    if roots and learn:
        grads = [torch.ones_like(one) for one in roots]

        def back() -> None:
            torch.autograd.grad(roots, learn, grads, retain_graph=True, allow_unused=True)

        found["backward"] = timed(back, effort).less(engine).to_json()
    return found


def _runner(example: Example, args: Any, kwargs: Any, precision: str) -> Callable[[], Any]:
    def plainly() -> Any:
        with dtype.autocast(precision):
            return example.module(*args, **kwargs)

    def on_copies() -> Any:  # where it writes into its input, which may not be one that learns
        copied_args, copied_kwargs = mapped((args, kwargs), lambda one: one.clone())
        with dtype.autocast(precision):
            return example.module(*copied_args, **copied_kwargs)

    try:
        plainly()
    except RuntimeError:
        on_copies()
        return on_copies
    return plainly

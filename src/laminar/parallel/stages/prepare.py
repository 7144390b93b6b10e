"""Prepare: a job's model, measured and cut into stages, before any process starts. What cannot be cut as asked is told here."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from torch import Tensor

from laminar.core.errors import LaminarError
from laminar.core.nearest import did_you_mean
from laminar.parallel.split.calls import Value
from laminar.parallel.split.dims import local_sizes
from laminar.parallel.split.place import Operation, Placed
from laminar.parallel.split.prepare import place_job, rules_of, some_samples
from laminar.parallel.stages.branches import Spent, deal, find_blocks, stages_of
from laminar.parallel.stages.cut import TooFew, cut_evenly
from laminar.parallel.stages.flow import Flow, of_a_batch, writes, written
from laminar.parallel.stages.kept_costs import kept_costs
from laminar.parallel.stages.measure import Cost, measure, sending
from laminar.parallel.stages.mixing import mixing
from laminar.parallel.stages.plan import Plan, make_plan
from laminar.parallel.threads import threads_each
from laminar.train.job import Job
from laminar.train.snapshot import trainable
from laminar.train.splitting import Branches, Pipeline

Staged = Pipeline | Branches
MIXED: Final = 8  # samples by which it is seen whether rows are mixed


@dataclass(frozen=True)
class Prepared:
    training: Placed
    judging: Placed
    fit: Plan
    test: Plan
    costs: list[Cost]  # of the operators of training, for one micro-batch
    most: int  # rows of a micro-batch at most, for each who shares it
    rows: int  # the same of all of them
    batches: int  # micro-batches of a whole batch

    def holders(self) -> dict[str, tuple[int, ...]]:
        """Lanes that need each of the model's tensors, in training or when it is judged; the first one first."""
        several = self.fit.holders(), self.test.holders()
        names = dict.fromkeys(name for one in several for name in one)
        return {name: tuple(sorted({lane for one in several for lane in one.get(name, ())})) for name in names}

    def to_json(self) -> dict[str, Any]:
        """What workers need of it."""
        return {
            "training": self.training.to_json(),
            "judging": self.judging.to_json(),
            "plans": [self.fit.to_json(), self.test.to_json()],
            "sizes": [self.most, self.rows, self.batches],
        }

    @classmethod
    def from_json(cls, told: dict[str, Any]) -> Prepared:
        training, judging = (Placed.from_json(told[name]) for name in ("training", "judging"))
        fit, test = map(Plan.from_json, told["plans"])
        most, rows, batches = told["sizes"]
        return cls(training, judging, fit, test, [], most, rows, batches)


def prepare(job: Job, how: Staged, *, begins: bool = False) -> Prepared:
    """`begins`: for a run that begins or goes on in the job's folder. L012 for what this model does not allow."""
    trained = trainable(job.model)
    training, judging = place_job(job, rules_of(how))
    return in_stages(job, how, Flow(training, trained), Flow(judging, trained), begins=begins)


def in_stages(job: Job, how: Staged, flow: Flow, judged: Flow, costs: Sequence[Cost] | None = None, *, begins: bool = False) -> Prepared:
    """A placed model, as it is trained and as it is judged. `costs`: of the operators of training, where they are known."""
    for one in (flow, judged):
        _refuse_fixed_output(one)
    most, batches = micro_batches(job, how, flow)
    rows = most * how.parts
    if costs is None:
        threads = threads_each(job.recipe.threads, how.workers)

        def measured() -> list[Cost]:
            return measure(flow, _tensors(job), some_samples(job, rows), threads=threads)

        costs = kept_costs(job.folder, flow, rows, threads, measured) if begins else measured()
    if isinstance(how, Pipeline):
        kept = [path for path, _ in job.model.named_modules() if path] if job.fit is not None else []
        fit, test = _pipeline(flow, judged, costs, how, rows, kept)
    else:
        fit, test = _branches(flow, judged, costs, how, rows)
    refuse_two_writers(flow, fit)
    _refuse_outputs_apart(fit, test)
    return Prepared(flow.placed, judged.placed, fit, test, list(costs), most, rows, batches)


def micro_batches(job: Job, how: Staged, flow: Flow) -> tuple[int, int]:
    """Rows of one at most, for each who shares it, and how many there are of a batch. L012 where the model or the batch does not allow
    them: nothing has to be measured to see that."""
    parts = how.parts
    rows = min(job.recipe.batch, len(job.data.train))
    batches = how.batches(rows // parts) if isinstance(how, Pipeline) else 1
    if rows < parts * batches:
        raise LaminarError(
            "L012",
            f"a batch has {rows} rows, which cannot be {batches} micro-batches{f' for {parts} workers' if parts > 1 else ''}",
            hint=f"microbatches = {max(1, rows // parts)} or fewer, or a larger batch",
        )
    most = -(-rows // (parts * batches))
    if isinstance(how, Pipeline):
        refuse_mixing(flow, how, batches, _tensors(job), some_samples(job, max(4, min(MIXED, most * parts))))
    return most, batches


def _tensors(job: Job) -> dict[str, Tensor]:
    return dict([*job.model.named_parameters(), *job.model.named_buffers()])


def refuse_mixing(flow: Flow, how: Pipeline, batches: int, tensors: Mapping[str, Tensor], examples: Sequence[Tensor]) -> None:
    """Micro-batches give what a batch gives only if no row needs others."""
    if batches == 1:
        return
    norms = [op for op in flow.operations if of_a_batch(op)]
    if norms and how.batch_norm == "refuse":
        raise LaminarError(
            "L012",
            f"'{norms[0].call.path}' takes its statistics from a batch, and a pipeline has only micro-batches at a time, {batches} of each",
            hint='batch_norm = "each" takes those of micro-batches (not the layer that one process makes); or another norm, or freeze it',
        )
    counters = {op.call.path for op in norms}
    for op in flow.operations:
        if writes(op) and op.call.path not in counters:
            raise _not_by_rows(op, "writes into a buffer each time it is run")
    for op in flow.mixing(len(examples[0]), lambda: mixing(flow, tensors, examples)):
        if not of_a_batch(op):
            raise _not_by_rows(op, "mixes the rows of a batch")


def _not_by_rows(op: Operation, what: str) -> LaminarError:
    where = f"'{op.call.path}'" if op.call.path else "the model"
    return LaminarError(
        "L012",
        f"{where} {what} ({op.call.target.removeprefix('torch.ops.')}), and a pipeline has only micro-batches at a time",
        hint='microbatches = 1 has whole batches; or strategy = "sync", or a mesh',
    )


def refuse_two_writers(flow: Flow, plan: Plan) -> None:
    """A buffer that two lanes write into would be another one in each."""
    lanes: dict[str, dict[int, str]] = {}
    for stage in plan.stages:
        for op in (flow.operations[i] for i in stage.operations):
            for node in written(op):
                if node in flow.placed.traced.tensors:
                    lanes.setdefault(flow.placed.traced.tensors[node], {})[stage.lane] = op.call.path
    for name, found in lanes.items():
        if len(found) > 1:
            raise LaminarError(
                "L012",
                f"'{name}' is written into in {len(found)} places that are with different workers ({', '.join(map(repr, found.values()))})",
                hint="freeze the module, give each place a module of its own, or cut so that both are in one stage",
            )


def _refuse_outputs_apart(fit: Plan, test: Plan) -> None:
    """The worker with the targets must have the outputs, in training and in tests."""
    lanes = [plan.stages[plan.last].lane for plan in (fit, test)]
    if lanes[0] != lanes[1]:
        raise LaminarError(
            "L012",
            f"lane {lanes[0]} computes the model's output in training, but lane {lanes[1]} in tests: its forward ends "
            "in different modules in train() and in eval()",
            hint='cut the model so that one stage has both, or use strategy = "sync" or a mesh',
        )


def _refuse_fixed_output(flow: Flow) -> None:
    if flow.maker.get(flow.placed.traced.output) in flow.anywhere:
        raise LaminarError(
            "L012",
            "the model's output does not depend on its samples, so there is nothing to cut into stages",
            hint='strategy = "sync", or a mesh',
        )


def _pipeline(flow: Flow, judged: Flow, costs: Sequence[Cost], how: Pipeline, rows: int, kept: Sequence[str]) -> tuple[Plan, Plan]:
    """`kept`: the model's modules, where the features of some are kept: what is left of it may have fewer operators than stages, and the
    first stages have none then."""
    some = [i for i in range(len(flow.operations)) if i not in flow.anywhere]
    tolls = [_toll(flow, i, rows, how) for i in some]
    if how.cut:
        cut = _by_hand(flow, some, tolls, how.cut, kept)
    else:
        try:
            cut = cut_evenly([costs[i].both for i in some], tolls, how.depth)
        except TooFew as error:
            if not kept:
                hint = f"stages = {error.most} or fewer: it has no more operators"
                raise LaminarError("L012", f"the model cannot be cut into {how.depth} stages", hint=hint) from None
            empty = how.depth - error.most
            cut = [empty + stage for stage in cut_evenly([costs[i].both for i in some], tolls, error.most)]
    stage_of: list[int | None] = [None] * len(flow.operations)
    for i, stage in zip(some, cut, strict=True):
        stage_of[i] = stage
    lane_of = [stage % how.lanes for stage in range(how.depth)]
    fit = make_plan(flow, stage_of, lane_of, how.lanes)
    return fit, make_plan(judged, _like_training(judged, fit), lane_of, how.lanes)


def _toll(flow: Flow, place: int, rows: int, how: Staged) -> float | None:
    """Seconds to hand over, there and back, what is needed behind a place; None if that cannot be sent."""
    values = flow.crossing[place]
    if any(flow.several(value) for value in values):
        return None
    return sum(sending(_bytes(flow.placed, value, rows), how.link) * (2 if value in flow.learns else 1) for value in values)


def _bytes(placed: Placed, value: Value, rows: int) -> int:
    at = dict.fromkeys(placed.mesh, 0)
    return math.prod(local_sizes(placed.values[value][0], at, placed.mesh, rows)) * placed.traced.dtypes[value][0].itemsize


def _by_hand(flow: Flow, some: Sequence[int], tolls: Sequence[float | None], cut: Sequence[str], kept: Sequence[str]) -> list[int]:
    paths = sorted({flow.operations[i].call.path for i in some if flow.operations[i].call.path})
    begins: list[int] = []
    for path in cut:
        inside = [k for k, i in enumerate(some) if f"{flow.operations[i].call.path}.".startswith(f"{path}.")]
        if not inside and path in kept:
            begins.append(0)
            continue
        if not inside:
            what = f"strategy.cut has '{path}', which no operator comes from; {did_you_mean(path, paths)}"
            raise LaminarError("L012", what, hint="laminar show --split")
        if inside[0] <= max(begins, default=0) and not kept:
            other = f"'{cut[len(begins) - 1]}'" if begins else "the first operator"
            what = f"strategy.cut has '{path}', which does not come behind {other}"
            raise LaminarError("L012", what, hint="list them in the order they run in")
        if tolls[inside[0]] is None:
            what = f"strategy.cut has '{path}', before which a row of tensors would be cut apart"
            raise LaminarError("L012", what, hint="cut before another module")
        begins.append(inside[0])
    return [sum(k >= begin for begin in begins) for k in range(len(some))]


def _like_training(judged: Flow, fit: Plan) -> list[int | None]:
    """The stage of each operator of the judged model: where its tensors are, and never before what it needs. The outputs are made by the
    stage that makes them in training, whose lane is the one that compares them with the targets."""
    stages: dict[str, list[int]] = {}
    for number, stage in enumerate(fit.stages):
        for name in stage.tensors:
            stages.setdefault(name, []).append(number)
    output = judged.maker[judged.placed.traced.output]
    if judged.operations[output].run == "item":
        output = judged.maker[judged.operations[output].operands[0]]
    found: list[int | None] = []
    at = 0
    for i, op in enumerate(judged.operations):
        if i in judged.anywhere:
            found.append(None)
            continue
        known = [number for name in judged.tensors([i]) for number in stages.get(name, ()) if number >= at]
        at = min(known, default=at)
        if i == output:
            at = max(at, fit.last)
        found.append(found[judged.maker[op.operands[0]]] if op.run == "item" else at)
    return found


def _branches(flow: Flow, judged: Flow, costs: Sequence[Cost], how: Branches, rows: int) -> tuple[Plan, Plan]:
    blocks = find_blocks(flow)
    widest = max((len(block.branches) for block in blocks), default=1)
    if widest < how.lanes:
        what = f"at most {widest} branches side by side" if blocks else "no branches side by side"
        hint = f"lanes = {widest}" if blocks else 'strategy = { kind = "pipeline", stages = 2 } cuts it across'
        raise LaminarError("L012", f"the model has {what}, and there are {how.lanes} lanes", hint=hint)
    lane_of: dict[int, int] = {}
    among = {i for block in blocks for branch in block.branches for i in branch}
    left = [sum(cost.weights for i, cost in enumerate(costs) if i not in among), *[0.0] * (how.lanes - 1)]
    spent = [[_spent(flow, branch, costs, how, rows) for branch in block.branches] for block in blocks]
    for block, dealt in zip(blocks, deal(spent, left), strict=True):
        for branch, lane in zip(block.branches, dealt, strict=True):
            lane_of |= dict.fromkeys(branch, lane)
    fit = make_plan(flow, *stages_of(flow, lane_of), how.lanes)
    return fit, make_plan(judged, *stages_of(judged, _same_lanes(flow, judged, lane_of, fit)), how.lanes)


def _spent(flow: Flow, branch: Sequence[int], costs: Sequence[Cost], how: Branches, rows: int) -> Spent:
    own = set(branch)
    needed = [value for value, maker in flow.needs(flow.with_what_they_need(branch)).items() if maker not in own]
    given = [flow.operations[i].call.name for i in branch if not own.issuperset(flow.users.get(flow.operations[i].call.name, ()))]
    values = [value for value in [*needed, *given] if not flow.several(value)]
    toll = sum(sending(_bytes(flow.placed, value, rows), how.link) for value in values)
    forward, inputs, weights = (sum(getattr(costs[i], way) for i in branch) for way in ("forward", "inputs", "weights"))
    return Spent(forward, inputs, weights, toll)


def _same_lanes(flow: Flow, judged: Flow, lane_of: Mapping[int, int], fit: Plan) -> dict[int, int]:
    """The lanes of the operators in tests: where their tensors are, else where operators of the same module were; the output has the lane
    that it has in training."""
    by_path = {op.call.path: lane_of.get(i, 0) for i, op in enumerate(flow.operations)}
    holders = fit.holders()
    found = {}
    for i, op in enumerate(judged.operations):
        lanes = [holders[name][0] for name in judged.tensors([i]) if name in holders]
        found[i] = lanes[0] if lanes else by_path.get(op.call.path, 0)
    output = judged.maker[judged.placed.traced.output]
    if judged.operations[output].run == "item":
        output = judged.maker[judged.operations[output].operands[0]]
    found[output] = fit.stages[fit.last].lane
    return found

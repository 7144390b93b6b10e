"""Net: a model whose operator is split over workers gives what one process gives, or a reason is told why it cannot be split so.

A case is an operator with arguments (split_cases.py), in a model that makes its input and takes what it gives; a mesh, and dimensions on
its axes. The model is traced, placed, sent as JSON, and run by all workers of the mesh as threads, with the executor's own code: outputs,
all gradients and buffers are held against one process, and the bytes that were sent against those that are told beforehand. Every sixth
case is a pipeline, or branches. Several splits of one traced model follow each other, since tracing takes longest.
"""

from __future__ import annotations

import copy
import json
import random
import tempfile
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

import torch
from torch import Tensor
from torch.nn import functional as F

from laminar.core.errors import LaminarError
from laminar.data.dataset import Dataset, Split
from laminar.parallel.split.calls import Traced
from laminar.parallel.split.dims import part_of
from laminar.parallel.split.grid import Grid
from laminar.parallel.split.kernels import Here
from laminar.parallel.split.line import Line
from laminar.parallel.split.module import split_model
from laminar.parallel.split.place import Placed, Seen, look_at, place
from laminar.parallel.split.rules import Rules
from laminar.parallel.split.trace import trace
from laminar.parallel.split.traffic import traffic
from laminar.parallel.stages.flow import Flow
from laminar.parallel.stages.member import make_team
from laminar.parallel.stages.posts import routes
from laminar.parallel.stages.prepare import Prepared, prepare
from laminar.parallel.stages.traffic import lane_traffic
from laminar.plan.profile.one_operator import Site
from laminar.plan.profile.patterns import look
from laminar.testing.thread_lines import ThreadPost, on_every_worker
from laminar.train.job import Job
from laminar.train.recipe import Recipe
from laminar.train.splitting import LANES, Branches, Pipeline
from laminar.train.tensor_file import Later
from tests.nets.split_cases import CLASSES, DIMENSIONS, DRAW, OTHERS, ROWS, Around, Case, drawn

EACH: Final = 6  # cases with one model, the last of which is in stages
NAMES: Final = [*DRAW, *OTHERS]
REFUSED: Final = ("L012", "L209")  # what a strategy may refuse a model with
EXACT: Final = 1e-9  # how far apart results may be: of doubles …
ROUNDED: Final = 2e-4  # … and where there are floats


@lru_cache(2)
def _traced(number: int) -> tuple[str, Case, Around, Tensor, Traced, Seen]:
    name, case, model, x = drawn(number, NAMES)
    names = {id(tensor): name for name, tensor in [*model.named_parameters(), *model.named_buffers()]}
    traced = trace(model, [x], lambda tensor: names[id(tensor)], training=True)
    return name, case, model, x, traced, look_at(traced)


def check(seed: int) -> str:
    torch.set_num_threads(1)
    number, turn = divmod(seed, EACH)
    r = random.Random(seed)
    shown = f"seed {seed}"
    try:
        name, case, model, x, traced, seen = _traced(number)
        shown = f"seed {seed}: {case}"
        torch.manual_seed(seed)
        y = torch.randint(0, CLASSES, (len(x),))
        if turn == EACH - 1:
            how = _stages(r, case)
            shown += f" {how}"
            return _in_stages(model, x, y, how)
        if turn == 1:
            _planned(model, x, traced)
        rules = _rules(r, case)
        shown += f" {rules}"
        placed = place(traced, rules, seen=seen)
        parts = {op.call.schema.name.split("::")[-1] for op in placed.operations if op.run not in ("item", "whole")}
        rounded = torch.float32 in [dtype for some in traced.dtypes.values() for dtype in some]
        _on_mesh(model, x, y, rules, placed, ROUNDED if rounded else EXACT)
        return "split" if name in parts else "whole"
    except LaminarError as error:
        if error.code not in REFUSED or not error.message or not error.hint:
            raise AssertionError(f"{shown}: {error}") from error
        return "refused"
    except Exception as error:
        raise AssertionError(f"{shown}: {type(error).__name__}: {error}") from error


def _planned(model: Around, x: Tensor, traced: Traced) -> None:
    """What a planner looks into before it prices anything."""
    placed = place(traced, Rules({}))
    flow = Flow(placed, {name for name, _ in model.named_parameters()})
    tensors = dict([*model.named_parameters(), *model.named_buffers()]) | traced.constants
    seen = look(flow, tensors, [x[:2]])
    site = Site(placed, {}, len(x), seen.patterns, flow.learns)
    for op in placed.operations:
        json.dumps(site.key(op), allow_nan=False)


def _rules(r: random.Random, case: Case) -> Rules:
    mesh = r.choice([{"a": 2}, {"a": 2}, {"a": 3}, {"a": 4}, {"a": 2, "b": 2}, {"a": 2, "b": 1}])
    names = [*DIMENSIONS[case.kind], *(["vocab"] if "embedding" in str(case.overload) else []), "classes"]

    def table() -> dict[str, str]:
        axes = [*mesh, r.choice(list(mesh))] if r.random() < 0.2 else list(mesh)
        return dict(zip(r.sample(names, len(axes)), axes, strict=False))

    modules = {path: table() for path in r.sample(["called", "before", "trunk"], r.choice([0, 0, 0, 1, 2]))}
    return Rules(mesh, table(), modules)


def _trained(model: torch.nn.Module, x: Tensor, y: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
    """Outputs of one process, gradients and buffers."""
    alone = copy.deepcopy(model)
    out = alone(x)
    F.cross_entropy(out, y).backward()
    grads = {name: p.grad if p.grad is not None else torch.zeros_like(p) for name, p in alone.named_parameters()}
    return out.detach(), grads | dict(alone.named_buffers())


def _on_mesh(model: Around, x: Tensor, y: Tensor, rules: Rules, placed: Placed, close: float) -> None:
    grid, axis = Grid(rules.mesh), rules.split.get("batch")
    learned = {name for name, _ in model.named_parameters()}
    sent_to_workers = json.dumps(placed.to_json())

    def work(rank: int, lines: dict[str, Line]) -> tuple[range, Tensor, dict[str, Tensor]]:
        here = Here(grid.mesh, grid.at(rank), lines)
        own = copy.deepcopy(model)
        received = Placed.from_json(json.loads(sent_to_workers))
        module, parts, partial = split_model(own, received, received, here)
        module.rows = len(x)
        mine = part_of(len(x), here.at[axis], grid.mesh[axis]) if axis else range(len(x))
        told = traffic(placed, here.at, len(x), lambda name: name in learned)
        before = sum(line.sent for line in lines.values())
        out = module(x[mine.start : mine.stop])
        forward = sum(one.forward for one in [*told.operators, told.output])
        sent = sum(line.sent for line in lines.values()) - before
        assert sent == forward, f"sent {sent} bytes on the way there, told {forward}"
        loss = F.cross_entropy(out, y[mine.start : mine.stop]) * (len(mine) / len(x)) if len(mine) else out.sum() * 0
        loss.backward()
        found: dict[str, Tensor] = {}
        with torch.no_grad():
            for name, p in own.named_parameters():
                grad = p.grad
                for one in partial.get(name, ()) if grad is not None else ():
                    grad = lines[one].sum(grad) if lines[one].size > 1 else grad
                found[name] = grad if grad is not None else torch.zeros_like(p)
            sent = sum(line.sent for line in lines.values()) - before
            assert sent == told.step, f"sent {sent} bytes in a step, told {told.step}"
            found = {name: parts.whole(name, value) for name, value in [*found.items(), *own.named_buffers()]}
        return mine, out.detach(), found

    wanted, others = _trained(model, x, y)
    for mine, out, found in on_every_worker(grid, work):
        _same("outputs", out, wanted[mine.start : mine.stop], close)
        for name, theirs in others.items():
            _same(name, found[name], theirs, close)


def _same(name: str, mine: Tensor, theirs: Tensor, close: float = ROUNDED) -> None:
    torch.testing.assert_close(mine, theirs, atol=close, rtol=close, msg=lambda said: f"{name}: {said}")


def _stages(r: random.Random, case: Case) -> Pipeline | Branches:
    mesh, table = r.choice([({}, {}), ({}, {}), ({"a": 2}, {"batch": "a"}), ({"a": 2}, {DIMENSIONS[case.kind][1]: "a"})])
    if r.random() < 0.25:
        return Branches(lanes=2, mesh=mesh, split=table)
    schedule = r.choice(["gpipe", "1f1b", "zero-bubble"])
    return Pipeline(
        stages=r.choice([2, 3]), microbatches=r.choice([1, 2, 3]), schedule=schedule, mesh=mesh, split=table, batch_norm="refuse"
    )


class _Losses:
    loss_of = staticmethod(F.cross_entropy)

    def learn(self, inputs: list[Tensor], targets: Tensor, share: float) -> tuple[Tensor, float]:
        raise AssertionError


class _Joined:
    def __init__(self, lines: dict[str, Line], posts: list[ThreadPost]) -> None:
        self.lines, self.posts = lines, posts

    def post(self, number: int) -> ThreadPost:
        return self.posts[number]


def _job(model: torch.nn.Module, x: Tensor, y: Tensor, how: Any) -> Job:
    some = Split(x.numpy(), y.numpy())
    recipe = Recipe(epochs=1, batch=ROWS, optimizer="sgd", momentum=0.0, lr=0.05, threads=1, strategy=how)
    return Job("layer", model, Dataset(some, some, tuple("abcdefghijkl")), recipe, None, Path(tempfile.gettempdir()), tensorboard=False)


def _in_stages(model: Around, x: Tensor, y: Tensor, how: Pipeline | Branches) -> str:
    model, x = copy.deepcopy(model).float(), x.float()
    prepared = prepare(_job(copy.deepcopy(model), x, y, how), how)
    sent = json.loads(json.dumps(prepared.to_json()))
    grid, posts = Grid(how.grid), [ThreadPost() for _ in routes(prepared, Grid(how.grid))]
    wanted, others = _trained(model, x, y)

    def work(rank: int, lines: dict[str, Line]) -> tuple[bool, Tensor | None, dict[str, Tensor], Tensor, slice]:
        job = _job(copy.deepcopy(model), x, y, how)
        kept = {name: p.detach().clone() for name, p in job.model.named_parameters()}
        team = make_team(job, how, grid, Prepared.from_json(sent), _Joined(lines, posts), rank)
        optimizer = team.optimizer(job.recipe, dict(job.model.named_parameters()))
        place_, parts = team.part
        mine = slice(len(x) * place_ // parts, len(x) * (place_ + 1) // parts)
        team.expect(len(x))
        at = grid.at(rank)
        told = lane_traffic(prepared, at.pop(LANES), at, len(x), how.parts, lambda name: name in optimizer.params).step
        before = team.sent
        outputs, loss = team.learn(_Losses(), [x[mine]], y[mine], (mine.stop - mine.start) / len(x))
        optimizer.step(0.05, loss=loss)
        bytes_ = team.sent - before - 8 * (3 + (parts > 1))  # whether to go on, what was sent, the loss along lanes and rows
        assert bytes_ == told, f"sent {bytes_} bytes in a step, told {told}"
        optimizer.zero_grad()
        found = {}
        for name, tensor in [*job.model.named_parameters(), *job.model.named_buffers()]:
            given = team.whole(name, tensor.detach())
            whole = (given.get() if isinstance(given, Later) else given).clone()
            found[name] = (kept[name] - whole) / 0.05 if name in kept and whole.shape == kept[name].shape else whole
        team.expect(len(x))
        assert job.test is not None
        with torch.no_grad():
            judged = job.test.module.eval()(x[mine])
        return team.counts, outputs, found, judged, mine

    with torch.no_grad():
        judged = _updated(copy.deepcopy(model), others)(x)
    counting = 0
    for rank, (counts, outputs, found, given, mine) in enumerate(on_every_worker(grid, work, posts)):
        assert counts == bool(given.numel()), "outputs in training and in judging are not with the same workers"
        if counts:
            counting += 1
            assert outputs is not None
            _same("outputs", outputs, wanted[mine])
            _same("judged", given, judged[mine])
        if rank == 0:
            for name, theirs in others.items():
                _same(name, found[name], theirs)
    assert counting
    return "branches" if isinstance(how, Branches) else "pipeline"


@torch.no_grad()
def _updated(model: Around, changes: dict[str, Tensor]) -> Around:
    """After a step, in evaluation."""
    model.eval()
    for name, p in model.named_parameters():
        p -= 0.05 * changes[name]
    for name, buffer in model.named_buffers():
        buffer.copy_(changes[name])
    return model

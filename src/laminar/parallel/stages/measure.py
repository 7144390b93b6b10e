"""Measure: how long each operator of a placed model takes, there and back, one at a time on some samples.

Nothing of the model is changed: operators that write do so into copies.
"""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any, Final

import torch
from torch import Tensor

from laminar.parallel.split.calls import Value, mapped
from laminar.parallel.split.kernels import Here, whole
from laminar.parallel.split.place import Operation
from laminar.parallel.split.weight_grads import APART
from laminar.parallel.stages.flow import Flow

ROUNDS: Final = 3  # the fastest of which counts: others were disturbed


@dataclass(frozen=True)
class Cost:
    """Seconds."""

    forward: float
    backward: float
    weights: float = 0.0  # of the latter: gradients that no other stage waits for

    @property
    def inputs(self) -> float:
        return self.backward - self.weights

    @property
    def both(self) -> float:
        return self.forward + self.backward


def measure(flow: Flow, tensors: Mapping[str, Tensor], examples: Sequence[Tensor], *, threads: int, rounds: int = ROUNDS) -> list[Cost]:
    """Of each operator, for as many samples as there are examples."""
    own = {name: tensor if isinstance(tensor, torch.nn.Parameter) else tensor.clone() for name, tensor in tensors.items()}
    own |= flow.placed.traced.constants
    with _threads(threads), torch.random.fork_rng(devices=[]):
        found = [_round(flow, own, examples) for _ in range(rounds)]
    return [_fastest(same) for same in zip(*found, strict=True)]


def _fastest(same: Sequence[Cost]) -> Cost:
    inputs, weights = min(one.inputs for one in same), min(one.weights for one in same)
    return Cost(min(one.forward for one in same), inputs + weights, weights)


def _round(flow: Flow, tensors: Mapping[str, Tensor], examples: Sequence[Tensor]) -> list[Cost]:
    traced, here = flow.placed.traced, Here({}, {}, {}, rows=len(examples[0]))
    values: dict[Value, Any] = dict(zip(traced.inputs, examples, strict=True))
    last = {node: i for i, op in enumerate(flow.operations) for node in op.operands}
    costs = []
    for i, op in enumerate(flow.operations):
        given = {
            node: _leaf(values[node] if node in values else tensors[traced.tensors[node]], node in flow.learns) for node in op.operands
        }
        cost, values[op.call.name] = _one(op, here, given, set(given).intersection(traced.tensors) if op.run in APART else set())
        costs.append(cost)
        for node in op.operands:
            if last[node] == i:
                values.pop(node, None)
    return costs


def _leaf(value: Any, learns: bool) -> Any:
    if isinstance(value, list | tuple):
        return [_leaf(one, learns) for one in value]
    found: Tensor = value.detach()
    return found.requires_grad_(learns and found.is_floating_point())


def _one(op: Operation, here: Here, given: dict[Value, Any], weights: Set[Value]) -> tuple[Cost, Any]:
    """`weights`: those whose gradients can wait (weight_grads.py)."""
    args = mapped(op.call.args, lambda one: given[one] if isinstance(one, Value) else one)
    if op.run == "item":
        return Cost(0.0, 0.0), args[0][args[1]]
    begin = time.perf_counter()
    found = whole(op, here, args, given)
    forward = time.perf_counter() - begin
    roots = [one for one in _listed(found) if one.requires_grad]
    if not roots:
        return Cost(forward, 0.0), found
    grads, times = [torch.ones_like(one) for one in roots], []
    for some in (given.keys() - weights, weights):
        leaves = [one for node in some for one in _listed(given[node]) if one.requires_grad]
        begin = time.perf_counter()
        if leaves:
            torch.autograd.grad(roots, leaves, grads, retain_graph=True, allow_unused=True)
        times.append(time.perf_counter() - begin)
    return Cost(forward, sum(times), times[1]), found


def _listed(value: Any) -> list[Tensor]:
    return list(value) if isinstance(value, list | tuple) else [value]


@contextlib.contextmanager
def _threads(count: int) -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def sending(bytes_: float, link: str) -> float:
    """Seconds that it takes to hand over so much: a copy into shared memory, or a socket's buffer. Orders of magnitude are enough here."""
    per_second = 4e9 if link == "memory" else 1e9
    return math.ceil(bytes_) / per_second

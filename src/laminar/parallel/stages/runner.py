"""Runner: one lane's part of a plan. Follows its orders, takes what comes, gives what was made, on the way there and back.

Every stage has an autograd graph of its own for each micro-batch: what it takes are leaves, and their gradients are what it sends back.
"""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, final

import torch
from torch import Tensor

from laminar.parallel.split.calls import Value
from laminar.parallel.split.dims import local_sizes
from laminar.parallel.split.kernels import Here
from laminar.parallel.split.place import Placed
from laminar.parallel.split.program import Program
from laminar.parallel.split.weight_grads import Job
from laminar.parallel.stages.plan import Edge, Plan, Stage
from laminar.parallel.stages.post import Inbox, Outbox
from laminar.parallel.stages.schedules import Action
from laminar.train.engine import give_back


@dataclass(frozen=True)
class Micro:
    """A micro-batch, as a worker has it."""

    inputs: Mapping[Value, Tensor]
    rows: int  # of all who share it
    loss: Callable[[Tensor], Tensor] | None = None  # of its outputs
    share: float = 1.0  # of the gradients of the step


class Span(NamedTuple):
    """When an action was under way, without waiting for what it takes."""

    action: Action
    begin: float
    end: float


@dataclass
class Held:
    """What a stage must remember of a micro-batch until its gradients come."""

    leaves: dict[Value, Tensor]
    given: dict[Value, Tensor]
    loss: Tensor | None = None


@dataclass
class Mail:
    """The ends of posts that a lane has."""

    values_in: dict[Edge, Inbox]
    values_out: dict[Edge, Outbox]
    grads_in: dict[Edge, Inbox]
    grads_out: dict[Edge, Outbox]

    @property
    def sent(self) -> int:
        return sum(box.sent for box in [*self.values_out.values(), *self.grads_out.values()])


@final
class Runner:
    def __init__(self, plan: Plan, placed: Placed, here: Here, lane: int, tensors: Mapping[str, Tensor], mail: Mail) -> None:
        self._plan, self._placed, self._here, self.mail = plan, placed, here, mail
        self._output, self._tensors = placed.traced.output, tensors
        self._takes: dict[int, list[Edge]] = {n: [] for n in range(len(plan.stages))}
        self._gives: dict[int, list[Edge]] = {n: [] for n in range(len(plan.stages))}
        for edge in plan.edges:
            self._takes[edge.taker].append(edge)
            self._gives[edge.source].append(edge)
        self._programs = {n: self._program(n, stage) for n, stage in enumerate(plan.stages) if stage.lane == lane}
        self.has_output = plan.stages[plan.last].lane == lane
        # Gradients of weights may fill the time in which others are waited for. Not where a tensor has gradients of several operators: they
        # would be added up in another order each time.
        operators = [placed.operations[i] for n in self._programs for i in plan.stages[n].operations]
        uses = Counter(placed.traced.tensors[node] for op in operators for node in op.operands if node in placed.traced.tensors)
        self._may_fill = max(uses.values(), default=0) <= 1
        self.spans: list[Span] = []
        self.began = 0.0

    def _program(self, number: int, stage: Stage) -> Program:
        gives = [*stage.gives, *([self._output] if number == self._plan.last else [])]
        return Program(self._placed, self._here, stage.operations, tuple(dict.fromkeys(gives)))

    def run(self, order: Sequence[Action], micros: Sequence[Micro]) -> tuple[list[Tensor], list[float]]:
        """Outputs and losses of the micro-batches, in order, where this lane has them."""
        self._micros: Sequence[Micro] = micros
        self._learning = any(action.kind != "forward" for action in order)
        self._held: dict[tuple[int, int], Held] = {}
        self._here_values: dict[tuple[Edge, int], Tensor] = {}
        self._here_grads: dict[tuple[Edge, int], Tensor] = {}
        self._outputs: dict[int, Tensor] = {}
        self._losses: dict[int, float] = {}
        self._received: list[Inbox] = []
        self._later: deque[tuple[Action, Job]] = deque()  # gradients of weights, in the order they are to be computed in
        self.spans, self.began = [], time.perf_counter()
        self._expect(order)
        for action in order:
            self._do(action)
        for inbox in self._received:  # only now: what was received is looked at on the way back, too
            inbox.release()
        outputs, losses = self._outputs, self._losses
        self._micros, self._outputs, self._received = [], {}, []  # nothing of a batch is kept until the next
        return [outputs[b] for b in sorted(outputs)], [losses[b] for b in sorted(losses)]

    def _expect(self, order: Sequence[Action]) -> None:
        for action in order:
            if action.kind == "forward":
                for edge in self._takes[action.stage]:
                    if edge in self.mail.values_in:
                        self.mail.values_in[edge].expect(*self._kind(edge.value, action.batch))
            elif action.kind != "weights":
                for edge in self._gives[action.stage]:
                    if edge in self.mail.grads_in:
                        self.mail.grads_in[edge].expect(*self._kind(edge.value, action.batch))

    def _kind(self, value: Value, batch: int) -> tuple[tuple[int, ...], torch.dtype]:
        (dims,) = self._placed.values[value]
        shape = local_sizes(dims, self._here.at, self._here.mesh, self._micros[batch].rows)
        return shape, self._placed.traced.dtypes[value][0]

    def _do(self, action: Action) -> None:
        if action.kind == "forward":
            began = self._forward(action.stage, action.batch)
        elif action.kind == "weights":
            began = time.perf_counter()
            while self._later and self._later[0][0] == action:
                self._later.popleft()[1]()
        else:
            began = self._backward(action)
        self.spans.append(Span(action, began, time.perf_counter()))

    # There

    def _forward(self, number: int, batch: int) -> float:
        stage, micro = self._plan.stages[number], self._micros[batch]
        given: dict[Value, Tensor] = {value: micro.inputs[value] for value in stage.inputs}
        leaves: dict[Value, Tensor] = {}
        for edge in self._takes[number]:
            taken = self._taken(edge, batch)
            if self._learning and edge.value in self._plan.learns:
                taken = leaves[edge.value] = taken.detach().requires_grad_()
            given[edge.value] = taken
        began = time.perf_counter()
        found = self._programs[number].run(given, self._tensors, micro.rows)
        for edge in self._gives[number]:
            value = found[edge.value].detach()
            if edge in self.mail.values_out:
                self.mail.values_out[edge].send(value)
            else:
                self._here_values[edge, batch] = value
        held = Held(leaves, {value: found[value] for value in stage.gives})
        if number == self._plan.last:
            self._end(found[self._output], micro, held, batch)
        if self._learning:
            self._held[number, batch] = held
        return began

    def _taken(self, edge: Edge, batch: int) -> Tensor:
        if edge not in self.mail.values_in:
            return self._here_values.pop((edge, batch))
        inbox = self.mail.values_in[edge]
        found = inbox.receive()
        if self._learning:
            self._received.append(inbox)
            return found
        found = found.clone()  # its place is needed for the next, while this may be on its way through views
        inbox.release()
        return found

    def _end(self, output: Tensor, micro: Micro, held: Held, batch: int) -> None:
        self._outputs[batch] = output.detach()
        if micro.loss is not None:
            held.loss = micro.loss(output)
            self._losses[batch] = float(held.loss.detach())

    # And back

    def _backward(self, action: Action) -> float:
        _, number, batch = action
        stage, held = self._plan.stages[number], self._held[number, batch]
        roots, grads = list[Tensor](), list[Any]()
        for value in stage.gives:
            if value in self._plan.learns:
                grad = self._gradient(number, value, batch)
                if held.given[value].requires_grad:  # not where the model itself detached it
                    roots.append(held.given[value])
                    grads.append(grad)
        if held.loss is not None:
            roots.append(held.loss)
            grads.append(torch.tensor(self._micros[batch].share, dtype=held.loss.dtype))
        began = time.perf_counter()
        if roots:
            give_back(roots, grads)
        for edge in self._takes[number]:
            if edge.value in held.leaves:
                leaf = held.leaves[edge.value]
                grad = leaf.grad if leaf.grad is not None else torch.zeros_like(leaf)
                if edge in self.mail.grads_out:
                    self.mail.grads_out[edge].send(grad)
                else:
                    self._here_grads[edge, batch] = grad
        if action.kind == "inputs" and self._here.weights is not None:
            self._later.extend((Action("weights", number, batch), job) for job in self._here.weights.left())
        del self._held[number, batch]
        return began

    def _gradient(self, number: int, value: Value, batch: int) -> Tensor:
        """From all who took the value, always added up in the same order."""
        total: Tensor | None = None
        for edge in self._gives[number]:
            if edge.value != value:
                continue
            if edge in self.mail.grads_in:
                inbox = self.mail.grads_in[edge]
                while self._may_fill and self._later and not inbox.arrived:
                    self._fill()
                part = inbox.receive()
                self._received.append(inbox)
            else:
                part = self._here_grads.pop((edge, batch))
            total = part if total is None else total + part
        assert total is not None
        return total

    def _fill(self) -> None:
        began = time.perf_counter()
        action, job = self._later.popleft()
        job()
        self.spans.append(Span(action, began, time.perf_counter()))

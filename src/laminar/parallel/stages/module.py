"""The module that a worker of a pipeline or of branches trains: its stages, one lane's part of what goes through the whole model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import final

import torch
from torch import Tensor, nn

from laminar.parallel.split.calls import Value
from laminar.parallel.split.line import Line
from laminar.parallel.stages.micro import Some, in_portions, micro_batches
from laminar.parallel.stages.orders import Orders
from laminar.parallel.stages.runner import Micro, Runner
from laminar.train.losses import LossOf


@final
class StagedModule(nn.Module):
    """`rows`, of the whole batch, are told before each call."""

    def __init__(
        self,
        fit: Runner,
        test: Runner,
        inputs: tuple[Sequence[Value], Sequence[Value]],
        orders: tuple[Orders, Orders],
        batches: int,
        most: int,
        rows: Line | None,
    ) -> None:
        """`inputs` and `orders`: of training and of judging. `batches`: micro-batches of a batch; `most`: rows of one."""
        super().__init__()
        self._fit, self._test = fit, test
        self._inputs, self._orders, self._batches = inputs, tuple(cache(one) for one in orders), batches
        self._place, self._parts = (rows.rank, rows.size) if rows is not None else (0, 1)
        self.rows = 0
        self._most = most
        self.spans: list[tuple[str, int, int, float, float]] = []  # of the last whole step
        self._largest = 0

    @property
    def has_output(self) -> bool:
        return self._fit.has_output

    @property
    def sent(self) -> int:
        return self._fit.mail.sent + self._test.mail.sent

    def forward(self, *inputs: Tensor) -> Tensor:
        """Outputs of the own rows, or nothing where another lane has them; as when the model is judged, without gradients."""
        some = in_portions(self.rows, self._most, place=self._place, parts=self._parts)
        micros = [Micro(_cut(self._inputs[1], inputs, one), one.rows) for one in some]
        outputs, _ = self._test.run(self._orders[1](len(micros)), micros)
        return torch.cat(outputs) if outputs else torch.empty(0)

    def learn(self, inputs: Sequence[Tensor], targets: Tensor, loss_of: LossOf, share: float) -> tuple[Tensor | None, float]:
        """Gradients of so much of the loss of the own rows; their outputs, and their loss."""
        some = micro_batches(self.rows, self._batches, place=self._place, parts=self._parts)
        count = max(1, len(targets))
        micros = [
            Micro(_cut(self._inputs[0], inputs, one), one.rows, _loss(loss_of, targets[one.own]), share * one.own_rows / count)
            for one in some
        ]
        outputs, losses = self._fit.run(self._orders[0](len(micros)), micros)
        if self.rows >= self._largest:
            self._largest = self.rows
            self.spans = [(*span.action, span.begin - self._fit.began, span.end - self._fit.began) for span in self._fit.spans]
        if not outputs:
            return None, 0.0
        loss = sum(loss * one.own_rows for loss, one in zip(losses, some, strict=True)) / count
        return (torch.cat(outputs) if len(targets) else None), loss


def _cut(names: Sequence[Value], inputs: Sequence[Tensor], some: Some) -> dict[Value, Tensor]:
    return {name: tensor[some.own] for name, tensor in zip(names, inputs, strict=True)}


def _loss(loss_of: LossOf, targets: Tensor) -> Callable[[Tensor], Tensor]:
    """Of no rows at all it is 0, where the mean over them is not a number."""
    return lambda outputs: loss_of(outputs, targets) if len(targets) else outputs.sum() * 0.0

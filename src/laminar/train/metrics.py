"""Metrics: the running figures of an epoch, and which figures a target may name."""

from __future__ import annotations

from typing import final

import torch
from torch import Tensor

from laminar.core.errors import LaminarError
from laminar.train.recipe import Target

PENDING = 32  # batches


@final
class Tally:
    """Loss and accuracy over the training batches of one epoch.

    Labels are compared for many batches at once: for small models, three tensor operations per step would be seen in the step's time.
    """

    def __init__(self, *, classes: bool) -> None:
        self.classes = classes
        self.seen = 0
        self._loss = 0.0
        self._hits = 0
        self._pending: list[tuple[Tensor, Tensor]] = []

    def add(self, outputs: Tensor, targets: Tensor, loss: float) -> None:
        count = targets.shape[0]
        self.seen += count
        self._loss += loss * count
        if self.classes:
            self._pending.append((outputs.detach(), targets))
            if len(self._pending) >= PENDING:
                self.settle()

    def settle(self) -> None:
        """Count what is pending, whose memory need not be kept any longer."""
        if self._pending:
            outputs, targets = zip(*self._pending, strict=True)
            self._pending.clear()
            self._hits += int((torch.cat(outputs).argmax(1) == torch.cat(targets)).sum())

    def metrics(self) -> dict[str, float]:
        self.settle()
        seen = max(1, self.seen)
        return {"loss": self._loss / seen} | ({"accuracy": self._hits / seen} if self.classes else {})

    def clear(self) -> None:
        self.load({"seen": 0, "loss": 0.0, "hits": 0})

    def state(self) -> dict[str, float]:
        self.settle()
        return {"seen": self.seen, "loss": self._loss, "hits": self._hits}

    def load(self, state: dict[str, float]) -> None:
        self._pending.clear()
        self.seen, self._loss, self._hits = int(state["seen"]), state["loss"], int(state["hits"])


def check_target(target: Target | None, task: str) -> None:
    """A target that this task never measures would never be reached: L004 before training, not a run to the last epoch."""
    measured = ("accuracy", "loss", "change") if task == "classification" else ("loss", "mae", "r2", "change")
    for name in target.figures() if target else {}:
        if name not in measured:
            raise LaminarError(
                "L004",
                f"target.{name} is given, but for {task} there are only {', '.join(measured)}",
                hint=f"write target = {{ {measured[0]} = … }}",
            )

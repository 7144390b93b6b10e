"""The trainer of a worker: a model whose tensors are pieces of flat rows, one for each server, and the gradients of its batches."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import final

import numpy as np
import torch
from torch import Tensor

from laminar.core.errors import LaminarError
from laminar.data.batches import Batches
from laminar.data.gather import Block, RowsOf
from laminar.parallel import buffer_row
from laminar.parallel.apart.plan import Plan
from laminar.parallel.apart.work import Task
from laminar.train.astray import model_failed
from laminar.train.job import Job
from laminar.train.lines import on_a_line
from laminar.train.losses import loss_name, make_loss
from laminar.train.metrics import Tally
from laminar.train.one_row import Rows
from laminar.train.schedules import learning_rate
from laminar.train.snapshot import buffers_of, trainable


@final
class Trainer:
    def __init__(self, job: Job, plan: Plan) -> None:
        self.job, self.plan = job, plan
        recipe, data = job.recipe, job.data
        self.layouts = [plan.layout(shard) for shard in range(len(plan.shards))]
        self.rows = [torch.zeros(layout.numel) for layout in self.layouts]
        params = trainable(job.model)
        self._params = [[params[part.name] for part in layout.parts] for layout in self.layouts]
        for layout, row in zip(self.layouts, self.rows, strict=True):
            for part in layout.parts:
                parameter = params[part.name]
                part.of(row).copy_(parameter.data)
                parameter.data = part.of(row)
        self.buffers = list(buffers_of(job).values())
        self._buffers_before = buffer_row.row_of(self.buffers)  # as the server has them
        self.tally = Tally(classes=data.classes is not None)
        self.rate = learning_rate(
            lr=recipe.rate, schedule=recipe.plan, warmup=recipe.warmup, epochs=recipe.epochs, steps_per_epoch=plan.batches
        )
        self._loss_of = make_loss(loss_name(recipe, data.task), label_smoothing=recipe.label_smoothing)
        self._batches = Batches(
            job.fit_route.inputs,
            data.train.y,
            batch=recipe.batch,
            seed=recipe.seed,
            augment=job.augment,
            epochs=recipe.epochs,
            row_bytes=data.train.x[:1].nbytes,
            background=plan.how.workers == 1,
        )
        # A worker that is alone gets all batches in their order, so they can be gathered before they are asked for. Others may join it.
        self._ahead = self._all_batches() if plan.how.workers == 1 else None
        self._position = 0  # batches behind, as the rate sees it
        self._next: tuple[int, int] | None = None  # epoch and batch that come next of those
        job.model.train()
        job.fit_route.module.train()
        if job.frozen is not None:
            job.frozen.keep()

    def batches(self, task: Task) -> Iterator[tuple[int, list[Tensor], Tensor]]:
        """Of a task: the number of the batch in its epoch, inputs, targets."""
        assert task.last is not None
        if self._ahead is not None and task.rows is None and self._next in (None, (task.epoch, task.first)):
            self._next = task.epoch, task.first
            while self._next < (task.epoch, task.last):
                yield next(self._ahead)
            return
        if self._ahead is not None:
            self._ahead = None
            self._batches.rest()
        for block in self._batches.some(task.epoch, task.first, task.last, None if task.rows is None else _just(*task.rows)):
            yield from _each(block)

    def _all_batches(self) -> Iterator[tuple[int, list[Tensor], Tensor]]:
        """From the one that is asked for first to the last of all."""
        while True:
            assert self._next is not None
            epoch, first = self._next
            for block in self._batches.epoch(epoch, first):
                for number, inputs, targets in _each(block):
                    self._next = (epoch, number + 1) if number + 1 < self._batches.count else (epoch + 1, 0)
                    yield number, inputs, targets

    def gradient(self, epoch: int, batch: int, inputs: Sequence[Tensor], targets: Tensor, *, position: int | None = None) -> float:
        """The loss; its gradients are the parameters' own, new ones: to add to old ones that are zero would take longer.

        `position`: batches that are behind the team; None: those before this one.
        """
        self._position = epoch * self.plan.batches + batch if position is None else position
        for some in self._params:
            for parameter in some:
                parameter.grad = None
        try:
            outputs = self.job.fit_route.module(*inputs)
            loss = self._loss_of(outputs, targets)
            value = loss.item()
            if not math.isfinite(value):
                raise self.diverged(f"the loss is {value}", epoch, batch)
            loss.backward()  # type: ignore[no-untyped-call]
        except LaminarError:
            raise
        except Exception as error:
            recipe, samples = self.job.recipe, len(self.job.data.train)
            rows = Rows(len(targets), min(recipe.batch, samples - batch * recipe.batch), samples)
            when = f"at batch {batch} of epoch {epoch} (counted from 0)"
            raise model_failed(error, when, recipe, rows, self.plan.how.workers)[1] from error
        self.tally.add(outputs, targets, value)
        return float(value)

    def diverged(self, what: str, epoch: int, batch: int) -> LaminarError:
        lr = self.rate(self._position)
        return LaminarError(
            "L601",
            f"{what} at batch {batch} of epoch {epoch} (counted from 0), where the learning rate was {lr:g}",
            hint=f"lower lr in train (it is {self.job.recipe.rate:g})" + (", or set clip = 1.0" if self.job.recipe.clip is None else ""),
        )

    def clip(self, limit: float | None) -> None:
        """All gradients together, as one process would."""
        if limit is None:
            return
        grads = [p.grad for some in self._params for p in some if p.grad is not None]
        norm = math.sqrt(sum(float(grad.double().square().sum()) for grad in grads))
        if not math.isfinite(norm):
            raise LaminarError("L601", f"the norm of the gradients is {norm}", hint="lower lr in train")
        if norm > limit and grads:
            torch._foreach_mul_(grads, limit / (norm + 1e-6))

    def grads(self, shard: int) -> list[Tensor | None]:
        """Of the last batch, for each tensor of the shard; None where it has none."""
        return [p.grad.to_dense() if p.grad is not None and p.grad.is_sparse else p.grad for p in self._params[shard]]

    def pieces(self, shard: int, row: Tensor) -> list[Tensor]:
        """The tensors of a shard in a row that has room for them."""
        return [part.of(row) for part in self.layouts[shard].parts]

    def told(self) -> dict[str, float]:
        """The tally since the last time."""
        found = self.tally.state()
        self.tally.clear()
        return found

    # Bytes

    def load_row(self, shard: int, data: memoryview) -> None:
        self.rows[shard].copy_(torch.frombuffer(data, dtype=torch.float32, count=self.layouts[shard].numel))

    def buffer_bytes(self) -> bytes:
        """Empty if the server has them already: most models have none, or such as never change."""
        if not self.buffers:
            return b""
        now = buffer_row.row_of(self.buffers)
        if torch.equal(now, self._buffers_before):
            return b""
        self._buffers_before = now
        return now.numpy().tobytes()

    def load_buffers(self, data: memoryview) -> None:
        load_buffers(self.buffers, data)
        self._buffers_before = buffer_row.row_of(self.buffers)


def _each(block: Block) -> Iterator[tuple[int, list[Tensor], Tensor]]:
    tensors = [torch.from_numpy(array) for array in (*block.x, block.y)]
    for number, rows in enumerate(block.slices, block.first):
        *inputs, targets = [tensor[rows] for tensor in tensors]
        yield number, [on_a_line(one) for one in inputs], targets


def _just(start: int, stop: int) -> RowsOf:
    return lambda _: slice(start, stop)


def load_buffers(buffers: Sequence[Tensor], data: memoryview) -> None:
    buffer_row.put_back(buffers, torch.from_numpy(np.frombuffer(data, dtype=np.float64).copy()))

"""The trainer of a worker: a model whose tensors are pieces of flat rows, one for each server, and the gradients of its batches."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import final

import numpy as np
import torch
from torch import Tensor

from laminar.core.errors import LaminarError
from laminar.data.batches import Batches
from laminar.data.gather import RowsOf
from laminar.model.author_errors import raised_at
from laminar.parallel.apart.plan import Plan
from laminar.parallel.apart.work import Task
from laminar.train.job import Job
from laminar.train.losses import loss_name, make_loss
from laminar.train.metrics import Tally
from laminar.train.schedules import learning_rate
from laminar.train.snapshot import buffers_of, trainable


@final
class Trainer:
    def __init__(self, job: Job, plan: Plan) -> None:
        self.job, self.plan = job, plan
        recipe, data = job.recipe, job.data
        self.layouts = [plan.layout(shard) for shard in range(len(plan.shards))]
        self.rows = [torch.zeros(layout.numel) for layout in self.layouts]
        self.grads = [torch.zeros(layout.numel) for layout in self.layouts]
        params = trainable(job.model)
        for layout, row, grad in zip(self.layouts, self.rows, self.grads, strict=True):
            for part in layout.parts:
                parameter = params[part.name]
                part.of(row).copy_(parameter.data)
                parameter.data = part.of(row)
                parameter.grad = part.of(grad)  # backward adds to it in place
        self.buffers = list(buffers_of(job).values())
        self._buffers_before = self._flat_buffers()  # as the server has them
        self._untouched = {
            name: parameter.register_post_accumulate_grad_hook(self._touched(name))  # type: ignore[no-untyped-call]
            for name, parameter in params.items()
        }
        self._seen_gradients: set[str] = set()
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
            background=False,
        )
        job.model.train()
        job.fit_route.module.train()
        if job.frozen is not None:
            job.frozen.keep()

    def batches(self, task: Task) -> Iterator[tuple[int, list[Tensor], Tensor]]:
        """Of a task: the number of the batch in its epoch, inputs, targets."""
        assert task.last is not None
        for block in self._batches.some(task.epoch, task.first, task.last, None if task.rows is None else _just(*task.rows)):
            tensors = [torch.from_numpy(array) for array in (*block.x, block.y)]
            for number, rows in enumerate(block.slices, block.first):
                *inputs, targets = [tensor[rows] for tensor in tensors]
                yield number, inputs, targets

    def _touched(self, name: str) -> Callable[[Tensor], None]:
        def hook(_: Tensor) -> None:
            self._seen_gradients.add(name)

        return hook

    def idle(self, shard: int) -> list[str]:
        """Tensors of the shard that never got a gradient."""
        return [part.name for part in self.layouts[shard].parts if part.name in self._untouched] if self._untouched else []

    def gradient(self, epoch: int, batch: int, inputs: Sequence[Tensor], targets: Tensor) -> float:
        """The loss; its gradients are in `grads`."""
        for grad in self.grads:
            grad.zero_()
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
            place, what = raised_at(error), f"{type(error).__name__}: {str(error).strip() or 'no message'}"
            raise LaminarError(
                "L606",
                f"the model failed at batch {batch} of epoch {epoch} (counted from 0){place and ', ' + place}: {what}",
                hint="correct the model's forward(); --debug shows the whole traceback",
            ) from error
        self.tally.add(outputs, targets, value)
        if self._seen_gradients:  # at first all of them; then nobody needs to be told any more
            for name in self._seen_gradients:
                self._untouched.pop(name).remove()
            self._seen_gradients.clear()
        return float(value)

    def diverged(self, what: str, epoch: int, batch: int) -> LaminarError:
        lr = self.rate(epoch * self.plan.batches + batch)
        return LaminarError(
            "L601",
            f"{what} at batch {batch} of epoch {epoch} (counted from 0), where the learning rate was {lr:g}",
            hint=f"lower lr in train (it is {self.job.recipe.rate:g})" + (", or set clip = 1.0" if self.job.recipe.clip is None else ""),
        )

    def clip(self, limit: float | None) -> None:
        """All gradients together, as one process would."""
        if limit is None:
            return
        norm = math.sqrt(sum(float(grad.double().square().sum()) for grad in self.grads))
        if norm > limit:
            for grad in self.grads:
                grad.mul_(limit / (norm + 1e-6))

    def told(self) -> dict[str, float]:
        """The tally since the last time."""
        found = self.tally.state()
        self.tally.clear()
        return found

    # Bytes

    def load_row(self, shard: int, data: memoryview) -> None:
        self.rows[shard].copy_(torch.frombuffer(data, dtype=torch.float32, count=self.layouts[shard].numel))

    def _flat_buffers(self) -> Tensor:
        """All of them as float64, one after the other: whole numbers are exact in it too."""
        return torch.cat([buffer.detach().double().reshape(-1) for buffer in self.buffers]) if self.buffers else torch.zeros(0).double()

    def buffer_bytes(self) -> bytes:
        """Empty if the server has them already: most models have none, or such as never change."""
        if not self.buffers:
            return b""
        now = self._flat_buffers()
        if torch.equal(now, self._buffers_before):
            return b""
        self._buffers_before = now
        return now.numpy().tobytes()

    def load_buffers(self, data: memoryview) -> None:
        load_buffers(self.buffers, data)
        self._buffers_before = self._flat_buffers()


def _just(start: int, stop: int) -> RowsOf:
    return lambda _: slice(start, stop)


@torch.no_grad()
def load_buffers(buffers: Sequence[Tensor], data: memoryview) -> None:
    values, at = torch.from_numpy(np.frombuffer(data, dtype=np.float64).copy()), 0
    for buffer in buffers:
        some = values[at : at + buffer.numel()].view(buffer.shape)
        buffer.copy_(some if buffer.is_floating_point() else some.round())
        at += buffer.numel()

"""Trainer: does a task. From a graph, numbers and data to the change that some steps make, the same on every machine up to rounding."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final, final

import msgspec
import numpy as np
import torch
from numpy.typing import NDArray
from safetensors.torch import load
from torch import Tensor

from laminar.core.errors import LaminarError
from laminar.data.batches import Batches
from laminar.data.dataset import Dataset
from laminar.grid.node.halfway import STREAM, Found, Halfway
from laminar.grid.node.sources import data_of
from laminar.grid.wire.messages import About, Task, Tested
from laminar.model.freeze import freeze
from laminar.model.graph import load_forms
from laminar.parallel import buffer_row
from laminar.parallel.compress.layout import Layout
from laminar.train.borrowed import seeded
from laminar.train.evaluate import BATCH, SUMS, figures, sums
from laminar.train.lines import on_a_line
from laminar.train.losses import loss_name, make_loss
from laminar.train.optimizers import Optimizer
from laminar.train.recipe import Recipe
from laminar.train.schedules import learning_rate

Files = Callable[[str], bytes]  # by sha256
LARGEST_LOSS: Final = 1e30  # that an answer may tell
ROW, BUFFERS = "row", "buffers"  # of what is kept halfway, beside the optimizer's state


@dataclass(frozen=True)
class Done:
    change: Tensor  # start - end, or the gradient; flat
    buffers: NDArray[np.float64]
    loss: float
    samples: int
    seconds: float
    tested: Tested | None  # of the model as it is after the steps


def recipe_of(about: About) -> Recipe:
    return msgspec.convert(about.recipe, Recipe, str_keys=True)


@final
class Trainer:
    """The model of a run, made once; its tensors are pieces of one flat row."""

    def __init__(self, about: About, files: Files) -> None:
        self.about, self.recipe = about, recipe_of(about)
        tensors: dict[str, Tensor] = load(files(about.fixed)) if about.fixed else {}
        tensors |= {name: torch.zeros(shape) for name, shape in about.parameters.items()}
        tensors |= {name: torch.zeros(shape) for name, shape in about.buffers.items() if name not in tensors}
        self.model = load_forms(files(about.graphs["train"]), files(about.graphs["eval"]), tensors, about.aliases)
        frozen = freeze(self.model, about.frozen)
        self.model.train()
        frozen.keep()
        self.layout = Layout.of(about.parameters)
        self.row, self.grad = torch.zeros(self.layout.numel), torch.zeros(self.layout.numel)
        self.params = dict(self.model.named_parameters())
        trained = {name for name, p in self.params.items() if p.requires_grad}
        if trained != set(about.parameters):
            odd = sorted(trained ^ set(about.parameters))
            raise LaminarError(
                "L504", f"the graph and the description differ in what is trained: {', '.join(odd[:3])}", hint="ban this server"
            )
        for part in self.layout.parts:
            self.params[part.name].data = part.of(self.row)
            self.params[part.name].grad = part.of(self.grad)
        buffers = dict(self.model.named_buffers())
        self.buffers = [buffers[name] for name in about.buffers]
        self._gathered: tuple[int, Dataset, Batches] | None = None  # of the last task: seed, data, batches

    @torch.no_grad()
    def load(self, version: bytes) -> None:
        numel = self.layout.numel
        self.row.numpy()[:] = np.frombuffer(version, dtype="<f4", count=numel)
        buffer_row.put_back(self.buffers, torch.from_numpy(np.frombuffer(version, dtype="<f8", offset=4 * numel).copy()))

    def do(
        self, task: Task, version: bytes, data: Dataset, pause: Callable[[], None] = lambda: None, halfway: Halfway | None = None
    ) -> Done:
        """`pause` is called before every step: it may wait, or raise to give up. `halfway`: where it is kept meanwhile."""
        began = time.monotonic()
        self.load(version)
        start = self.row.clone()
        loss_of = make_loss(loss_name(self.recipe, data.task), label_smoothing=self.recipe.label_smoothing)
        trained = {part.name: self.params[part.name] for part in self.layout.parts}
        optimizer = None if self.about.gradients else Optimizer(self.recipe, trained)
        rate = self._rates(task, data)
        losses, samples, behind = 0.0, 0, 0
        with seeded(task.seed):
            if optimizer is not None and halfway is not None and (found := halfway.found()) is not None:
                behind, losses, samples = found.behind.steps, found.behind.losses, found.behind.samples
                began -= found.behind.seconds
                self._resume(found, optimizer)
            for number, (x, y) in enumerate(self._batches(task, data, behind), behind):
                pause()
                self.grad.zero_()
                loss = loss_of(self.model(x), y)
                loss.backward()  # type: ignore[no-untyped-call]
                losses += loss.item()
                samples += len(y)
                if optimizer is not None:
                    self._clip()
                    optimizer.step(rate(number))
                    if halfway is not None and halfway.due:
                        so_far = {ROW: self.row, BUFFERS: buffer_row.row_of(self.buffers), **optimizer.tensors()}
                        halfway.keep(so_far, steps=number + 1, losses=losses, samples=samples, seconds=time.monotonic() - began)
        change = self.grad.clone() if optimizer is None else start - self.row
        mean = losses / task.steps
        if not math.isfinite(mean) or not _finite(change):
            raise LaminarError("L601", f"the loss of task {task.task} is {mean}", hint="lower lr in train")
        buffers, seconds = buffer_row.row_of(self.buffers).numpy(), time.monotonic() - began
        return Done(change, buffers, mean, samples, seconds, self._test(task, data, pause))

    def _test(self, task: Task, data: Dataset, pause: Callable[[], None]) -> Tested | None:
        """On the node's own test sample, where its data says how large that is. Its images are held out for all nodes alike: the split into
        training and test part does not depend on the sample's seed (data/split.py, data/fragments)."""
        sample = data_of(self.about, task.sample).sample
        if task.sample is None or sample is None or sample.test_per_class is None:
            return None
        x, y, objective = data.test.x, data.test.y, loss_name(self.recipe, data.task)
        added = [0.0] * SUMS
        for first in range(0, len(y), BATCH):
            pause()
            inputs, targets = np.array(x[first : first + BATCH]), np.array(y[first : first + BATCH])  # mapped ones cannot be written to
            own = sums(self.model, [inputs], targets, slice(0, len(targets)), task=data.task, loss=objective)
            added = [a + b for a, b in zip(added, own, strict=True)]
        found = figures(added, y, task=data.task)
        if not abs(found["loss"]) < LARGEST_LOSS:  # nor is it a number
            return None
        return Tested(samples=len(y), loss=found["loss"], accuracy=found["accuracy"])

    @torch.no_grad()
    def _resume(self, found: Found, optimizer: Optimizer) -> None:
        """Exactly where it was."""
        tensors = dict(found.tensors)
        self.row.copy_(tensors.pop(ROW))
        buffer_row.put_back(self.buffers, tensors.pop(BUFFERS))
        found.resume_streams()
        tensors.pop(STREAM)
        optimizer.load(tensors)

    def _clip(self) -> None:
        if self.recipe.clip is not None:
            norm = float(self.grad.norm())
            if norm > self.recipe.clip:
                self.grad.mul_(self.recipe.clip / (norm + 1e-6))

    def _rates(self, task: Task, data: Dataset) -> Callable[[int], float]:
        recipe, batches = self.recipe, batches_of(len(data.train), self.recipe.batch)
        rate = learning_rate(lr=recipe.rate, schedule=recipe.plan, warmup=recipe.warmup, epochs=recipe.epochs, steps_per_epoch=batches)
        start = int(task.progress * batches)
        return lambda step: rate(min(start + step, recipe.epochs * batches - 1))

    def _batches(self, task: Task, data: Dataset, behind: int) -> Iterator[tuple[Tensor, Tensor]]:
        """Those after the first `behind`."""
        batches = self._batches_of(task, data)
        whole = batches_of(len(data.train), self.recipe.batch)
        left, (epochs, first) = task.steps - behind, divmod(task.first + behind, whole)
        epoch = task.epoch + epochs
        while left:
            last = min(first + left, whole)
            for block in batches.some(epoch, first, last, None):
                x, y = torch.from_numpy(block.x[0]), torch.from_numpy(block.y)
                for rows in block.slices:
                    yield on_a_line(x[rows]), y[rows]
            left -= last - first
            epoch, first = epoch + 1, 0

    def _batches_of(self, task: Task, data: Dataset) -> Batches:
        """Those of the task before, where they are the same: the order of an epoch is drawn once."""
        seed = self.recipe.seed if task.sample is None else task.seed
        if self._gathered is None or self._gathered[0] != seed or self._gathered[1] is not data:
            augment = data_of(self.about, task.sample).augment
            batches = Batches(data.train.x, data.train.y, batch=self.recipe.batch, seed=seed, augment=augment, background=False)
            self._gathered = seed, data, batches
        return self._gathered[2]


def _finite(values: Tensor) -> bool:
    """A sum is finite only if all are; one that is not may also have grown too large."""
    return math.isfinite(float(values.sum())) or bool(torch.isfinite(values).all())


def batches_of(samples: int, batch: int) -> int:
    """As train/job.py has it: a last batch of one sample is left out."""
    whole, rest = divmod(samples, batch)
    return whole + (rest > 1 or (rest == 1 and whole == 0))

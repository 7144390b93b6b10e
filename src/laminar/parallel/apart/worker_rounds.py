"""A worker of rounds: quorum (a gradient of its part of the batch) and averaging (some steps of its own, and how far they led).

It waits for a round, answers it, and waits for the next. Between rounds a worker of averaging keeps its inner optimizer's state.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from typing import Final, final

import torch
from torch import Tensor

from laminar.core.clock import Clock
from laminar.parallel import buffer_row
from laminar.parallel.apart.calls import ALIVE_SECONDS, LEFT, Server
from laminar.parallel.apart.messages import Finished, Push, Round
from laminar.parallel.apart.numbers import OptimizerStep
from laminar.parallel.apart.own_state import OwnState, Saved
from laminar.parallel.apart.trainer import Trainer
from laminar.parallel.apart.work import Task
from laminar.parallel.compress.local_clip import Decaying
from laminar.parallel.restore import under
from laminar.train.strategies import Averaging

PLACE: Final = ("epoch", "batch", "samples", "batches", "total", "seconds")  # within a task


@final
class RoundsWorker:
    def __init__(self, trainer: Trainer, server: Server, own: OwnState, clock: Clock, leave: Callable[[], bool] = lambda: False) -> None:
        """`leave`: shall it go, even within a task?"""
        self.trainer, self.server, self.own, self.clock, self.leave = trainer, server, own, clock, leave
        plan, recipe = trainer.plan, trainer.job.recipe
        self.averaging = isinstance(plan.how, Averaging)
        self.compressor = plan.compressor(0)
        self.decaying = Decaying(trainer.layouts[0])
        self.inner: OptimizerStep | None = None
        if self.averaging:
            self.inner = OptimizerStep(recipe, trainer.rows[0], trainer.layouts[0], clip=None, by_tensor=True)
        self.start = torch.zeros_like(trainer.rows[0])
        self.said = self.kept_at = clock.monotonic()
        self.saved: Saved | None = None  # within a task, which may be the one that comes
        self.answered: tuple[Task, int, Push, memoryview, bytes] | None = None  # the last round
        self.batches = self.pushes = 0
        self.waited = 0.0  # seconds since the last push; before the first, others are only beginning

    def run(self) -> str:
        """Until there is nothing more to do; why that is."""
        self.saved = self.own.load()
        if self.saved is not None and self.saved.task is None:
            self._restore(self.saved)
            self.own.forget()
            self.saved = None
        while True:
            began = self.clock.monotonic()
            said, payload = self.server.wait()
            self.waited += self.clock.monotonic() - began if self.pushes else 0.0
            match said:
                case Finished():
                    if said.again:
                        self.own.save(self._tensors(), {})
                    return said.why
                case Round() if self.leave():
                    self.own.save(self._tensors(), {})
                    return LEFT
                case Round() if self.answered is not None and self.answered[:2] == (said.task, said.version):
                    self.server.answer(*self.answered[2:])  # the server was restarted before it could keep the answer
                case Round():
                    self._begin(said, payload)
                    if self.averaging and not self._distance(said):
                        return LEFT
                    if not self.averaging:
                        self._gradient(said)

    def _begin(self, said: Round, payload: memoryview) -> None:
        self.server.busy = said.task.number
        size = 4 * self.trainer.layouts[0].numel
        self.trainer.load_row(0, payload[:size])
        if said.buffers:
            self.trainer.load_buffers(payload[size:])

    def _gradient(self, said: Round) -> None:
        task, began = said.task, self.clock.monotonic()
        ((batch, inputs, targets),) = self.trainer.batches(task)
        loss = self.trainer.gradient(task.epoch, batch, inputs, targets)
        seconds = self.clock.monotonic() - began
        grads, gradient = self.trainer.grads(0), torch.zeros_like(self.trainer.rows[0])
        idle = [i for i, grad in enumerate(grads) if grad is None]
        for piece, grad in zip(self.trainer.pieces(0, gradient), grads, strict=True):
            if grad is not None:
                piece.copy_(grad)
        self._push(said, gradient, idle, len(targets), 1, loss, task.epoch + batch / self.trainer.plan.batches, seconds)

    def _distance(self, said: Round) -> bool:
        """Train apart; then tell how far it led, from where all began. False: it left before."""
        assert self.inner is not None
        trainer, row, task = self.trainer, self.trainer.rows[0], said.task
        self.start.copy_(row)
        start = zlib.crc32(row.numpy().tobytes())
        epoch, batch, samples, batches, total, seconds = task.epoch, task.first, 0, 0, 0.0, 0.0  # the next one, and what is behind
        if (saved := self.saved) is not None and saved.task == task and saved.start == start:  # it was interrupted within this very task
            self._restore(saved)
            row.copy_(saved.tensors["row"])
            buffer_row.put_back(trainer.buffers, saved.tensors["buffers"])
            epoch, batch, samples, batches, total, seconds = (saved.state[name] for name in PLACE)
            trainer.tally.load(saved.state["tally"])
        self.saved = None
        began, left = self.clock.monotonic() - seconds, self._all(task, epoch, batch)
        for epoch, batch, inputs, targets in left:
            position = self._position(task, batches)
            loss = trainer.gradient(epoch, batch, inputs, targets, position=position)
            trainer.clip(trainer.job.recipe.clip)
            self.inner.step_of(trainer.grads(0), trainer.rate(position))
            samples, batches, total = samples + len(targets), batches + 1, total + loss
            self.batches += 1
            now, leave = self.clock.monotonic(), self.leave()
            if leave or now - self.kept_at >= trainer.job.recipe.checkpoint_seconds:
                place = dict(zip(PLACE, (epoch, batch + 1, samples, batches, total, now - began), strict=True))
                halfway = {"row": row, "buffers": buffer_row.row_of(trainer.buffers)}
                self.own.save(self._tensors() | halfway, {**place, "tally": trainer.tally.state()}, task=task, start=start)
                self.kept_at = self.clock.monotonic()
            if leave:
                return False
            if now - self.said >= ALIVE_SECONDS:
                self.said = now
                if not self.server.still_here():
                    self.server.call()
        if not bool(torch.isfinite(row).all()):
            raise trainer.diverged("a parameter is no longer finite", epoch, batch)
        progress, seconds = epoch + (batch + 1) / trainer.plan.batches, self.clock.monotonic() - began
        self._push(said, torch.sub(self.start, row), [], samples, batches, total / max(1, batches), progress, seconds)
        self.own.forget()
        return True

    def _position(self, task: Task, behind: int) -> int:
        """Batches behind the whole team when so many of a task are behind its worker. All begin a round together and end it together, so
        schedules and warm-up go by this, and not by where the batches of one worker lie in the epoch."""
        plan, (i, n) = self.trainer.plan, task.part
        if task.last is None:
            own = plan.recipe.epochs * (plan.batches * (i + 1) // n - plan.batches * i // n)
            return min(behind * plan.steps // max(1, own), plan.steps - 1)
        begin, end = task.round
        return task.epoch * plan.batches + begin + behind * (end - begin) // (task.last - task.first)

    def _all(self, task: Task, epoch: int, batch: int) -> Iterator[tuple[int, int, list[Tensor], Tensor]]:
        """What is left of a task from a batch of an epoch on."""
        plan, (i, n) = self.trainer.plan, task.part
        first, last, epochs = task.first, task.last, epoch + 1
        if last is None:  # its part of all epochs
            first, last, epochs = plan.batches * i // n, plan.batches * (i + 1) // n, plan.recipe.epochs
        for at in range(epoch, epochs):
            begin = max(first, batch) if at == epoch else first
            for number, inputs, targets in self.trainer.batches(Task(number=0, epoch=at, first=begin, last=last)):
                yield at, number, inputs, targets

    def _push(
        self, said: Round, value: Tensor, idle: list[int], samples: int, batches: int, loss: float, progress: float, seconds: float
    ) -> None:
        weights = self.decaying.weights(self.trainer.rows[0], idle) if self.compressor.takes_momentum else None
        packet = self.compressor.encode(value, epoch_progress=progress, weights=weights)
        push = Push(
            sequence=said.task.number,
            base=said.version,
            work=samples,
            batches=batches,
            seconds=seconds,
            waited=self.waited,
            round=said.task.number,
            loss=loss,
            tally=self.trainer.told(),
            epoch=self.trainer.job.recipe.epochs - 1 if said.task.last is None else said.task.epoch,
            idle=idle,
            packet=packet.nbytes,
        )
        self.answered = said.task, said.version, push, packet.data, self.trainer.buffer_bytes()
        self.server.answer(*self.answered[2:])
        self.pushes, self.waited = self.pushes + 1, 0.0
        self.batches += not self.averaging

    def _tensors(self) -> dict[str, Tensor]:
        found = {f"residual/{name}": tensor for name, tensor in self.compressor.state().items()}
        inner = {} if self.inner is None else self.inner.state()
        found |= {"had": self.decaying.had()} if self.compressor.takes_momentum else {}
        return found | {f"inner/{name}": tensor for name, tensor in inner.items()}

    def _restore(self, saved: Saved) -> None:
        saved.load_rng()
        self.compressor.load(under(saved.tensors, "residual/"))
        if "had" in saved.tensors:
            self.decaying.load(saved.tensors["had"])
        if self.inner is not None:
            self.inner.load(under(saved.tensors, "inner/"))

"""A worker of downpour (Dean et al., NIPS 2012): its own steps all the time; gradients go to the servers and parameters come from them
every so many, while it goes on."""

from __future__ import annotations

from collections.abc import Callable
from typing import final

import torch

from laminar.core.clock import Clock
from laminar.parallel.apart.calls import ALIVE_SECONDS, LEFT
from laminar.parallel.apart.line import Line
from laminar.parallel.apart.messages import Finished, Push
from laminar.parallel.apart.numbers import OptimizerStep
from laminar.parallel.apart.own_state import OwnState
from laminar.parallel.apart.plan import plain_sgd
from laminar.parallel.apart.trainer import Trainer
from laminar.parallel.apart.unpushed import Gradients, Steps, Unpushed
from laminar.parallel.apart.work import Task
from laminar.parallel.compress.local_clip import Decaying
from laminar.parallel.restore import under
from laminar.train.strategies import Downpour


@final
class DownpourWorker:
    def __init__(self, trainer: Trainer, lines: list[Line], own: OwnState, clock: Clock, leave: Callable[[], bool] = lambda: False) -> None:
        """The lines are open. `leave`: shall it go, even within a unit?"""
        self.trainer, self.lines, self.own, self.clock, self.leave = trainer, lines, own, clock, leave
        plan, recipe = trainer.plan, trainer.job.recipe
        assert isinstance(plan.how, Downpour)
        self.how = plan.how
        self.compressors = [plan.compressor(shard) for shard in range(len(lines))]
        self.local_clip = plan.local_clip()
        self.decaying = [Decaying(layout) for layout in trainer.layouts]
        distances = plan.pushes_distances
        self.in_packets = self.compressors[0].takes_momentum and not distances
        rule = plain_sgd(recipe) if self.in_packets else recipe
        # What comes back before the next step makes a step of one's own useless.
        alone = self.how.n_fetch == 1 and not self.how.overlap and not distances
        layouts = trainer.layouts
        self.local = [OptimizerStep(rule, row, layouts[i], clip=None, by_tensor=True) for i, row in enumerate(trainer.rows) if not alone]
        self.clip = None if self.in_packets else recipe.clip
        self.unpushed: list[Unpushed] = [Steps(row) if distances else _sums(trainer, shard) for shard, row in enumerate(trainer.rows)]
        self.pending, self.losses = 0, 0.0
        self.batches = self.pushes = 0
        self.said = clock.monotonic()
        self.pushed: tuple[float, float] | None = None  # when it last pushed, and how long it had waited by then; None: it begins

    def run(self) -> str:
        """Until there is nothing more to do; why that is."""
        why = self._work()
        for line in self.lines:
            line.keep()  # a server that dies after this worker has left must not need its pushes again
        return why

    def _work(self) -> str:
        self._load()
        for line in self.lines:
            line.fetch()
        self._settle()
        if buffers := self.lines[0].buffers:
            # Statistics of a model that has learnt nothing would count as much as those of each worker that has been there for long
            self.trainer.load_buffers(memoryview(buffers))
        done: int | None = None
        while True:
            said = self.lines[0].ask(done)
            if isinstance(said, Finished):
                if said.again:
                    self._save()
                return said.why
            self.pushed = self.pushed or self._now()
            self._unit(said.task)
            for line in self.lines:
                line.settle()  # a unit is done when every server has it
            if self.leave():
                self._save()
                return LEFT
            done = said.task.number

    def _unit(self, task: Task) -> None:
        """Until its end, or until it is to leave: the server knows how much of it is done."""
        trainer, how = self.trainer, self.how
        assert task.last is not None
        for batch, inputs, targets in trainer.batches(task):
            for line, unpushed in zip(self.lines, self.unpushed, strict=True):
                unpushed.take(line)
            loss = trainer.gradient(task.epoch, batch, inputs, targets)
            trainer.clip(self.clip)
            rate = trainer.rate(task.epoch * trainer.plan.batches + batch)
            for shard, unpushed in enumerate(self.unpushed):
                grads = trainer.grads(shard)
                if self.local:
                    self.local[shard].step_of(grads, rate)
                unpushed.add(grads)
            self.batches += 1
            self.pending, self.losses = self.pending + 1, self.losses + loss
            fetch, leave = self.batches % how.n_fetch == 0, self.leave()
            last = batch + 1 == task.last
            if self.pending >= how.n_push or last or leave:
                # Where there are several servers, a unit is done when all of them have it.
                ask = last and not leave and len(self.lines) == 1
                self._push(task, task.epoch + batch / trainer.plan.batches, fetch=fetch, ask=ask)
            elif fetch:
                for line in self.lines:
                    line.fetch()
            self._still_here()
            if not how.overlap:
                self._settle()
            if leave:
                return

    def _still_here(self) -> None:
        """Where pushes are far apart."""
        now = self.clock.monotonic()
        if now - self.said >= ALIVE_SECONDS:
            self.said = now
            self.lines[0].alive()

    def _push(self, task: Task, progress: float, *, fetch: bool, ask: bool) -> None:
        """What was found since the last time. Of a sum of gradients a server with plain sgd makes the very steps that were made here."""
        trainer, tally, buffers = self.trainer, self.trainer.told(), self.trainer.buffer_bytes()
        before, self.pushed = self.pushed or self._now(), self._now()
        passed, waited = (now - then for now, then in zip(self.pushed, before, strict=True))
        bases = []
        for line, unpushed in zip(self.lines, self.unpushed, strict=True):
            line.settle()
            bases.append(line.base)
            unpushed.take(line)  # steps that it has must not be made again
        found = [unpushed.give() for unpushed in self.unpushed]
        weights = None
        if self.in_packets:
            each = zip(self.decaying, trainer.rows, self.unpushed, strict=True)
            weights = [decaying.weights(row, unpushed.idle) for decaying, row, unpushed in each]
        if self.local_clip is not None:
            self.local_clip(found, weights)
        for shard, line in enumerate(self.lines):
            packet = self.compressors[shard].encode(
                found[shard], epoch_progress=progress, weights=None if weights is None else weights[shard]
            )
            push = Push(
                sequence=0,
                base=0,
                work=1.0,
                batches=self.pending,
                seconds=max(0.0, passed - waited),
                waited=max(0.0, waited),
                unit=task.number,
                fetch=fetch,
                loss=self.losses / self.pending,
                tally=tally,
                epoch=task.epoch,
                idle=self.unpushed[shard].idle,
                ask=ask,
                packet=packet.nbytes,
            )
            line.push(push, packet.data, buffers if not shard else b"", bases[shard])
        self.pending, self.losses = 0, 0.0
        self.pushes += 1
        self.said = self.clock.monotonic()

    def _now(self) -> tuple[float, float]:
        return self.clock.monotonic(), sum(line.waited for line in self.lines)

    def _settle(self) -> None:
        for line, unpushed in zip(self.lines, self.unpushed, strict=True):
            line.settle()
            unpushed.take(line)

    def _save(self) -> None:
        tensors = {f"residual/{i}/{name}": t for i, made in enumerate(self.compressors) for name, t in made.state().items()}
        tensors |= {f"local/{i}/{name}": t for i, made in enumerate(self.local) for name, t in made.state().items()}
        tensors |= {f"had/{i}": made.had() for i, made in enumerate(self.decaying)} if self.in_packets else {}
        self.own.save(tensors, {})

    def _load(self) -> None:
        found = self.own.load()
        if found is not None:
            found.load_rng()
            for i, made in enumerate(self.compressors):
                made.load(under(found.tensors, f"residual/{i}/"))
            if self.in_packets:
                for i, decaying in enumerate(self.decaying):
                    decaying.load(found.tensors[f"had/{i}"])
            for i, local in enumerate(self.local):
                local.load(under(found.tensors, f"local/{i}/"))
            self.own.forget()


def _sums(trainer: Trainer, shard: int) -> Gradients:
    into = torch.zeros_like(trainer.rows[shard])
    return Gradients(trainer.rows[shard], trainer.pieces(shard, into), into)

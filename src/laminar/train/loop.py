"""The loop: one process trains one job. Reads top to bottom, and is what every other way to train is compared with.

Same job, same bits: random streams and the order of samples come from the recipe's seed, the learning rate from the number of the
step, and a run that was stopped anywhere goes on as if it had not been.

Beside it: backward.py (gradients of a step), dense.py (that they are dense), together.py (what a team does at once), beside.py (epochs
that somebody else tests), changes.py (how far weights went), saving.py (checkpoints), astray.py (how a run fails).
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from laminar.core.atomic import explaining_os_errors
from laminar.core.clock import Clock
from laminar.core.errors import LaminarError
from laminar.core.events import Emit, nowhere
from laminar.core.interrupts import Interrupts
from laminar.data.batches import Batches
from laminar.data.gather import Block
from laminar.train import borrowed, checkpoint, dtype
from laminar.train.astray import Astray
from laminar.train.backward import Backward
from laminar.train.beside import Beside, Ended
from laminar.train.changes import changes_of
from laminar.train.dense import make_dense, sparse_gradient
from laminar.train.evaluate import evaluate
from laminar.train.history import END, LISTEN_SECONDS, History, Untold
from laminar.train.isgd import Inconsistent
from laminar.train.job import Job, Trained
from laminar.train.lines import on_a_line
from laminar.train.losses import LossOf, guessing, loss_name, make_loss
from laminar.train.metrics import Tally, check_target
from laminar.train.misgivings import misgivings
from laminar.train.optimizers import Optimizer
from laminar.train.saving import Saving
from laminar.train.schedules import LearningRate, learning_rate
from laminar.train.snapshot import Run, belongs, frozen_state, trainable
from laminar.train.strategies import Sync, strategy
from laminar.train.together import Together


def train(job: Job, emit: Emit = nowhere) -> Trained:
    """Train `job.model` in place, from the checkpoint in its folder if there is one. Ctrl-C keeps the step that is under way."""
    recipe, data = job.recipe, job.data
    objective = loss_name(recipe, data.task)
    check_target(recipe.target, data.task)
    dtype.prepare(job.model, recipe)
    scale = dtype.LossScale() if recipe.dtype == "float16" else None
    team, params = job.team, trainable(job.model)
    changes = changes_of(params, team, asked=recipe.target is not None and recipe.target.change is not None)
    optimizer = Optimizer(recipe, params) if team is None else team.optimizer(recipe, params)
    run = Run(job, optimizer, scale, Tally(classes=data.classes is not None), job.frozen_told or frozen_state(job), changes)
    together = None if team is None or isinstance(optimizer, Optimizer) else Together(run, team, optimizer, job.clock)

    saved, notes = checkpoint.newest(job.folder)
    if saved is not None and not belongs(saved, job):
        notes.append(f"{saved.file} is of another recipe or of other data: training starts from its beginning")
        saved = None
    resumed: int | None = saved.state["progress"]["step"] if saved else None
    # Sums are split over threads, so a resumed run takes as many as it had: other threads, other bits.
    threads = recipe.threads or (saved.state["threads"] if saved else None)

    with contextlib.ExitStack() as held:
        held.callback(make_dense(optimizer.params.values()))
        held.enter_context(explaining_os_errors(job.folder))
        held.enter_context(borrowed.settings(threads))
        held.enter_context(borrowed.seeded(recipe.seed if team is None else team.seed(recipe.seed)))
        interrupts = held.enter_context(Interrupts())
        batches = held.enter_context(
            Batches(
                job.fit_route.inputs,
                data.train.y,
                batch=recipe.batch,
                seed=recipe.seed,
                augment=job.augment,
                epochs=recipe.epochs,
                row_bytes=data.train.x[:1].nbytes,  # kept features come in the order of the samples they were computed from
                rows=None if together is None else together.rows,
                background=team is None,
            )
        )
        rewind = None if saved is None or resumed is None else (saved.state["events"], resumed)
        history: History | Untold = Untold()  # but for member 0, who tells for all
        if team is None or not team.rank:
            history = held.enter_context(History(job.folder, job.name, emit, job.clock, tensorboard=job.tensorboard, rewind=rewind))
        loop = _Loop(
            run=run,
            objective=objective,
            loss_of=make_loss(objective, label_smoothing=recipe.label_smoothing),
            rate=learning_rate(
                lr=recipe.rate, schedule=recipe.plan, warmup=recipe.warmup, epochs=recipe.epochs, steps_per_epoch=job.steps_per_epoch
            ),
            batches=batches,
            together=together,
            history=history,
            interrupts=interrupts,
            clock=job.clock,
        )
        if saved is not None:
            run.restore(saved)
        loop.tell_start(resumed, notes)
        if not run.progress.stopped:
            loop.go()
        if interrupts.asked:
            raise KeyboardInterrupt
        history.board.close()
        if history.board.problem:
            notes.append(history.board.problem)

    at = run.progress
    guess = guessing(objective, data.train.y, data.test.y, classes=len(data.classes) if data.classes is not None else None)
    if early := at.early_end(recipe):
        notes.append(early)
    if at.repeated:
        notes.append(f"isgd took further steps on {at.repeated:,} of {at.step:,} batches, whose loss was out of control")
    if said := misgivings(loss=at.metrics["loss"], guess=guess, first=at.first, lr=recipe.rate):
        notes.append(said)
    return Trained(
        metrics=dict(at.metrics),
        seconds=at.seconds,
        epochs=at.epoch,
        steps=at.step,
        resumed_from=resumed,
        notes=notes,
        checkpoint_seconds=at.checkpoint_seconds,
    )


@dataclass
class _Loop:
    run: Run
    objective: str
    loss_of: LossOf
    rate: LearningRate
    batches: Batches
    together: Together | None  # None: alone
    history: History | Untold
    interrupts: Interrupts
    clock: Clock

    def __post_init__(self) -> None:
        self.job, self.recipe = self.run.job, self.run.job.recipe
        self.astray = Astray(self.run, self.rate, self.history)
        self.backward = Backward(self.run, self.astray)
        self.saving = Saving(self.run, self.astray, self.history, self.interrupts, self.clock, self.settle)
        team, how = self.job.team, strategy(self.recipe.strategy)
        evaluated = team is not None and isinstance(how, Sync) and how.evaluator
        self.beside = Beside(self.run, team, self.history, self.judged) if evaluated and team is not None else None
        self.listened = -math.inf

    def go(self) -> None:
        """Epoch after epoch, until there is a reason to stop."""
        at = self.run.progress
        self.saving.before = at.seconds
        if self.together is not None:
            self.together.begin()
        while not at.stopped:
            self.fit()
            self.judge()
            at.stopped = at.reason_to_stop(self.recipe)
            if not at.stopped:
                self.saving.if_due()
        self.saving.prove()
        at.metrics = {**at.metrics, "samples_per_second": at.samples / max(at.fit_seconds, 1e-9)}
        self.saving.count_seconds()
        self.history.tell("end", step=at.step, epoch=at.epoch, why=at.stopped, metrics=at.metrics, seconds=at.seconds)
        self.saving.save(END, proved=True)

    def fit(self) -> None:
        """The rest of an epoch."""
        at, recipe = self.run.progress, self.recipe
        optimizer, tally, history, together = self.run.optimizer, self.run.tally, self.history, self.together
        rate, monotonic, backward, saving = self.rate, self.clock.monotonic, self.backward, self.saving
        learn = self.learn if together is None else together.learning(self)
        inconsistent = Inconsistent(recipe, at, self.job.batches_per_epoch) if recipe.optimizer == "isgd" else None
        if self.run.changes is not None and not at.batch:
            self.run.changes.begin()
        _train_mode(self.job)
        tick, mean = monotonic(), 0.0  # the loss of a step of several batches is their mean
        for inputs, targets in self.each_batch():
            lr, (share, last) = rate(at.step), backward.part_of_step()
            rows = targets.shape[0]
            if together is not None:  # its members have parts of the batch, and some may have none of a short one
                whole = together.batch(last=last)
                share, rows = share * rows / whole, whole
            try:
                outputs, value = learn(inputs, targets, share)
                if outputs is not None:
                    tally.add(outputs, targets, value)
                mean += self.astray.finite(value) * share
                good = last and backward.ready()
            except LaminarError:
                raise
            except Exception as error:
                raise self.astray.failed(error, own=targets.shape[0], whole=rows) from error
            at.batch += 1
            at.samples += rows
            if not last:
                continue
            try:
                if together is not None:
                    mean, saving.wished = together.step(lr, mean, wish=saving.wish(), since=tick)
                elif good and isinstance(optimizer, Optimizer):
                    if inconsistent is None:
                        optimizer.step(lr)
                    else:
                        inconsistent.step(optimizer, lr, mean, partial(self.relearn, inputs, targets))
            except RuntimeError as error:
                if not sparse_gradient(optimizer.params):
                    raise
                raise self.astray.failed(error) from error
            optimizer.zero_grad()
            if at.first is None:
                at.first = mean
            history.step(at.step, at.epoch, mean, lr)
            at.step += 1
            now = monotonic()
            at.fit_seconds += now - tick
            at.epoch_seconds += now - tick
            if now - self.listened >= LISTEN_SECONDS:
                self.listened = now
                if self.beside is not None:
                    self.beside.hear()
                more = {} if together is None else {"team": together.pace()}
                history.listen(step=at.step - 1, steps=self.job.steps, epoch=at.epoch, epochs=recipe.epochs, loss=mean, lr=lr, **more)
            saving.if_due(now)
            tick, mean = monotonic(), 0.0

    def learn(self, inputs: list[Tensor], targets: Tensor, share: float) -> tuple[Tensor, float]:
        """There and back, with so much of the loss."""
        recipe = self.recipe
        with dtype.autocast(recipe.dtype) if recipe.dtype in dtype.HALVES else contextlib.nullcontext():
            outputs = self.job.fit_route.module(*inputs)
            loss = self.loss_of(outputs, targets)
        value = self.astray.finite(loss.item())
        self.backward.add(loss, share)
        return outputs, value

    def relearn(self, inputs: list[Tensor], targets: Tensor) -> float:
        """There and back again with a batch that has made its step: the loss now."""
        _, loss = self.learn(inputs, targets, 1.0)
        self.backward.ready()
        return loss

    def each_batch(self) -> Iterator[tuple[list[Tensor], Tensor]]:
        """What is left of the epoch. Blocks become tensors once, and batches are slices of those."""
        at, wanted = self.run.progress, dtype.of_tensors(self.recipe.dtype)
        left = self.job.batches_per_epoch - at.batch
        for block in self.blocks():
            blocks = [_floating(torch.from_numpy(array), wanted) for array in (*block.x, block.y)]
            for part in block.slices[:left]:
                *inputs, targets = [tensor[part] for tensor in blocks]
                yield [on_a_line(one) for one in inputs], targets
            left -= len(block.slices)

    def blocks(self) -> Iterator[Block]:
        at, together = self.run.progress, self.together
        if together is None or together.stretch() is None:
            yield from self.batches.epoch(at.epoch, start_batch=at.batch)
            return
        while (end := together.stretch()) is not None and at.batch < self.job.batches_per_epoch:
            # as far as its members know which rows are theirs
            yield from self.batches.some(at.epoch, at.batch, end, together.rows)

    def judge(self) -> None:
        """The end of an epoch: test, tell, and make ready for the next."""
        at, tally, together, beside = self.run.progress, self.run.tally, self.together, self.beside
        self.astray.check_finite()
        if together is not None:
            together.end_epoch()
        at.change = None if self.run.changes is None else self.run.changes.of_epoch()
        ended = {
            "epoch": at.epoch,
            "epochs": self.recipe.epochs,
            "step": at.step,
            "train": tally.metrics(),
            "seconds": at.epoch_seconds,
            "samples_per_second": tally.seen / max(at.epoch_seconds, 1e-9),
            "change": at.change,
            **({} if together is None else together.figures()),
        }
        if beside is None or not beside.takes(ended):
            began = self.clock.monotonic()
            metrics = self.tested()
            ended["test_seconds"] = self.clock.monotonic() - began
            self.judged(ended, metrics) if beside is None else beside.tested(ended, metrics)
        at.epoch, at.batch, at.epoch_seconds, at.epoch_sent, at.epoch_dense = at.epoch + 1, 0, 0.0, 0, 0
        tally.clear()
        if self.recipe.target is not None or self.recipe.patience is not None or at.epoch >= self.recipe.epochs:
            self.settle()  # what the figures are decides how it goes on

    def judged(self, ended: Ended, metrics: dict[str, float]) -> None:
        """An epoch was tested; with an evaluator it may be one of some time ago."""
        at = self.run.progress
        if not all(map(math.isfinite, metrics.values())):
            raise self.astray.diverged(f"the test split gives {metrics}", ended["step"])
        at.tested(ended["epoch"] + 1, metrics)
        self.history.epoch(**ended, test=metrics)

    def settle(self, *, hurry: bool = False) -> None:
        """All that was given to an evaluator is answered."""
        if self.beside is not None:
            self.beside.settle(self.tested, hurry=hurry)

    def tested(self) -> dict[str, float]:
        """Figures on the test split."""
        try:
            if self.together is not None:
                return self.together.tested(self.objective)
            route, data = self.job.test_route, self.job.data
            return evaluate(route.module, route.inputs, data.test.y, task=data.task, dtype=self.recipe.dtype, loss=self.objective)
        except LaminarError:
            raise
        except Exception as error:
            raise self.astray.failed(error) from error

    def tell_start(self, resumed: int | None, notes: list[str]) -> None:
        at = self.run.progress
        told = {"step": at.step, "steps": self.job.steps, "epoch": at.epoch, "epochs": self.recipe.epochs}
        if resumed is None:
            samples = len(self.job.data.train)
            self.history.tell("start", **told, samples=samples, threads=torch.get_num_threads(), dtype=self.recipe.dtype)
        else:
            self.astray.kept = resumed
            self.history.tell("resume", **told, why=f"goes on after step {resumed} of {self.job.steps}")
        for process in self.job.announce:
            self.history.tell("worker", **process)
        if self.job.earlier:
            self.history.recall(self.job.earlier)
        for note in notes:
            self.history.tell("note", why=note)


def _floating(tensor: Tensor, wanted: torch.dtype) -> Tensor:
    return tensor.to(wanted) if tensor.is_floating_point() else tensor


def _train_mode(job: Job) -> None:
    job.model.train()
    job.fit_route.module.train()
    if job.frozen is not None:
        job.frozen.keep()

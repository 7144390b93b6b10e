"""The loop: one process trains one job. Reads top to bottom, and is what every other way to train is compared with.

Same job, same bits: random streams and the order of samples come from the recipe's seed, the learning rate from the number of the
step, and a run that was stopped anywhere goes on as if it had not been.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from laminar.core.atomic import explaining_os_errors
from laminar.core.clock import Clock
from laminar.core.errors import LaminarError
from laminar.core.events import Emit, nowhere
from laminar.core.seeds import derive
from laminar.data.batches import Batches
from laminar.model.author_errors import raised_at
from laminar.train import borrowed, checkpoint, dtype
from laminar.train.evaluate import evaluate, figures, sums
from laminar.train.history import LISTEN_SECONDS, History, Untold
from laminar.train.job import Job, Trained
from laminar.train.losses import LossOf, guessing, loss_name, make_loss
from laminar.train.metrics import Tally, check_target
from laminar.train.misgivings import misgivings
from laminar.train.optimizers import Optimizer
from laminar.train.schedules import LearningRate, learning_rate
from laminar.train.snapshot import Run, belongs, buffers_of, frozen_state, trainable
from laminar.train.team import NOTHING, SAVE, STOP, TeamOptimizer, own_rows


def train(job: Job, emit: Emit = nowhere) -> Trained:
    """Train `job.model` in place, from the checkpoint in its folder if there is one. Ctrl-C keeps the step that is under way."""
    recipe, data = job.recipe, job.data
    objective = loss_name(recipe, data.task)
    check_target(recipe.target, data.task)
    dtype.prepare(job.model, recipe)
    scale = dtype.LossScale() if recipe.dtype == "float16" else None
    team, params = job.team, trainable(job.model)
    optimizer = Optimizer(recipe, params) if team is None else team.optimizer(recipe, params)
    run = Run(job, optimizer, scale, Tally(classes=data.classes is not None), frozen_state(job))

    saved, notes = checkpoint.newest(job.folder)
    if saved is not None and not belongs(saved, job):
        notes.append(f"{saved.file} is of another recipe or of other data: training starts from its beginning")
        saved = None
    resumed: int | None = saved.state["progress"]["step"] if saved else None
    # Sums are split over threads, so a resumed run takes as many as it had: other threads, other bits.
    threads = recipe.threads or (saved.state["threads"] if saved else None)

    with contextlib.ExitStack() as held:
        held.enter_context(explaining_os_errors(job.folder))
        held.enter_context(borrowed.settings(threads))
        held.enter_context(borrowed.seeded(recipe.seed if team is None or not team.rank else derive(recipe.seed, "member", team.rank)))
        interrupts = held.enter_context(borrowed.Interrupts())
        batches = held.enter_context(
            Batches(
                job.fit_route.inputs,
                data.train.y,
                batch=recipe.batch,
                seed=recipe.seed,
                augment=job.augment,
                epochs=recipe.epochs,
                row_bytes=data.train.x[:1].nbytes,  # kept features come in the order of the samples they were computed from
                part=None if team is None else (team.rank, team.size),
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
    if said := misgivings(loss=at.metrics["loss"], guess=guess, first=at.first, lr=recipe.rate):
        notes.append(said)
    return Trained(metrics=dict(at.metrics), seconds=at.seconds, epochs=at.epoch, steps=at.step, resumed_from=resumed, notes=notes)


@dataclass
class _Loop:
    run: Run
    objective: str
    loss_of: LossOf
    rate: LearningRate
    batches: Batches
    history: History | Untold
    interrupts: borrowed.Interrupts
    clock: Clock

    def __post_init__(self) -> None:
        self.job, self.recipe, self.team = self.run.job, self.run.job.recipe, self.run.job.team
        self.began = self.saved = self.clock.monotonic()
        self.before = self.run.progress.seconds
        self.listened = -math.inf
        self.kept: int | None = None  # step of the newest checkpoint
        self.shares: dict[float, Tensor] = {}
        self.wished = NOTHING  # by member 0 of the team, for after the step that was made
        self.heard = (0, 0, 0.0)  # steps, samples and seconds of fitting when listeners last heard of them

    def go(self) -> None:
        """Epoch after epoch, until there is a reason to stop."""
        at = self.run.progress
        self.before = at.seconds
        self.heard = at.step, at.samples, at.fit_seconds
        while not at.stopped:
            self.fit()
            self.judge()
            at.stopped = self.reason_to_stop()
            if not at.stopped:
                self.save_if_due()
        self.prove()
        at.metrics = {**at.metrics, "samples_per_second": at.samples / max(at.fit_seconds, 1e-9)}
        at.seconds = self.before + self.clock.monotonic() - self.began
        self.history.tell("end", step=at.step, epoch=at.epoch, why=at.stopped, metrics=at.metrics, seconds=at.seconds)
        self.save("end", proved=True)

    def fit(self) -> None:
        """The rest of an epoch."""
        at, recipe, module = self.run.progress, self.recipe, self.job.fit_route.module
        optimizer, tally, history, team = self.run.optimizer, self.run.tally, self.history, self.team
        loss_of, rate, monotonic = self.loss_of, self.rate, self.clock.monotonic
        half = recipe.dtype in dtype.HALVES
        _train_mode(self.job)
        tick, mean = monotonic(), 0.0  # the loss of a step of several batches is their mean
        for inputs, targets in self.each_batch():
            lr, (share, last) = rate(at.step), self.part_of_step()
            rows = targets.shape[0]
            if team is not None:  # its members have parts of the batch, and some may have none of a short one
                whole = min(recipe.batch, self.batches.samples - at.batch * recipe.batch)
                share, rows = share * rows / whole, whole
            try:
                if team is not None:
                    team.before_backward(last=last)
                if share:
                    with dtype.autocast(recipe.dtype) if half else contextlib.nullcontext():
                        outputs = module(*inputs)
                        loss = loss_of(outputs, targets)
                    value = loss.item()
                    if not math.isfinite(value):
                        raise self.diverged(f"the loss is {value}")
                    self.backward(loss, share)
                    tally.add(outputs, targets, value)
                    mean += value * share
                good = last and self.ready()
            except LaminarError:
                raise
            except Exception as error:
                raise self.failed(error) from error
            at.batch += 1
            at.samples += rows
            if not last:
                continue
            if not isinstance(optimizer, Optimizer):
                mean = self.step_together(optimizer, lr, mean)
            elif good:
                optimizer.step(lr)
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
                more = {} if team is None else {"team": self.pace()}
                history.listen(step=at.step - 1, steps=self.job.steps, epoch=at.epoch, epochs=recipe.epochs, loss=mean, lr=lr, **more)
            self.save_if_due(now)
            tick, mean = monotonic(), 0.0

    def step_together(self, optimizer: TeamOptimizer, lr: float, loss: float) -> float:
        """A step of the whole team; its loss."""
        at, wish = self.run.progress, NOTHING
        if self.team is not None and not self.team.rank:
            due = self.clock.monotonic() - self.saved >= self.recipe.checkpoint_seconds
            wish = STOP if self.interrupts.asked else SAVE if due else NOTHING
        made = optimizer.step(lr, loss=loss, epoch=at.epoch + (at.batch - 1) / self.job.batches_per_epoch, wish=wish)
        self.wished = made.wish
        at.sent += made.sent
        at.epoch_sent += made.sent
        at.epoch_dense += optimizer.dense_bytes or 0
        return made.loss

    def pace(self) -> dict[str, Any]:
        """Of the team, since listeners last heard of it."""
        at, (steps, samples, seconds) = self.run.progress, self.heard
        self.heard = at.step, at.samples, at.fit_seconds
        spent = max(at.fit_seconds - seconds, 1e-9)
        return {
            "workers": self.team.size if self.team is not None else 1,
            "steps_per_second": (at.step - steps) / spent,
            "samples_per_second": (at.samples - samples) / spent,
            "bytes": at.sent if self.sends else None,
            "staleness": None,
        }

    @property
    def sends(self) -> bool:
        """Do gradients go from process to process? In shared memory without compression they are just there."""
        optimizer = self.run.optimizer
        return not isinstance(optimizer, Optimizer) and optimizer.dense_bytes is not None

    def part_of_step(self) -> tuple[float, bool]:
        """The share that the batch under way has of its step, by its samples; and whether it is the last of it."""
        at, size, several = self.run.progress, self.recipe.batch, self.recipe.accumulate
        if several == 1:
            return 1.0, True
        batches = self.job.batches_per_epoch
        first = at.batch - at.batch % several
        behind = min(first + several, batches)
        samples = min(len(self.job.data.train), behind * size) - first * size
        return min(size, samples - (at.batch - first) * size) / samples, at.batch + 1 == behind

    def backward(self, loss: Tensor, share: float) -> None:
        """Gradients of so much of the loss; they are added up until the step is made."""
        if self.run.scale is not None:
            self.run.scale.backward(loss if share == 1 else loss * share)
        elif share == 1:
            loss.backward()  # type: ignore[no-untyped-call]
        else:
            if share not in self.shares:  # a multiplication less in the graph, at every step
                self.shares[share] = torch.tensor(share, dtype=loss.dtype)
            loss.backward(self.shares[share])  # type: ignore[no-untyped-call]

    def ready(self) -> bool:
        """Gradients, clipped. False: they overflowed float16, and this step is left out."""
        optimizer, scale, clip = self.run.optimizer, self.run.scale, self.recipe.clip
        if scale is not None and not scale.unscale(optimizer.gradients()):
            if scale.scale < 1:
                raise self.diverged("the gradients overflow float16 at any scale")
            return False
        if clip is not None and self.team is None:  # a team clips what it has summed up
            norm = float(nn.utils.clip_grad_norm_(optimizer.params.values(), clip))
            if not math.isfinite(norm):
                raise self.diverged(f"the norm of the gradients is {norm}")
        return True

    def each_batch(self) -> Iterator[tuple[list[Tensor], Tensor]]:
        """What is left of the epoch. Blocks become tensors once, and batches are slices of those."""
        at, wanted = self.run.progress, dtype.of_tensors(self.recipe.dtype)
        left = self.job.batches_per_epoch - at.batch
        for block in self.batches.epoch(at.epoch, start_batch=at.batch):
            blocks = [_floating(torch.from_numpy(array), wanted) for array in (*block.x, block.y)]
            for part in block.slices[:left]:
                *inputs, targets = [tensor[part] for tensor in blocks]
                yield inputs, targets
            left -= len(block.slices)
            self.run.tally.settle()  # the block's memory is used again

    def judge(self) -> None:
        """The end of an epoch: test, tell, and make ready for the next."""
        at, tally = self.run.progress, self.run.tally
        self.check_finite()
        try:
            at.metrics = self.tested()
        except LaminarError:
            raise
        except Exception as error:
            raise self.failed(error) from error
        if not all(map(math.isfinite, at.metrics.values())):
            raise self.diverged(f"the test split gives {at.metrics}")
        if self.team is not None:
            tally.load(dict(zip(tally.state(), self.team.sum(list(tally.state().values())), strict=True)))
        self.history.epoch(
            epoch=at.epoch,
            epochs=self.recipe.epochs,
            step=at.step,
            train=tally.metrics(),
            test=at.metrics,
            seconds=at.epoch_seconds,
            samples_per_second=tally.seen / max(at.epoch_seconds, 1e-9),
            **self.figures_of_team(),
        )
        at.epoch, at.batch, at.epoch_seconds, at.epoch_sent, at.epoch_dense = at.epoch + 1, 0, 0.0, 0, 0
        tally.clear()
        if at.best is None or at.metrics["loss"] < at.best:
            at.best, at.waited = at.metrics["loss"], 0
        else:
            at.waited += 1

    def figures_of_team(self) -> dict[str, Any]:
        at = self.run.progress
        if self.team is None:
            return {}
        sent = {"bytes": at.epoch_sent, "dense_bytes": at.epoch_dense} if self.sends else {"bytes": None, "dense_bytes": None}
        return {"workers": self.team.size, **sent}

    def tested(self) -> dict[str, float]:
        """Figures on the test split; a team shares it out."""
        route, data, team = self.job.test_route, self.job.data, self.team
        y, half, objective = data.test.y, self.recipe.dtype, self.objective
        if team is None:
            return evaluate(route.module, route.inputs, y, task=data.task, dtype=half, loss=objective)
        team.share_buffers(buffers_of(self.job))
        rows = own_rows(len(y), team.rank, team.size)
        own = sums(route.module, route.inputs, y, rows, task=data.task, dtype=half, loss=objective)
        return figures(team.sum(own), data.test.y, task=data.task)

    def reason_to_stop(self) -> str:
        at, recipe = self.run.progress, self.recipe
        if recipe.target is not None and recipe.target.reached(at.metrics):
            return f"target reached in epoch {at.epoch}"
        if at.epoch >= recipe.epochs:
            return "all epochs done"
        if recipe.patience is not None and at.waited >= recipe.patience:
            return f"no lower test loss for {at.waited} epochs"
        return ""

    def save_if_due(self, now: float | None = None) -> None:
        """A checkpoint after so many seconds, after so many steps where the job asks for that, and at Ctrl-C.

        All members of a team give their part to it, so they go by what member 0 wished when the step was made.
        """
        every, now = self.job.checkpoint_steps, self.clock.monotonic() if now is None else now
        if self.interrupts.asked if self.team is None else self.wished == STOP:
            self.save("interrupted")
            raise KeyboardInterrupt
        if now - self.saved >= self.recipe.checkpoint_seconds if self.team is None else self.wished == SAVE:
            self.save("time")
        elif every is not None and self.run.progress.step % every == 0:
            self.save("steps")

    def save(self, why: str, *, proved: bool = False) -> None:
        at = self.run.progress
        if not proved:
            self.prove()
        members = self.run.gather()
        if self.team is None or not self.team.rank:
            at.seconds = self.before + self.clock.monotonic() - self.began
            self.history.tell("checkpoint", step=at.step, epoch=at.epoch, why=why)
            tensors, state = self.run.capture(self.history.flush(), members)
            checkpoint.write(self.job.folder, at.step, tensors, state)
        self.kept, self.saved, self.wished = at.step, self.clock.monotonic(), NOTHING

    def prove(self) -> None:
        """Every checkpoint is one to go on from: finite, and with nothing changed that is frozen."""
        self.check_finite()
        if self.job.frozen is not None:
            self.job.frozen.check()

    def check_finite(self) -> None:
        """Parameters only: a buffer may well hold an infinity, as masks do."""
        for name, parameter in self.run.optimizer.params.items():
            if not bool(torch.isfinite(parameter).all()):
                raise self.diverged(f"'{name}' is no longer finite", self.run.progress.step - 1)

    def diverged(self, what: str, step: int | None = None) -> LaminarError:
        """The error of a run that went astray at `step` (default: the one under way). The newest checkpoint stays as it is."""
        step = self.run.progress.step if step is None else step
        lr, epoch = self.rate(max(0, step)), step // self.job.steps_per_epoch
        self.history.tell("failed", step=step, epoch=epoch, lr=lr, why=what)
        good = f"the checkpoint of step {self.kept} is kept" if self.kept is not None else "there is no checkpoint before it"
        clip = "" if self.recipe.clip is not None else ", or set clip = 1.0"
        scaled = "" if self.recipe.base_batch is None else f", scaled from {self.recipe.base_batch} to {self.recipe.step_batch} samples"
        return LaminarError(
            "L601",
            f"{what} at step {step} of epoch {epoch} (counted from 0), where the learning rate was {lr:g}; {good}",
            hint=f"lower lr in train (it is {self.recipe.rate:g}{scaled}){clip}",
        )

    def failed(self, error: Exception) -> LaminarError:
        """What the model's own code raised, with the place in it."""
        at = self.run.progress
        what = f"{type(error).__name__}: {str(error).strip() or 'no message'}"
        place = raised_at(error)
        self.history.tell("failed", step=at.step, epoch=at.epoch, lr=self.rate(at.step), why=what)
        return LaminarError(
            "L606",
            f"the model failed at step {at.step} of epoch {at.epoch} (counted from 0){place and ', ' + place}: {what}",
            hint="correct the model's forward(); --debug shows the whole traceback",
        )

    def tell_start(self, resumed: int | None, notes: list[str]) -> None:
        at = self.run.progress
        told = {"step": at.step, "steps": self.job.steps, "epoch": at.epoch, "epochs": self.recipe.epochs}
        if resumed is None:
            samples = len(self.job.data.train)
            self.history.tell("start", **told, samples=samples, threads=torch.get_num_threads(), dtype=self.recipe.dtype)
        else:
            self.kept = resumed
            self.history.tell("resume", **told, why=f"goes on after step {resumed} of {self.job.steps}")
        for process in self.job.announce:
            self.history.tell("worker", **process)
        for note in notes:
            self.history.tell("note", why=note)


def _floating(tensor: Tensor, wanted: torch.dtype) -> Tensor:
    return tensor.to(wanted) if tensor.is_floating_point() else tensor


def _train_mode(job: Job) -> None:
    job.model.train()
    job.fit_route.module.train()
    if job.frozen is not None:
        job.frozen.keep()

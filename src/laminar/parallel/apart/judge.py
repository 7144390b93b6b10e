"""The judge: brings the servers' parameters into the chief's model and has it tested, in a thread, while workers go on."""

from __future__ import annotations

import contextlib
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, final

import torch

from laminar.core.errors import LaminarError
from laminar.model.author_errors import raised_at
from laminar.parallel.apart.messages import Chief, Parameters, reply
from laminar.parallel.apart.plan import Plan
from laminar.parallel.apart.trainer import load_buffers
from laminar.parallel.evaluation.desk import Desk
from laminar.parallel.evaluation.hire import ROLE
from laminar.parallel.wire.link import Link
from laminar.train.beside import Lost
from laminar.train.changes import changes_of
from laminar.train.evaluate import figures, sums_of_job
from laminar.train.job import Job
from laminar.train.snapshot import buffers_of, changing, trainable


@dataclass(frozen=True)
class Judgement:
    epoch: int
    step: int
    train: dict[str, float]  # sums of a Tally
    metrics: dict[str, float]  # on the test split
    by: str  # who tested, if not the chief
    finite: str  # name of a parameter that is not; empty: all are
    done: bool
    team: dict[str, Any]
    at: float  # when it was told
    change: float | None = None  # of the weights, since the epoch that was tested before (train/changes.py)


@final
class Judge:
    def __init__(
        self, job: Job, plan: Plan, addresses: list[str], token: str, timeout: float, desk: Desk | None = None, *, begins: bool = True
    ) -> None:
        """`desk`: of an evaluator, which tests in the place of this process while it is there. `begins`: the model has the weights that
        training starts with."""
        self._job, self._plan, self._addresses, self._token, self._timeout, self._desk = job, plan, addresses, token, timeout, desk
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="laminar-judge")
        self.step = -1  # of what is in the model
        asked = job.recipe.target is not None and job.recipe.target.change is not None
        self._changes = changes_of(trainable(job.model), None, asked=asked)
        if begins and self._changes is not None:
            self._changes.begin()
        self.fetched = -1  # the newest epoch whose parameters are in the model: the servers' own may change

    def judge(self, told: dict[str, Any]) -> Future[Judgement]:
        return self._thread.submit(self._judge, told)

    def _judge(self, told: dict[str, Any]) -> Judgement:
        step = self.fetch()
        change = None
        if self._changes is not None:
            change = self._changes.of_epoch()
            self._changes.begin()
        self.fetched = told["epoch"]
        try:
            metrics, by = self.tested()
        except LaminarError:
            raise
        except Exception as error:
            place, what = raised_at(error), f"{type(error).__name__}: {str(error).strip() or 'no message'}"
            raise LaminarError(
                "L606",
                f"the model failed in the test after epoch {told['epoch']} (counted from 0){place and ', ' + place}: {what}",
                hint="correct the model's forward(); --debug shows the whole traceback",
            ) from error
        finite, last, team, at = self.not_finite(), told["last"], told["team"], told["at"]
        return Judgement(told["epoch"], step, told["train"], metrics, by, finite, last, team, at, change)

    def say(self, shard: int, message: Chief) -> None:
        """Gone if the server is not there."""
        self._ask(shard, message)

    @torch.no_grad()
    def fetch(self) -> int:
        """What the servers have becomes what the model has; the step."""
        params, step = trainable(self._job.model), 0
        for shard in range(len(self._addresses)):
            header, data = self._ask(shard, Chief())
            layout = self._plan.layout(shard)
            row = torch.frombuffer(data, dtype=torch.float32, count=layout.numel)
            for part in layout.parts:
                params[part.name].copy_(part.of(row))
            if not shard:
                step = header.step
                if header.buffers:
                    load_buffers(list(buffers_of(self._job).values()), data[4 * layout.numel :])
        self.step = step
        return step

    def tested(self) -> tuple[dict[str, float], str]:
        """Of what is in the model, and who tested it, if not this process."""
        data = self._job.data
        if self._desk is not None and self._desk.free:
            with contextlib.suppress(Lost):  # what it was to test is still here
                return figures(self._desk.test(dict(changing(self._job))).result(), data.test.y, task=data.task), ROLE
        return self.metrics(), ""

    def metrics(self) -> dict[str, float]:
        data = self._job.data
        return figures(sums_of_job(self._job), data.test.y, task=data.task)

    def not_finite(self) -> str:
        return next((name for name, p in trainable(self._job.model).items() if not bool(torch.isfinite(p).all())), "")

    def _ask(self, shard: int, message: Chief) -> tuple[Parameters, memoryview]:
        link = Link(self._addresses[shard], self._token, timeout=self._timeout)
        try:
            header, data = link.ask(message)
            said = reply(header)
            assert isinstance(said, Parameters)
            return said, data
        finally:
            link.close()

    def close(self) -> None:
        self._thread.shutdown(wait=True, cancel_futures=True)

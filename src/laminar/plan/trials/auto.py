"""Auto: the strategy of each layer of a build is chosen when it is about to be trained (`laminar build --strategy auto`).

Only strategies that learn what one process learns are chosen from, so a layer's key does not depend on the machine that it was built on.
The best plans are run for some real steps before one of them is trusted, where that takes less time than it can save.
"""

from __future__ import annotations

import dataclasses
import json
import time
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Final, final

import msgspec

from laminar.core.errors import LaminarError
from laminar.core.events import Emit, read
from laminar.parallel.run import run
from laminar.plan.kept_plans import keep
from laminar.plan.ledger import Entry, Ledger
from laminar.plan.plan import Plan, written
from laminar.plan.profile.measure import Profile
from laminar.plan.search import Tell, cheapest_same
from laminar.plan.trials.planner import Planned, Wishes, plan_job
from laminar.plan.trials.trial import Tried, trial
from laminar.stack.open_job import Description
from laminar.store.store import Store
from laminar.train.history import EVENTS
from laminar.train.job import Job, Trained

TOP: Final = 3  # plans that are tried
COST: Final = 8.0  # seconds that a trial takes, about
WORTH: Final = 4.0  # training must take so many times as long as trying


@dataclass(frozen=True)
class Choice:
    plan: Plan
    tried: tuple[tuple[Plan, Tried | None], ...] = ()
    failed: tuple[str, ...] = ()  # plans that could not be run, and why

    @property
    def why(self) -> str:
        """What is said of it when it is trained."""
        predicted = f"predicted {1e3 * self.plan.step_seconds:.2f} ms a step"
        seen = next((tried for plan, tried in self.tried if plan is self.plan and tried is not None), None)
        measured = f", measured {1e3 * seen.seconds:.2f} ms" if seen is not None else ""
        against = [plan.name for plan, _ in self.tried if plan is not self.plan]
        beside = f"; tried against {', '.join(against)}" if against else ""
        return f"auto chose {self.plan.name}: {predicted}{measured}{beside}" + "".join(f"; {one}" for one in self.failed)


@final
class Auto:
    """As a function it is what `stack.build.build` takes for `how`."""

    def __init__(self, *, workers: int | None = None, verify: bool | None = None) -> None:
        """`verify`: try the best plans; None: where that pays."""
        self._workers, self._verify = workers, verify

    def __call__(self, job: Job, description: Description, emit: Emit) -> Trained:
        def tell(what: str, done: int, of: int) -> None:
            emit({"event": "planning", "layer": job.name, "what": what, "done": done, "of": of})

        # A build is not refused because others are busy: what is measured then is used by nobody else.
        with closing(Ledger.open()) as ledger, Profile.open(job, tell=tell, even_if_busy=True) as profile:
            planned = plan_job(job, profile, ledger, Wishes(workers=self._workers, only_same=True), tell=tell)
            choice = self.choose(job, description, planned, profile, ledger, tell)
            self._keep(description, planned, choice)
            for why in (*planned.notes, choice.why):
                emit({"event": "note", "layer": job.name, "why": why, "t": job.clock.now()})
            job.recipe = msgspec.structs.replace(job.recipe, strategy=choice.plan.strategy)
            trained, quiet = profile.quiet.beside(lambda: run(job, description.with_recipe(job.recipe), emit))
            trained.notes.insert(0, choice.why)
            if (seconds := _of_run(job)) is not None:
                try:
                    ledger.add(entry(job, profile, choice.plan, seconds, quiet=quiet))
                except LaminarError as error:  # what was learned is worth more than that
                    trained.notes.append(error.message)
        return trained

    def choose(self, job: Job, description: Description, planned: Planned, profile: Profile, ledger: Ledger, tell: Tell) -> Choice:
        best = cheapest_same(planned.found.plans)[:TOP]
        if len(best) == 1 or not self._pays(best):
            return Choice(best[0])
        tried, failed = list[tuple[Plan, Tried | None]](), list[LaminarError]()
        for number, plan in enumerate(best):
            tell(f"trying {plan.kind}", number, len(best))
            try:
                tried.append((plan, try_plan(job, description, profile, ledger, plan)))
            except LaminarError as error:  # too little shared memory, say: another one may do
                failed.append(error)
        if not tried:
            raise failed[0]
        seen = [(one.seconds, number) for number, (_, one) in enumerate(tried) if one is not None]
        said = tuple(f"one could not be run: {error.message}" for error in failed)
        return Choice(tried[min(seen)[1] if seen else 0][0], tuple(tried), said)

    def _keep(self, description: Description, planned: Planned, choice: Choice) -> None:
        """For the dashboard: what it was chosen from. A build does not fail by that."""
        plans = planned.found.plans
        numbers = {id(plan): number for number, plan in enumerate(plans)}
        measured = {numbers[id(plan)]: tried.seconds for plan, tried in choice.tried if tried is not None}
        told = planned.answer(
            description.file.spec.stack.name, description.layer, "auto", measured=measured, chosen=numbers[id(choice.plan)]
        )
        keep(Store.open(description.store), told)

    def _pays(self, best: Sequence[Plan]) -> bool:
        if self._verify is not None:
            return self._verify
        return best[0].seconds_to_target > WORTH * COST * len(best)


def try_plan(
    job: Job, description: Description, profile: Profile, ledger: Ledger, plan: Plan, *, calibration: bool = False
) -> Tried | None:
    """Run it for some steps, and write down how long they took. L609 if others are busy, and that matters."""
    recipe = msgspec.structs.replace(job.recipe, batch=plan.batch)
    found, quiet = profile.quiet.during(lambda: trial(dataclasses.replace(job, recipe=recipe), description, plan.strategy))
    if found is not None:
        ledger.add(entry(job, profile, plan, found.seconds, calibration=calibration, quiet=quiet))
    return found


def entry(job: Job, profile: Profile, plan: Plan, measured: float, *, calibration: bool = False, quiet: bool = True) -> Entry:
    return Entry(
        when=time.time(),
        machine=profile.machine_name,
        torch=profile.torch_version,
        layer=job.name,
        model=profile.digest(),
        strategy=json.dumps(written(plan.strategy), sort_keys=True),
        kind=plan.kind,
        workers=plan.workers,
        batch=plan.batch,
        raw_seconds=plan.raw_seconds,
        predicted_seconds=plan.step_seconds,
        measured_seconds=measured,
        beat=plan.beat,
        calibration=calibration,
        quiet=quiet,
    )


def _of_run(job: Job) -> float | None:
    """Seconds of a batch of the run that has just ended: of its epochs but the first."""
    rates = [event["samples_per_second"] for event in read(job.folder / EVENTS) if event["event"] == "epoch"]
    later = sorted(rates[1:])
    return min(job.recipe.batch, len(job.data.train)) / later[len(later) // 2] if later and later[len(later) // 2] > 0 else None

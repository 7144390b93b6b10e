"""Auto: the strategy of each layer of a build is chosen when it is about to be trained (`laminar build --strategy auto`).

Only strategies that learn what one process learns are chosen from, so a layer's key does not depend on the machine that it was built on.
How long choosing may take goes by how long training will (worth.py): a short training is planned by what is known already, or not at all.
The best plans are run for some real steps before one of them is trusted, in turns (choose.py), where that takes less time than it can save.
What the very same job took before on this machine counts as trials, too: so short trainings are chosen for by what they took the last time.
"""

from __future__ import annotations

import dataclasses
import functools
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
from laminar.plan.choose import ROUNDS, fastest, next_trial, usual
from laminar.plan.kept_plans import keep
from laminar.plan.ledger import Entry, Ledger
from laminar.plan.our_code import TRAINING, our_code
from laminar.plan.plan import Plan, written
from laminar.plan.profile.measure import Profile
from laminar.plan.search import Tell, cheapest_same
from laminar.plan.trials.planner import Planned, Wishes, plan_job
from laminar.plan.trials.trial import trial, trial_seconds
from laminar.plan.worth import Allowed, planning
from laminar.plan.worth import trials as worth_trials
from laminar.stack.open_job import Description
from laminar.store.runs import tell_about
from laminar.store.store import Store
from laminar.train.history import EVENTS
from laminar.train.job import Job, Trained
from laminar.train.strategies import AnyStrategy, Solo

TOP: Final = 3  # plans that are tried


@dataclass(frozen=True)
class Choice:
    plan: Plan
    tried: tuple[tuple[Plan, float], ...] = ()  # seconds of a batch, by trials
    failed: tuple[str, ...] = ()  # plans that could not be run, and why

    @property
    def why(self) -> str:
        """What is said of it when it is trained."""
        predicted = f"predicted {1e3 * self.plan.step_seconds:.2f} ms a step"
        seen = next((seconds for plan, seconds in self.tried if plan is self.plan), None)
        measured = f", measured {1e3 * seen:.2f} ms" if seen is not None else ""
        against = [f"{plan.name} ({1e3 * seconds:.2f} ms)" for plan, seconds in self.tried if plan is not self.plan]
        beside = f"; tried against {', '.join(against)}" if against else ""
        return f"auto chose {self.plan.name}: {predicted}{measured}{beside}" + "".join(f"; {one}" for one in self.failed)


@final
class Auto:
    """As a function it is what `stack.build.build` takes for `how`."""

    def __init__(self, *, workers: int | None = None, verify: bool | None = None, budget: float | None = None) -> None:
        """`verify`: try the best plans; None: where that pays. `budget`: seconds of planning; None: by how long training will take."""
        self._workers, self._verify, self._budget = workers, verify, budget

    def __call__(self, job: Job, description: Description, emit: Emit) -> Trained:
        def tell(what: str, done: int, of: int) -> None:
            emit({"event": "planning", "layer": job.name, "what": what, "done": done, "of": of})

        # A build is not refused because others are busy: what is measured then is used by nobody else.
        with closing(Ledger.at_hand()) as ledger, Profile.open(job, tell=tell, even_if_busy=True) as profile:
            allowed = self.allowed(job, profile)
            planned = self._planned(job, profile, ledger, allowed, tell)
            if planned is None:
                return self._train(job, description, emit, Solo(), [f"auto trains with one process: {allowed.too_short}"])[0]
            spent = planned.budget.spent
            told = len(ledger.notes)  # with those of the plans
            choice = self.choose(job, description, planned, profile, ledger, tell)
            self._keep(description, planned, choice)
            notes = [choice.why, allowed.spent(spent)]
            for why in planned.notes:
                emit({"event": "note", "layer": job.name, "why": why, "t": job.clock.now()})
            train = functools.partial(self._train, job, description, emit, choice.plan.strategy, notes)
            (trained, seconds), quiet = profile.quiet.beside(train)
            if seconds is not None:
                self._keep(description, planned, choice, seconds)
                ledger.note(entry(job, profile, choice.plan, seconds, quiet=quiet))
            trained.notes.extend(ledger.notes[told:])
        return trained

    def allowed(self, job: Job, profile: Profile) -> Allowed:
        """Time for planning. What is measured here is what one process is priced by."""
        if self._budget is not None:
            return Allowed(None, self._budget)
        rows = min(job.recipe.batch, len(job.data.train))
        once = profile.whole(rows, "module", job.recipe.threads or profile.cores).seconds
        return planning(once * job.recipe.epochs * len(job.data.train) / rows, links=not profile.knows_links)

    def _planned(self, job: Job, profile: Profile, ledger: Ledger, allowed: Allowed, tell: Tell) -> Planned | None:
        """None: nothing was priced in this time, which is not worth more of it."""
        if not allowed.seconds:
            return None
        try:
            return plan_job(job, profile, ledger, Wishes(workers=self._workers, only_same=True, budget=allowed.seconds), tell=tell)
        except LaminarError as error:
            if error.code != "L015" or self._budget is not None:
                raise
            return None

    def _train(
        self, job: Job, description: Description, emit: Emit, how: AnyStrategy, notes: Sequence[str]
    ) -> tuple[Trained, float | None]:
        """With seconds of a step, as far as they can be told."""
        for why in notes:
            emit({"event": "note", "layer": job.name, "why": why, "t": job.clock.now()})
        job.recipe = msgspec.structs.replace(job.recipe, strategy=how)
        tell_about(job.folder, {"strategy": how.kind})
        trained = run(job, description.with_recipe(job.recipe), emit)
        trained.notes[:0] = notes
        return trained, _of_run(job)

    def choose(self, job: Job, description: Description, planned: Planned, profile: Profile, ledger: Ledger, tell: Tell) -> Choice:
        best = cheapest_same(planned.found.plans)[:TOP]
        count, rounds = self._trials(best)
        best = best[: count or TOP]
        if len(best) == 1:
            return Choice(best[0])
        told = [entry(job, profile, plan, plan.step_seconds) for plan in best]
        before = [ledger.trials(one).get(one.strategy, [])[-ROUNDS:] for one in told]  # of the very same job
        trials: list[list[Ran]] = [[] for _ in best]

        def times() -> list[list[float]]:
            return [[*some, *(one.seconds for one in more)] for some, more in zip(before, trials, strict=True)]

        def whole() -> list[list[float]]:
            """Seconds of the whole training: where it is short, workers that take long to begin are of no use."""
            return [[plan.start + plan.steps * seconds for seconds in some] for plan, some in zip(best, times(), strict=True)]

        if not rounds:
            return Choice(best[fastest(whole())], _usual(best, times())) if all(before) else Choice(best[0])
        failed: dict[int, LaminarError | None] = {}  # None: it ended too early to tell
        while (number := next_trial(whole(), list(failed), rounds)) is not None:
            tell(f"trying {best[number].kind}", sum(map(len, trials)), rounds * len(best))
            try:
                if (ran := run_plan(job, description, profile, best[number])) is None:
                    failed[number] = None
                else:
                    trials[number].append(ran)
            except LaminarError as error:  # too little shared memory, say: another one may do
                failed[number] = error
        errors = [error for error in failed.values() if error is not None]
        if len(errors) == len(best):
            raise errors[0]
        for one, some in zip(told, trials, strict=True):
            if some:
                seconds, quiet = usual([ran.seconds for ran in some]), all(ran.quiet for ran in some)
                ledger.note(dataclasses.replace(one, when=time.time(), measured_seconds=seconds, quiet=quiet))
        known = [() if number in failed else some for number, some in enumerate(times())]
        tried = [() if number in failed else some for number, some in enumerate(whole())]
        chosen = fastest(tried) if any(tried) else next(number for number in range(len(best)) if failed.get(number) is None)
        said = tuple(f"one could not be run: {error.message}" for error in errors)
        return Choice(best[chosen], _usual(best, known), said)

    def _keep(self, description: Description, planned: Planned, choice: Choice, ran: float | None = None) -> None:
        """For the dashboard: what it was chosen from, and how long its steps took when it `ran`. A build does not fail by that."""
        plans = planned.found.plans
        numbers = {id(plan): number for number, plan in enumerate(plans)}
        measured = {numbers[id(plan)]: seconds for plan, seconds in choice.tried}
        if ran is not None:
            measured[numbers[id(choice.plan)]] = ran
        told = planned.answer(
            description.file.spec.stack.name, description.layer, "auto", measured=measured, chosen=numbers[id(choice.plan)]
        )
        keep(Store.open(description.store), told)

    def _trials(self, best: Sequence[Plan]) -> tuple[int, int]:
        """How many plans are tried, and how often at most."""
        if self._verify is not None:
            return (len(best), ROUNDS) if self._verify else (0, 0)
        return worth_trials(best[0].seconds_to_target, [trial_seconds(plan.step_seconds, plan.workers) for plan in best])


@dataclass(frozen=True)
class Ran:
    """A trial of a plan."""

    seconds: float  # of a batch
    quiet: bool  # nobody else was busy


def _usual(plans: Sequence[Plan], times: Sequence[Sequence[float]]) -> tuple[tuple[Plan, float], ...]:
    return tuple((plan, usual(some)) for plan, some in zip(plans, times, strict=True) if some)


def run_plan(job: Job, description: Description, profile: Profile, plan: Plan) -> Ran | None:
    """For some steps. L609 if others are busy, and that matters; None: it was too short to tell."""
    recipe = msgspec.structs.replace(job.recipe, batch=plan.batch)
    found, quiet = profile.quiet.during(lambda: trial(dataclasses.replace(job, recipe=recipe), description, plan.strategy))
    return Ran(found.seconds, quiet) if found is not None else None


def try_plan(
    job: Job, description: Description, profile: Profile, ledger: Ledger, plan: Plan, *, calibration: bool = False
) -> float | None:
    """The same, once; and what came out is written down."""
    ran = run_plan(job, description, profile, plan)
    if ran is None:
        return None
    write = ledger.add if calibration else ledger.note  # a calibration is of no use but for that
    write(entry(job, profile, plan, ran.seconds, calibration=calibration, quiet=ran.quiet))
    return ran.seconds


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
        code=our_code(*TRAINING),
    )


def _of_run(job: Job) -> float | None:
    """Seconds of a batch of the run that has just ended: of its epochs but the first, which begins slowly, if there are others."""
    rates = [event["samples_per_second"] for event in read(job.folder / EVENTS) if event["event"] == "epoch"]
    later = sorted(rates[1:] or rates)
    return min(job.recipe.batch, len(job.data.train)) / later[len(later) // 2] if later and later[len(later) // 2] > 0 else None

"""Price: what a strategy would take, from what is known of the job and of the machine. The one door to the price_*.py beside it.

Every kind of strategy that can be run has a price here, and nothing else has (a test compares the two lists). No torch here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import final

from laminar.core.errors import LaminarError
from laminar.core.figures import more_than
from laminar.parallel.threads import threads_each
from laminar.plan.correction import NONE, Correction
from laminar.plan.desktops import GridPrice
from laminar.plan.known import NOT_MEASURED, Known
from laminar.plan.machine import Machine
from laminar.plan.places import Places
from laminar.plan.plan import Plan
from laminar.plan.price_apart import Paced, averaging, downpour, quorum
from laminar.plan.price_mesh import mesh_step
from laminar.plan.price_stages import stages_step
from laminar.plan.price_sync import solo_step, sync_step
from laminar.plan.step import Step, take
from laminar.plan.steps_needed import StepsModel
from laminar.plan.tasks import Ran
from laminar.plan.team_memory import Need, needs
from laminar.train.on_grid import Grid
from laminar.train.splitting import Branches, Mesh, Pipeline
from laminar.train.strategies import AnyStrategy, Averaging, Downpour, Quorum, Solo, Sync

PRICED = ("solo", "sync", "averaging", "downpour", "quorum", "mesh", "pipeline", "branches", "grid")


@dataclass(frozen=True)
class Refused:
    """A strategy that cannot be, and why."""

    strategy: AnyStrategy
    why: str
    memory: int = 0  # bytes that it would take on one node, where that is why


@final
class Pricer:
    """Counts what it prices."""

    def __init__(
        self,
        known: Known,
        machine: Machine,
        steps: StepsModel,
        *,
        base_batch: int,
        threads: int | None = None,
        corrections: Mapping[tuple[str, int], Correction] | None = None,
        grid: GridPrice | None = None,
    ) -> None:
        """`base_batch`: that of the recipe, which the number of steps is known for. `threads`: of each process, if the recipe says so.
        `grid`: who knows what desktops take; None where there are none."""
        self.known, self.machine, self._steps, self._grid = known, machine, steps, grid
        self._base, self._threads = base_batch, threads
        self._corrections = dict(corrections or {})
        self.priced = 0

    def on(self, machine: Machine) -> Pricer:
        """The same for another machine."""
        return Pricer(
            self.known, machine, self._steps, base_batch=self._base, threads=self._threads, corrections=self._corrections, grid=self._grid
        )

    def places(self, how: AnyStrategy) -> Places:
        """Workers of a grid have none here."""
        workers = 1 if isinstance(how, Grid) else how.workers
        return Places(self.machine, self.known.machine(workers), workers, self.threads(workers))

    def threads(self, workers: int) -> int:
        """That the executor gives each of so many processes; no more than there are cores where passes are measured: beyond those they
        only get slower. The chief, whose cores are shared out, is on the first node."""
        there = threads_each(self._threads, workers, self.machine.nodes[0].cores)
        return there if self._threads else min(there, self.known.machine(workers).cores)

    def price(self, how: AnyStrategy, batch: int) -> Plan | Refused:
        """L608 and L609 where what it needs cannot be measured now, which is no fault of the plan."""
        self.priced += 1
        places = self.places(how)
        try:
            made = self._step(how, places, batch)
        except LaminarError as error:
            if error.code in NOT_MEASURED:
                raise
            return Refused(how, error.message)
        return self.plan(how, made, batch, places)

    def _step(self, how: AnyStrategy, places: Places, batch: int) -> Step | Paced:
        if isinstance(how, Grid):
            if self._grid is None or self.machine.grid is None:
                raise LaminarError(
                    "L008", f"{self.machine.name} has no grid of desktops", hint="--on grid://HOST:8787, or a machine file with [grid]"
                )
            return self._grid(self.known, self.machine, how, batch)
        threads = self.threads(how.workers)
        match how:
            case Solo():
                return solo_step(self.known, places, batch, threads)
            case Sync():
                return sync_step(self.known, places, how, batch, threads)
            case Averaging():
                return averaging(self.known, places, how, batch, threads)
            case Downpour():
                return downpour(self.known, places, how, batch, threads)
            case Quorum():
                return quorum(self.known, places, how, batch, threads)
            case Mesh():
                return mesh_step(self.known, places, how, batch, threads)
            case Pipeline() | Branches():
                return stages_step(self.known, places, how, batch, threads)

    def plan(self, how: AnyStrategy, made: Step | Paced, batch: int, places: Places) -> Plan | Refused:
        ran: tuple[Ran, ...] = ()
        if isinstance(made, Paced):
            seconds, memory, idle, spent = made.seconds, made.memory, made.idle, made.spent
            sent, staleness, names, standing = made.bytes, made.staleness, {}, {}
        else:
            taken = take(made, how.workers)
            seconds, idle, spent = taken.seconds, taken.idle, taken.spent
            memory = tuple(taken.memory.get(worker, 0) for worker in range(how.workers))
            ran = tuple(taken.timeline.ran)
            sent, staleness, names, standing = made.bytes, made.staleness, made.names, made.standing
        job = self.known.job()
        fullest = [] if isinstance(how, Grid) else needs(how, places, job, memory)
        if (most := self._too_much(fullest)) is not None:
            return Refused(how, *most)
        factor = self._steps_factor(how, batch, staleness, made)
        beat = made.beat if isinstance(made, Paced) else 1.0
        step = self._corrections.get((how.kind, how.workers), NONE)(seconds, beat)
        steps = job.epochs * job.samples / batch * factor
        return Plan(
            strategy=how,
            batch=batch,
            step_seconds=step,
            raw_seconds=seconds,
            factor=factor,
            steps=steps,
            memory_bytes=max(memory),
            node_memory_bytes=max((one.bytes for one in fullest), default=max(memory)),
            bytes_per_step=sent,
            threads=self.threads(1 if isinstance(how, Grid) else how.workers),
            staleness=staleness,
            idle=idle,
            same_result=how.key_fields() is None and batch == self._base,
            testing=self._testing(how, steps * batch / job.samples, step * steps),
            start=places.facts.start if how.workers > 1 and not isinstance(how, Grid) else 0.0,
            beat=beat,
            spent=spent,
            ran=ran,
            resources=names,
            standing=standing,
        )

    def _testing(self, how: AnyStrategy, epochs: float, training: float) -> float:
        """Seconds of tests in which nobody trains. One process tests by itself, a team that makes its steps at once shares the samples out,
        and elsewhere the chief tests: workers of rounds wait for it, others go on, and only the last test is waited for, or as many as the
        chief is behind."""
        job = self.known.job()
        test = job.test * job.test_samples / self.machine.nodes[0].speed
        if isinstance(how, Grid):
            return 0.0
        if isinstance(how, Downpour) or getattr(how, "evaluator", False):
            return max(test, epochs * test - training)
        return epochs * test / (1 if isinstance(how, Averaging | Quorum) else how.workers)

    def _steps_factor(self, how: AnyStrategy, batch: int, staleness: float, made: Step | Paced) -> float:
        if isinstance(how, Grid) and isinstance(made, Paced):
            together = max(1, round(made.together))
            return self._steps.factor(batch, self._base, staleness=staleness, every=how.local_steps, workers=together)
        used = made.used if isinstance(made, Paced) else 1.0
        if isinstance(how, Averaging):
            job = self.known.job()
            every = how.every if isinstance(how.every, int) else max(1, job.samples * job.epochs // (batch * how.workers))
            return self._steps.factor(batch, self._base, every=every, workers=how.workers)
        return self._steps.factor(batch, self._base, staleness=staleness, quorum=max(used, 0.01))

    def _too_much(self, fullest: Sequence[Need]) -> tuple[str, int] | None:
        """A node that has no room for its processes, in words, and the bytes that they need there."""
        for one in fullest:
            there = self.machine.nodes[one.node]
            if one.bytes > there.memory:
                needed, room = more_than(one.bytes, there.memory)
                return f"{needed} of memory on {there.name}, which has {room}, for {one.said}", one.bytes
        return None

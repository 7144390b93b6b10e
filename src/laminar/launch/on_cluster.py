"""On a cluster: trains the jobs of a build on the machines of a launcher, which is asked for workers as soon as a job will need them.

Engines take seconds to start, in which the chief opens data and model: so it is a thread that asks them.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, final

import msgspec

from laminar.core.events import Emit
from laminar.launch.attach import survive_hangup, watched
from laminar.launch.environment import EnvironmentLauncher
from laminar.launch.protocol import Launcher
from laminar.launch.staff import ClusterStaff
from laminar.launch.switchboard import STARTING
from laminar.parallel.forked import Nursery
from laminar.train.recipe import Recipe
from laminar.train.splitting import SplitStrategy
from laminar.train.strategies import AnyStrategy, ManySpec, Sync, carried_out, for_unlike_machines

if TYPE_CHECKING:
    from laminar.stack.open_job import Description
    from laminar.train.job import Job, Trained


@final
class OnCluster:
    """A context; as a function it is what `stack.build.build` takes for `how`."""

    def __init__(self, launcher: Launcher, *, starting: float = STARTING, options: Mapping[str, Any] | None = None) -> None:
        """`options`: of the command, for whoever goes on with the run when this process is gone."""
        self._launcher, self._starting, self._options = launcher, starting, dict(options or {})
        self._folder: Path | None = None
        self._held, self._kept = ExitStack(), ExitStack()  # for a staff; for all of them
        self._nursery: Nursery | None = None
        self._staff: ClusterStaff | None = None
        self._made_for: tuple[int, bool] | None = None
        self._asking: _Asking | None = None

    def soon(self, recipe: Recipe) -> None:
        """A layer of this recipe is going to be trained."""
        if self._staff is None and self._asking is None and self._launcher.fixed is None:
            agents, together = self._made_for = self._wanted(carried_out(recipe.strategy))
            made = ClusterStaff(self._launcher, agents, together=together, starting=self._starting, nursery=self._of_our_own())
            self._asking = _Asking(made)

    def __call__(self, job: Job, description: Description, emit: Emit) -> Trained:
        from laminar.parallel.run import run  # here, because it brings torch: a build that reuses all needs none

        how = carried_out(job.recipe.strategy)
        wanted = self._wanted(how)
        staff = self._for(*wanted)
        description, count = self._on_these_machines(job, description, staff, wanted[0])
        self._folder = job.folder
        with watched(job.folder, job.name, emit, self._options) as tell:
            trained = run(job, description, tell, staff)
        if count < how.workers:
            trained.notes.insert(0, f"{count} of {how.workers} workers were there when its training began")
        trained.where = staff.about()
        return trained

    def _wanted(self, how: AnyStrategy) -> tuple[int, bool]:
        """Agents, and whether they are of use only as a whole. An evaluator gets one of its own, unless its loss would be that of all."""
        together = isinstance(how, Sync | SplitStrategy)
        extra = isinstance(how, ManySpec) and how.evaluator and not (together and self._launcher.whole)
        return how.workers + extra, together

    @staticmethod
    def _on_these_machines(job: Job, description: Description, staff: ClusterStaff, agents: int) -> tuple[Description, int]:
        """Several machines may differ in speed: shares are measured where nothing else was said. Also how many workers are there."""
        how = carried_out(job.recipe.strategy)
        count = staff.room(how.workers, how.fewest if isinstance(how, ManySpec) and how.elastic else None)
        if agents > how.workers:
            staff.room(agents, count)  # that of an evaluator, which can also do without
        fitting = for_unlike_machines(how) if len(staff.about()["hosts"]) > 1 else how
        if fitting == how:
            return description, count
        job.recipe = msgspec.structs.replace(job.recipe, strategy=fitting)
        return description.with_recipe(job.recipe), count

    def _for(self, agents: int, together: bool) -> ClusterStaff:
        wanted = (self._launcher.fixed, False) if self._launcher.fixed is not None else (agents, together)
        if self._asking is not None:
            asking, self._asking = self._asking, None
            self._held.callback(asking.leave)
            self._staff = self._held.enter_context(asking.answer())
        if self._staff is None or self._made_for != wanted:
            self._held.close()
            port, token = 0, None
            if isinstance(self._launcher, EnvironmentLauncher):
                port, token = self._launcher.port, self._launcher.token
            made = ClusterStaff(
                self._launcher,
                wanted[0],
                together=wanted[1],
                starting=self._starting,
                port=port,
                token=token,
                nursery=self._of_our_own(),
            )
            self._staff, self._made_for = self._held.enter_context(made), wanted
        return self._staff

    def _of_our_own(self) -> Nursery | None:
        if self._nursery is None and self._launcher.own:
            self._nursery = self._kept.enter_context(Nursery())
        return self._nursery

    def __enter__(self) -> OnCluster:
        survive_hangup(lambda: self._folder)
        self._launcher.begin()
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None) -> None:
        try:
            if kind is None and self._launcher.fixed is not None:
                # Its agents wait to be told that there is nothing to do: where no layer had to be trained, nobody has spoken to them yet.
                self._for(self._launcher.fixed, False).room(self._launcher.fixed)
        finally:
            with self._kept:
                if self._asking is not None:  # nothing was trained after all, or it was interrupted
                    self._asking.give_up()
                self._held.close()
                self._launcher.stop()


@final
class _Asking:
    """A thread that starts a staff. It lives as long as that: what it has started may die with it (crew.die_with)."""

    def __init__(self, staff: ClusterStaff) -> None:
        self._staff = staff
        self._error: BaseException | None = None
        self._there, self._over = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self._staff.start_up()
        except BaseException as error:
            self._error = error
        self._there.set()
        self._over.wait()

    def answer(self) -> ClusterStaff:
        """When all is started; what went wrong is raised here."""
        self._there.wait()
        if self._error is not None:
            self._over.set()
            raise self._error
        return self._staff

    def leave(self) -> None:
        self._over.set()
        self._thread.join()

    def give_up(self) -> None:
        self._staff.call_off()
        self._there.wait()
        if self._error is None:
            self._staff.__exit__(None, None, None)
        self.leave()

"""On a cluster: trains the jobs of a build on the machines of a launcher, which is asked for workers when the first job needs them."""

from __future__ import annotations

from contextlib import ExitStack
from types import TracebackType
from typing import TYPE_CHECKING, final

from laminar.core.events import Emit
from laminar.launch.attach import survive_hangup, watched
from laminar.launch.environment import EnvironmentLauncher
from laminar.launch.protocol import Launcher
from laminar.launch.staff import ClusterStaff
from laminar.launch.switchboard import STARTING
from laminar.train.strategies import Sync, strategy

if TYPE_CHECKING:
    from laminar.stack.open_job import Description
    from laminar.train.job import Job, Trained


@final
class OnCluster:
    """A context; as a function it is what `stack.build.build` takes for `how`."""

    def __init__(self, launcher: Launcher, *, starting: float = STARTING) -> None:
        self._launcher, self._starting = launcher, starting
        self._held = ExitStack()
        self._staff: ClusterStaff | None = None
        self._made_for: tuple[int, bool] | None = None

    def __call__(self, job: Job, description: Description, emit: Emit) -> Trained:
        from laminar.parallel.run import run  # here, because it brings torch: a build that reuses all needs none

        how = strategy(job.recipe.strategy)
        staff = self._for(how.workers, together=isinstance(how, Sync))
        survive_hangup(job.folder)
        with watched(job.folder, job.name, emit) as tell:
            trained = run(job, description, tell, staff)
        trained.where = staff.about()
        return trained

    def _for(self, workers: int, *, together: bool) -> ClusterStaff:
        wanted = (self._launcher.fixed, False) if self._launcher.fixed is not None else (workers, together)
        if self._staff is None or self._made_for != wanted:
            self._held.close()
            port, token = 0, None
            if isinstance(self._launcher, EnvironmentLauncher):
                port, token = self._launcher.port, self._launcher.token
            made = ClusterStaff(self._launcher, wanted[0], together=wanted[1], starting=self._starting, port=port, token=token)
            self._staff, self._made_for = self._held.enter_context(made), wanted
        return self._staff

    def __enter__(self) -> OnCluster:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None) -> None:
        try:
            if kind is None and self._launcher.fixed is not None:
                # Its agents wait to be told that there is nothing to do: where no layer had to be trained, nobody has spoken to them yet.
                self._for(self._launcher.fixed, together=False).room(self._launcher.fixed)
        finally:
            self._held.close()

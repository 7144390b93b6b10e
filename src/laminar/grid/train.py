"""Train on a grid: the strategy, seen from the build. Describes the job, begins a run, tests versions, and brings the last one home.

The run is the server's: when the build is interrupted it goes on, and the next build finds it by its name and watches again. When the
server is away for a while the build waits for it: what the run has learned is in its database.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any, Final, TypeVar, final

from laminar.core.errors import LaminarError
from laminar.core.events import Emit
from laminar.core.interrupts import Interrupts
from laminar.grid.commander import Away, Commander
from laminar.grid.describe import Described, describe, load_version
from laminar.grid.never_sent import never_sent
from laminar.grid.server.commands import Begin
from laminar.grid.waiting import waits_for
from laminar.stack.open_job import Description
from laminar.train.evaluate import evaluate
from laminar.train.history import History
from laminar.train.job import Job, Trained
from laminar.train.losses import guessing, loss_name
from laminar.train.metrics import check_target
from laminar.train.misgivings import WARNING, misgivings
from laminar.train.on_grid import Grid
from laminar.train.recipe import Recipe

LOOK: Final = 0.25  # seconds between looks at the run
AWAY: Final = 1.0  # and while the server is away
TESTS: Final = 0.1  # of the time at most is spent on tests, but for the last one
T = TypeVar("T")


@final
class OnGrid:
    """As a function it is what `stack.build.build` takes for `how`. Layers with other strategies are trained here, as ever."""

    def __init__(self, commander: Commander, otherwise: Callable[[Job, Description, Emit], Trained]) -> None:
        self._commander, self._otherwise = commander, otherwise

    def soon(self, recipe: Recipe) -> None:
        """There is nothing to prepare: the grid is there."""

    def __call__(self, job: Job, description: Description, emit: Emit) -> Trained:
        if not isinstance(job.recipe.strategy, Grid):
            return self._otherwise(job, description, emit)
        layer = next(layer for layer in description.file.spec.layer if layer.name == description.layer)
        name = f"{description.layer}-{description.run}"[:80]
        described = describe(job, name, description.file.spec.data[layer.data], list(layer.freeze))
        with ExitStack() as held:
            interrupts = held.enter_context(Interrupts())
            history = held.enter_context(History(job.folder, job.name, emit, job.clock, tensorboard=job.tensorboard, rewind=None))
            return _Watch(self._commander, job, described, name, history, interrupts).run()


@final
class _Watch:
    def __init__(self, commander: Commander, job: Job, described: Described, name: str, history: History, interrupts: Interrupts) -> None:
        self._commander, self._job, self._described, self._name = commander, job, described, name
        self._history, self._interrupts = history, interrupts
        self._testing, self._began = 0.0, job.clock.monotonic()
        self._tested, self._first = -1, 0  # versions: the newest that was tested, and the one that there was when the build came
        self._steps = 0  # of nodes, that there were when the build came
        self._waits = ""  # what for, as far as it was told
        self._metrics: dict[str, float] = {}

    def run(self) -> Trained:
        job, settings = self._job, self._described.settings
        check_target(job.recipe.target, job.data.task)
        run = self._begin()
        self._first, self._steps = run["version"], run["steps"]
        rounds = settings.rounds
        self._history.tell(
            "start",
            step=run["version"],
            steps=rounds,
            epoch=0,
            epochs=rounds,
            samples=len(job.data.train),
            dtype="float32",
            threads=0,
        )
        if said := never_sent(settings):
            self._history.tell("note", why=said)
        first: float | None = None
        while run["state"] in ("open", "paused"):
            self._say_wait(run)
            self._heed_interrupt(run["version"])
            before = run["version"]
            if before > self._tested and self._time_to_test():
                self._test(run)
                if job.recipe.target is not None and job.recipe.target.reached(self._metrics):
                    told = self._patiently(lambda: self._commander.post(f"/v1/admin/runs/{self._name}/stop"))
                    run = {**told, "why": "target reached"}
                    break
                first = self._metrics.get("loss") if first is None else first
            time.sleep(LOOK)
            run = self._look()
            if run["version"] > before:
                self._tell(run, rounds)
        reached = run["why"] == "target reached"
        run = {**self._look(), **({"why": run["why"]} if reached else {})}
        if run["state"] == "done":
            self._say_wait(run)  # it may have gone on and ended between two looks
        elif not reached:
            raise LaminarError("L608", f"run {self._name} was {run['state']}: {run['why']}", hint="laminar build begins where it was")
        self._test(run)
        return self._end(run, first)

    def _look(self) -> dict[str, Any]:
        return self._patiently(lambda: self._commander.run(self._name))

    def _patiently(self, ask: Callable[[], T]) -> T:
        """What the server answers, as soon as it is there."""
        while True:
            try:
                return ask()
            except Away as error:
                if self._waits != "server":
                    self._waits = "server"
                    self._history.tell("waiting", why=error.message, help=f"{error.hint}; the run goes on from where it was")
            self._heed_interrupt(max(self._tested, self._first))
            time.sleep(AWAY)
            self._commander.look_again()

    def _heed_interrupt(self, version: int) -> None:
        if self._interrupts.asked:
            self._history.tell("checkpoint", step=version, epoch=0, why="the grid goes on; laminar build watches it again")
            raise KeyboardInterrupt

    def _say_wait(self, run: dict[str, Any]) -> None:
        """Once when the run waits for something, once when it does no more."""
        wait = waits_for(run, run["nodes"])
        kind = wait.kind if wait is not None else ""
        if kind != self._waits:
            self._waits = kind
            if wait is not None:
                self._history.tell("waiting", why=wait.why, help=wait.help)
            else:
                self._history.tell("note", why="the run goes on")

    def _begin(self) -> dict[str, Any]:
        for data in self._described.files.values():
            self._commander.put_file(data)
        asked = Begin(
            name=self._name,
            layer=self._job.name,
            settings=self._described.settings,
            about=self._described.about_sha256,
            version=self._described.first,
        )
        self._commander.begin(asked)
        return self._commander.run(self._name)

    def _time_to_test(self) -> bool:
        return self._testing <= TESTS * (self._job.clock.monotonic() - self._began)

    def _test(self, run: dict[str, Any]) -> None:
        job, version = self._job, run["version"]
        if version == self._tested:
            return
        load_version(job, self._patiently(lambda: self._commander.version(self._name, version)))
        start = job.clock.monotonic()
        route, data = job.test_route, job.data
        self._metrics = evaluate(route.module, route.inputs, data.test.y, task=data.task, loss=loss_name(job.recipe, data.task))
        self._testing += job.clock.monotonic() - start
        self._tested = version
        self._patiently(lambda: self._commander.tested(self._name, version, self._metrics))
        seconds = job.clock.monotonic() - self._began
        self._history.epoch(
            epoch=version - 1,
            epochs=self._described.settings.rounds,
            step=version,
            train={},
            test=self._metrics,
            seconds=seconds,
            samples_per_second=(run["steps"] - self._steps) * job.recipe.batch / max(seconds, 1e-9),
        )

    def _tell(self, run: dict[str, Any], rounds: int) -> None:
        self._history.listen(
            step=run["version"] - 1,
            steps=rounds,
            epoch=0,
            epochs=rounds,
            loss=self._metrics.get("loss", 0.0),
            lr=self._job.recipe.rate,
            team={"workers": None, "bytes": run["bytes"]["up"], "staleness": run["staleness"]},
        )

    def _end(self, run: dict[str, Any], first: float | None) -> Trained:
        job, settings = self._job, self._described.settings
        seconds = max(job.clock.monotonic() - self._began, (run["ended"] or 0.0) - run["made"])  # it may have begun before this build
        samples = run["steps"] * job.recipe.batch
        metrics = {**self._metrics, "samples_per_second": samples / max(seconds, 1e-9)}
        objective = loss_name(job.recipe, job.data.task)
        classes = len(job.data.classes) if job.data.classes is not None else None
        guess = guessing(objective, job.data.train.y, job.data.test.y, classes=classes)
        notes = self._notes(run)
        if said := never_sent(settings):
            notes.append(WARNING + said)
        if said := misgivings(loss=metrics["loss"], guess=guess, first=first, lr=job.recipe.rate):
            notes.append(said)
        self._history.tell("end", step=run["version"], epoch=job.recipe.epochs, why=run["why"], metrics=metrics, seconds=seconds)
        epochs = int(samples / max(1, settings.epoch_samples))
        where = {"launcher": "grid", "hosts": [], "workers": settings.grid.workers, "answers": run["answers"], "trust": run["trust"]}
        return Trained(metrics=metrics, seconds=seconds, epochs=epochs, steps=run["version"], notes=notes, where=where)

    @staticmethod
    def _notes(run: dict[str, Any]) -> list[str]:
        trust, up = run["trust"], run["bytes"]
        extra = f"{trust['overhead']:.0%} more for trust, {trust['disagreements']} disputed"
        found = [f"{run['answers']} answers for {run['applied']} tasks: {extra}"]
        if up["up"] and up["dense"] > 1.5 * up["up"]:
            found.append(f"1/{up['dense'] / up['up']:.0f} of the bytes of dense answers")
        if run["refused"]:
            found.append("refused: " + ", ".join(f"{what} {number}" for what, number in sorted(run["refused"].items())))
        if run["caught"]:
            found.append("banned: " + "; ".join(f"{who}: {why}" for who, why in run["caught"].items()))
        return found

"""Run: trial after trial, until none is left, the budget is used up, or somebody presses Ctrl-C. Nothing is run twice.

Each trial is a build in a process of its own (trial_process.py), which outlives trials that fail and is replaced by another when one
kills it. Where time is measured there is one such process, and what others on this machine do meanwhile is looked at; where it is not,
there may be several.
"""

from __future__ import annotations

import math
import os
import platform
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Protocol, final

import msgspec

from laminar import __version__
from laminar.core.clock import SYSTEM, Clock
from laminar.core.errors import LaminarError
from laminar.core.events import Emit, nowhere
from laminar.experiments import files
from laminar.experiments.agenda import Agenda, Rounds, agenda_of
from laminar.experiments.axes import PLACE
from laminar.experiments.order import WARM_UP, Next, Spent, expected_seconds, over_budget
from laminar.experiments.record import Description, Trial, Variant
from laminar.experiments.spec import Sweep
from laminar.experiments.statements import compared_first
from laminar.experiments.trial_process import Answer, TrialProcess
from laminar.experiments.variants import apply, place_of
from laminar.launch.choose import launcher_of
from laminar.plan.profile.busy import LIMIT, SECONDS, compare, read_now
from laminar.plan.profile.this_machine import this_machine, torch_version
from laminar.stack.read import StackFile
from laminar.store.store import Store

NO_FAULT_OF_THE_TRIAL: Final = ("L3", "L401", "L405", "L407", "L408")  # the store, or a cluster that is not there: others would fail too
CALM: Final = 30.0  # seconds in which a busy machine may become quiet, before it is tried again


StackOf = Callable[[Variant, Next], tuple[StackFile, str]]  # the stack of a trial, and which of its layers is the trial's


class Trainer(Protocol):
    """What trains trials: a process, or something else in tests."""

    def ask(self, asked: dict[str, Any], emit: Emit, *, on_ready: Callable[[], None] | None = None) -> Answer: ...

    def interrupt(self) -> None: ...

    def close(self) -> None: ...


def machine_facts() -> dict[str, Any]:
    return {**this_machine().to_json(), "torch": torch_version(), "python": platform.python_version(), "laminar": __version__}


def run(
    description: Description,
    sweep: Sweep,
    file: StackFile,
    store: Store,
    emit: Emit = nowhere,
    *,
    on: str | None = None,
    at_once: int = 1,
    clock: Clock = SYSTEM,
    trainer: Callable[[], Trainer] = TrialProcess,
    stack_of: StackOf | None = None,
    fill: bool = False,
    begun: float | None = None,
) -> list[Trial]:
    """All trials of the experiment, those of earlier goes included. L307 when another process runs it; L020 when the name is taken.

    `on`: where workers run; `at_once`: trials side by side, where time is not measured. `stack_of`: for variants that are more than
    settings of one stack file, and stand on each other, so that they are run in the order in which they are listed.

    `fill`: use all hours of the budget. What the first statement compares has its repeats first; when all variants have theirs, whole
    rounds are added while there is time for another. No trial is begun that has no time to end. Only the first go adds rounds: once a
    verdict was seen, more trials would be chosen by it. `begun`: the moment from which the hours count; by itself, now.
    """
    if at_once > 1 and description.timed:
        raise LaminarError(
            "L008",
            f"{at_once} trials at once, but time is measured: they would slow each other down",
            hint="timed = false in the sweep, or one",
        )
    if on is not None and any(PLACE in one.settings for one in description.variants):
        raise LaminarError(
            "L008", f"--on {on}: the sweep itself says where each variant runs", hint="leave --on out, or the axis 'on' of the sweep"
        )
    if on is not None:
        launcher_of(on)  # as below: a wrong word leaves no experiment behind
    if sweep.search is not None:
        from laminar.experiments.search import need_optuna

        need_optuna()  # before anything is written: no experiment without trials is left behind
    with files.running(store, description.name):
        described = begin(store, description)
        go = _Go(described, sweep, file, store, emit, on, clock, stack_of, at_once, fill, begun)
        return go.through(at_once, trainer)


def begin(store: Store, description: Description) -> Description:
    """The description on disk, written now or found; L020 when the one found asks something else."""
    if files.exists(store, description.name):
        old = files.read_description(store, description.name)
        if why := another_question(old, description):
            raise LaminarError(
                "L020",
                f"there is an experiment '{description.name}' already, and {why}: its trials cannot be held against new ones",
                hint=f"laminar experiment rm {description.name}, or give this one another name",
            )
        description = msgspec.structs.replace(description, created=old.created)
        if description == old:
            return old
    files.write_description(store, description)
    return description


def another_question(old: Description, new: Description) -> str:
    """Why trials of the one are none of the other; empty where they are. More repeats, values or measures are the same question."""
    for field, words in (("stack", "it is about the stack"), ("layer", "it is about the layer"), ("timed", "its timed is")):
        if getattr(old, field) != getattr(new, field):
            return f"{words} {getattr(old, field)}, not {getattr(new, field)}"
    changed = [one.label for one in new.variants if old.inputs.get(one.id, new.inputs[one.id]) != new.inputs[one.id]]
    if changed:
        return f"the stack, its data, its code or torch has changed since (for {changed[0]})"
    if new.timed:
        for fact in ("processor", "cores"):
            if old.machine.get(fact) != new.machine.get(fact):
                return f"its times were measured on another machine ({fact} {old.machine.get(fact)}, not {new.machine.get(fact)})"
    return ""


@final
class _Go:
    """One go at an experiment. Threads, one a trial process, share it under one lock."""

    def __init__(
        self,
        description: Description,
        sweep: Sweep,
        file: StackFile,
        store: Store,
        emit: Emit,
        on: str | None,
        clock: Clock,
        stack_of: StackOf | None,
        at_once: int,
        fill: bool,
        begun: float | None,
    ) -> None:
        self._description, self._sweep, self._store = description, sweep, store
        self._emit, self._on, self._clock = emit, on, clock
        self.trials = files.read_trials(store, description.name)
        first = compared_first(description, in_turn=stack_of is not None) if fill else None
        self._agenda: Agenda = agenda_of(description, sweep, file, self.trials, in_turn=stack_of is not None, at_once=at_once, first=first)
        self._fill, self._adds = fill, fill and not any(one.counted for one in self.trials)
        self._added = False  # a round beyond the repeats that are described
        self._stack_of: StackOf = stack_of or (
            lambda variant, what: (
                apply(file, description, variant, what.repeat, sweep.set, warm_up=what.warm_up),
                description.layer,
            )
        )
        self._lock = threading.Condition()
        self._under_way: dict[tuple[str, int, bool], Next] = {}
        self._trainers: list[Trainer] = []
        self._begun, self._run = clock.monotonic() if begun is None else begun, 0
        self._stop = ""
        self._error: BaseException | None = None
        self._disturbed = False
        self._at_work, self._over = 0, threading.Event()

    def through(self, at_once: int, trainer: Callable[[], Trainer]) -> list[Trial]:
        self._at_work = max(1, at_once)
        threads = [threading.Thread(target=self._work, args=(trainer,), daemon=True) for _ in range(self._at_work)]
        deadline = self._deadline()
        self._tell_end_of(None)
        for thread in threads:
            thread.start()
        try:
            self._over.wait()  # not join(): a thread whose join was interrupted is taken for ended (bpo-45274)
        except KeyboardInterrupt:
            self._leave("interrupted")
            self._over.wait()
            raise
        finally:
            if deadline is not None:
                deadline.cancel()
        if self._error is not None:
            raise self._error
        if self._stop and self._agenda.left() and not self._added:  # time may also run out while the last process ends
            self._emit({"event": "note", "why": f"{self._stop}: running it again goes on"})
        return self.trials

    def _deadline(self) -> threading.Timer | None:
        """A budget of hours also ends the trial under way: it keeps a checkpoint."""
        hours = self._sweep.budget.hours
        if hours is None or hours * 3600 > threading.TIMEOUT_MAX:  # some centuries: no clock waits so long, and nobody else
            return None
        why = over_budget(Spent(seconds=hours * 3600, trials=0), hours=hours, trials=None)
        timer = threading.Timer(max(0.0, self._seconds_left()), self._leave, args=(why,))
        timer.daemon = True
        timer.start()
        return timer

    def _leave(self, why: str) -> None:
        with self._lock:
            self._stop = self._stop or why
            self._lock.notify_all()
            trainers = list(self._trainers)
        for one in trainers:
            one.interrupt()

    def _work(self, trainer: Callable[[], Trainer]) -> None:
        own: Trainer | None = None
        try:
            own = trainer()
            with self._lock:
                self._trainers.append(own)
            while (one := self._next()) is not None:
                trial = self._one(own, *one)
                with self._lock:
                    if trial is not None:
                        files.append_trial(self._store, self._description.name, trial)
                        self.trials.append(trial)
                        self._agenda.add(trial)
                    del self._under_way[_name(one[0])]
                    self._lock.notify_all()
                self._tell_end_of(trial)
        except BaseException as error:
            with self._lock:
                self._error = self._error or error
            self._leave("failed")
        finally:
            if own is not None:
                own.close()
            with self._lock:
                self._at_work -= 1
                if not self._at_work:
                    self._over.set()

    def _next(self) -> tuple[Next, Variant] | None:
        """What is to be run now; None when there is nothing more, or when it is to stop. Waits while that depends on what is under way."""
        with self._lock:
            while not self._stop:
                budget = self._sweep.budget
                spent = Spent(seconds=self._clock.monotonic() - self._begun, trials=self._run)
                if why := over_budget(spent, hours=budget.hours, trials=budget.trials):
                    self._stop = why if self._agenda.left() or self._under_way else ""
                    return None
                ahead = [one for one in self._agenda.left() if _name(one) not in self._under_way]
                if ahead and not self._has_time(ahead[0]):
                    self._stop = f"there is no time left for another trial of {self._agenda.variant(ahead[0].variant).label}"
                    return None
                if ahead:
                    self._under_way[_name(ahead[0])] = ahead[0]
                    self._run += not ahead[0].warm_up
                    return ahead[0], self._agenda.variant(ahead[0].variant)
                if not self._under_way and not self._go_on():
                    return None
                if self._under_way:
                    self._lock.wait()
            return None

    def _go_on(self) -> bool:
        """Add a round of repeats to a run that fills its time, if there is time for it."""
        if not self._adds or not isinstance(self._agenda, Rounds) or not self._agenda.go_on(self._seconds_left()):
            return False
        self._added = True
        return True

    def _has_time(self, one: Next) -> bool:
        """A run that fills its time begins no trial that would be cut short."""
        return not self._fill or not isinstance(self._agenda, Rounds) or self._agenda.has_time(one.variant, self._seconds_left())

    def _seconds_left(self) -> float:
        hours = self._sweep.budget.hours
        return math.inf if hours is None else hours * 3600 - (self._clock.monotonic() - self._begun)

    def _one(self, own: Trainer, what: Next, variant: Variant) -> Trial | None:
        """One trial, from start to end; None when it was interrupted."""
        described = self._description
        if self._disturbed and not self._sweep.even_if_busy:
            _wait_for_calm(lambda: bool(self._stop))
        self._emit({"event": "trial", **self._told(), "label": variant.label, "repeat": what.repeat, "warm_up": what.warm_up})
        common: dict[str, Any] = {
            "variant": variant.id,
            "repeat": what.repeat,
            "settings": {} if variant in described.variants else variant.settings,
        }
        started = time.time()
        on = place_of(variant, self._sweep) or self._on
        watched = described.timed and on in (None, "local")  # a cluster works elsewhere, or in processes that are not ours
        try:
            stack, layer = self._stack_of(variant, what)
        except LaminarError as error:  # a value that a search proposed
            return _failed(common, what, started, 0.0, {"code": error.code, "message": error.message, "hint": error.hint})
        asked = {
            "file": stack.to_json(),
            "store": str(self._store.root),
            "layer": layer,
            "again": described.timed,
            "until": what.until,
            "on": on,
            "like": self._like(variant),
        }
        began = [time.perf_counter()]
        readings = [read_now()] if watched else []

        def ready() -> None:
            """Only now does the trial begin: a new process has loaded torch."""
            began.append(time.perf_counter())
            if watched:
                readings.append(read_now())

        answer = own.ask(asked, self._emit, on_ready=ready)
        busy = 0.0
        if watched:
            before, after = readings[-1], read_now()
            busy = compare(before, after, os.getpid()).share if after.at - before.at >= SECONDS else 0.0
        if answer.get("interrupted") or (self._stop and "error" in answer):
            return None
        if "error" in answer and answer["error"]["code"].startswith(NO_FAULT_OF_THE_TRIAL):
            raise LaminarError(answer["error"]["code"], answer["error"]["message"], hint=answer["error"]["hint"])
        if "error" in answer:
            return _failed(common, what, started, time.perf_counter() - began[-1], _by_axis(described, answer["error"]))
        found: Mapping[str, Any] = answer.get("done") or answer["stopped"]
        why_not = self._why_not(what, busy, bool(found.get("resumed")))
        self._disturbed = busy > LIMIT
        return msgspec.convert(
            {
                **{name: value for name, value in found.items() if name != "resumed"},
                **common,
                "outcome": "done" if "done" in answer else "stopped",
                "counted": not why_not,
                "why_not": why_not,
                "busy": round(busy, 3),
            },
            Trial,
        )

    def _like(self, variant: Variant) -> str | None:
        """A layer of the same model: another seed changes nothing of its graph. None where the time of exporting it is measured."""
        if "wall" in self._description.measures:
            return None
        with self._lock:
            return next((one.layer for one in reversed(self.trials) if one.variant == variant.id and one.layer), None)

    def _why_not(self, what: Next, busy: float, resumed: bool) -> str:
        if what.warm_up:
            return WARM_UP
        if not self._description.timed:
            return ""
        if resumed:
            return "it went on from a checkpoint, and was not timed in one go"
        if busy > LIMIT and not what.last_try and not self._sweep.even_if_busy:
            return f"others took {busy:.0%} of a core meanwhile"
        return ""

    def _told(self) -> dict[str, Any]:
        """How far it is."""
        with self._lock:
            ahead, done = self._agenda.left(), self._agenda.done()
            later = self._agenda.later()
            return {
                "name": self._description.name,
                "done": done,
                "of": done + len(ahead) + later,
                "left_seconds": expected_seconds(ahead, self.trials, later),
            }

    def _tell_end_of(self, trial: Trial | None) -> None:
        told: dict[str, Any] = {"event": "experiment", **self._told(), "trial": None}
        if trial is not None:
            told["trial"] = {
                "label": self._agenda.variant(trial.variant).label,
                "repeat": trial.repeat,
                "outcome": trial.outcome,
                "seconds": trial.seconds,
                "metrics": trial.metrics,
                "why_not": trial.why_not,
                "error": trial.error,
            }
        self._emit(told)


def _name(one: Next) -> tuple[str, int, bool]:
    return one.variant, one.repeat, one.warm_up


def _by_axis(description: Description, error: Mapping[str, str]) -> Mapping[str, str]:
    """Who never wrote the argument that a model does not take is told which axis did."""
    for axis in description.axes:
        place, _, argument = axis.path.rpartition(".")
        if error["code"] == "L202" and f"unknown argument '{argument}'" in error["message"]:
            hint = f"axis {axis.name} sets {argument} in {place}: give the model such an argument, or name a layer whose model has it"
            return {**error, "hint": hint}
    return error


def _failed(common: Mapping[str, Any], what: Next, started: float, wall: float, error: Mapping[str, str]) -> Trial:
    why = WARM_UP if what.warm_up else ""
    return Trial(outcome="failed", started=started, wall=wall, error=dict(error), counted=not why, why_not=why, **common)


def _wait_for_calm(stopped: Callable[[], bool]) -> None:
    until = time.monotonic() + CALM
    while time.monotonic() < until and not stopped():
        before = read_now()
        time.sleep(SECONDS)
        if compare(before, read_now(), os.getpid()).share <= LIMIT:
            return


def default_at_once(description: Description, on: str | None) -> int:
    """One after the other, but on Ray, where time is not measured: there is room for one a core."""
    on_ray = on is not None and on.partition(":")[0] == "ray"
    return this_machine().cores if on_ray and not description.timed else 1


def all_failed(trials: Sequence[Trial]) -> LaminarError | None:
    """L610 when there are trials and none of them came to an end."""
    counted = [one for one in trials if not one.why_not.startswith(WARM_UP)]
    if not counted or any(one.outcome != "failed" for one in counted):
        return None
    first = counted[0].error
    return LaminarError(
        "L610",
        f"every trial failed, {len(counted)} of them; the first with {first.get('code', '?')}: {first.get('message', '')}",
        hint=first.get("hint", "") or "laminar experiment show NAME lists them",
    )

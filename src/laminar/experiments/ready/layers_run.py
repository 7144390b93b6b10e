"""Builds of both ways, classic and layered, each at first and after a change, in a store of their own: nothing is there to be reused.

The parts of a development depend on each other, so they are no trials that could be run in any order: one repeat is all of them.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec

from laminar.core import digest
from laminar.core.clock import SYSTEM, Clock
from laminar.core.events import Emit, Event
from laminar.experiments import files
from laminar.experiments.heard import hear
from laminar.experiments.ready.form import Ask, Ready
from laminar.experiments.ready.layers import ALL, CLASSIC, HEADS, MODELS, label, stack_text
from laminar.experiments.record import Axis, Description, Trial
from laminar.experiments.run import begin
from laminar.experiments.variants import QUICK, variant_of
from laminar.plan.profile.busy import SECONDS, compare, read_now
from laminar.stack.build import Built, build
from laminar.stack.project import open_project
from laminar.store.store import Store

if TYPE_CHECKING:
    from laminar.launch.on_cluster import OnCluster

STARTING: Final = 300.0  # seconds that a cluster may take
WAYS: Final = (CLASSIC, "layered")


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """Where workers run, and how many."""

    on: str = "local"
    workers: int = 1


def describe(ready: Ready, ask: Ask, place: Place, machine: dict[str, Any], now: float) -> Description:
    variants = tuple(variant_of(one.settings, one.label) for one in ready.choices)
    texts = [stack_text(way, ask, workers=place.workers, hidden=hidden, seed=0) for way in WAYS for hidden in HEADS.values()]
    asked = digest.of_json({"stacks": texts, "models": MODELS, "on": place.on})
    return Description(
        name=(ask.name or ready.name) + (QUICK if ask.quick else ""),
        title=ready.title,
        question=ready.question,
        stack="layered",
        layer="digits",
        axes=(Axis(name="part", values=tuple(one.settings["part"] for one in ready.choices)),),
        variants=variants,
        benchmark=variants[0].id,
        measures=ready.measures,
        repeats=ask.repeats or ready.repeats,
        quick=ask.quick,
        statements=tuple(ready.sweep(ask).statement),
        machine=machine,
        created=now,
        inputs={one.id: asked for one in variants},
        notes=(*ready.notes, f"{place.workers} worker{'s' if place.workers > 1 else ''}, --on {place.on}"),
    )


def run(description: Description, ask: Ask, place: Place, store: Store, emit: Emit, clock: Clock = SYSTEM) -> list[Trial]:
    """Repeats that are not whole yet. Trials of earlier goes included."""
    with files.running(store, description.name):
        description = begin(store, description)
        found = files.read_trials(store, description.name)
        for repeat in range(description.repeats):
            done = {one.variant for one in found if one.repeat == repeat}
            if done >= {one.id for one in description.variants}:
                continue
            for trial in _developed(description, ask, repeat, place, emit, clock):
                if trial.variant not in done:
                    files.append_trial(store, description.name, trial)
                    found.append(trial)
                    emit(_told(description, trial, len(found)))
    return found


def _told(description: Description, trial: Trial, done: int) -> Event:
    """As run.py tells of a trial."""
    name = next(one.label for one in description.variants if one.id == trial.variant)
    shown = {"label": name, "repeat": trial.repeat, "outcome": trial.outcome, "seconds": trial.seconds, "metrics": trial.metrics}
    of = len(description.variants) * description.repeats
    told = {"event": "experiment", "name": description.name, "done": done, "of": of, "left_seconds": None}
    return told | {"trial": shown | {"why_not": "", "error": {}}}


def _developed(description: Description, ask: Ask, repeat: int, place: Place, emit: Emit, clock: Clock) -> Iterator[Trial]:
    """Every part, once. What is loaded and started only once, processes of a cluster too, is the engine's time, and no layer's."""
    ids = {variant.label: variant.id for variant in description.variants}
    with tempfile.TemporaryDirectory(prefix="laminar-layers-") as name, _cluster(place.on) as how:
        small = msgspec.structs.replace(ask, quick=True, epochs=1)
        _built(Path(name) / "warm", stack_text(CLASSIC, small, workers=place.workers, hidden=32, seed=repeat), emit, clock, how)
        for way in WAYS:
            found: list[Trial] = []
            for change, hidden in HEADS.items():
                text = stack_text(way, ask, workers=place.workers, hidden=hidden, seed=repeat)
                for built, trial in _built(Path(name) / way, text, emit, clock, how):
                    found.append(msgspec.structs.replace(trial, variant=ids[label(way, built.name, change)], repeat=repeat))
                if way != CLASSIC and not change:
                    found.append(_all(found, ids[ALL]))
            yield from found


@contextlib.contextmanager
def _cluster(on: str) -> Iterator[OnCluster | None]:
    from laminar.launch.choose import launcher_of
    from laminar.launch.on_cluster import OnCluster

    launcher = launcher_of(on)
    if launcher is None:
        yield None
        return
    with OnCluster(launcher, starting=STARTING) as how:
        yield how


def _built(folder: Path, text: str, emit: Emit, clock: Clock, how: OnCluster | None) -> list[tuple[Built, Trial]]:
    """What was trained, not what was reused."""
    folder.mkdir(exist_ok=True)
    (folder / "models.py").write_text(MODELS, encoding="utf-8")
    (folder / "laminar.toml").write_text(text, encoding="utf-8")
    project, began = open_project(folder), clock.now()
    told: dict[str, list[Event]] = defaultdict(list)

    def tell(event: Event) -> None:
        told[event.get("layer", "")].append(event)
        emit(event)

    before = read_now()
    report = build(project.need_file(), project.open_store(), emit=tell, clock=clock, how=how)
    after = read_now()
    busy = compare(before, after, os.getpid()).share if after.at - before.at >= SECONDS else 0.0
    return [(built, _trial(built, told[built.name], began, busy)) for built in report.layers if built.action == "built"]


def _trial(built: Built, told: list[Event], began: float, busy: float) -> Trial:
    heard = hear(told)
    metrics: dict[str, Any] = heard.metrics | built.metrics
    return Trial(
        variant="",
        repeat=0,
        outcome="done",
        started=began,
        wall=built.seconds,
        busy=round(busy, 3),
        seconds=built.spent.get("training", 0.0),
        metrics=metrics,
        curve=heard.curve,
        series=heard.series,
        team=built.team,
        spent=built.spent,
    )


def _all(parts: list[Trial], variant: str) -> Trial:
    """The whole development: as long as its layers together, as good as the last."""
    together = {"wall": sum(one.wall for one in parts), "seconds": sum(one.seconds for one in parts)}
    return msgspec.structs.replace(parts[-1], variant=variant, curve=(), series={}, team={}, spent={}, **together)

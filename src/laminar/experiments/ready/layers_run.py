"""The parts of both developments as trials (run.py), in the order in which they stand on each other: each a layer in the store.

"All three" is no training: it is the sum of the three layers of its repeat.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, final

import msgspec

from laminar.core import digest
from laminar.core.events import Emit, Event
from laminar.experiments import files
from laminar.experiments.heard import plain_error
from laminar.experiments.measures import measure_of
from laminar.experiments.order import Next, standing
from laminar.experiments.ready.form import Ask, Ready, own_wishes
from laminar.experiments.ready.layers import (
    ALL,
    CHANGED,
    CLASSIC,
    HEADS,
    MENDED_FIRST,
    MODELS,
    PARTS,
    TO_TARGET,
    WARM_SAMPLES,
    WAYS,
    short,
    stack_text,
)
from laminar.experiments.record import Axis, Description, Point, Trial, Variant
from laminar.experiments.run import run as run_trials
from laminar.experiments.spec import Budget, Sweep
from laminar.experiments.trial_process import Answer, TrialProcess
from laminar.experiments.variants import QUICK, QUICK_SECONDS, variant_of
from laminar.stack.read import FILE, StackFile, parse
from laminar.store.store import Store


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """Where workers run, and how many."""

    on: str = "local"
    workers: int = 1


def describe(ready: Ready, ask: Ask, place: Place, machine: dict[str, Any], now: float) -> Description:
    variants = tuple(variant_of(one.settings, one.label) for one in ready.choices)
    benchmark = variants[0].id
    if ask.quick:
        variants = tuple(sorted(variants, key=lambda variant: MENDED_FIRST.index(variant.label)))
    texts = [stack_text(way, ask, workers=place.workers, hidden=hidden, seed=0) for way in WAYS for hidden in HEADS.values()]
    asked = digest.of_json({"stacks": texts, "models": MODELS, "on": place.on})
    quick = (f"a quick look: {short(ask)}, {QUICK_SECONDS:.0f} seconds at most",) if ask.quick else ()
    return Description(
        name=(ask.name or ready.name) + (QUICK if ask.quick else ""),
        title=ready.title,
        question=ready.question,
        stack="layered",
        layer="digits",
        axes=(Axis(name="part", values=tuple(one.settings["part"] for one in ready.choices)),),
        variants=variants,
        benchmark=benchmark,
        measures=ready.measures,
        repeats=ask.repeats or ready.repeats,
        warm_up=1,
        target=ready.target,
        quick=ask.quick,
        statements=tuple(ready.sweep(ask).statement),
        machine=machine,
        created=now,
        inputs={one.id: asked for one in variants},
        notes=(*ready.notes, *own_wishes(ask), *quick, f"{place.workers} worker{'s' if place.workers > 1 else ''}, --on {place.on}"),
        study=ready.study,
        command=ask.command,
    )


def run(
    description: Description, ask: Ask, place: Place, budget: Budget, store: Store, emit: Emit, begun: float | None = None
) -> list[Trial]:
    """Trials of earlier goes included."""
    fill = ask.quick and ask.repeats is None
    if ask.quick:
        budget = Budget(hours=min(budget.hours or 1.0, QUICK_SECONDS / 3600), trials=budget.trials)
    sweep = Sweep(name=description.name, even_if_busy=ask.quick or ask.even_if_busy, budget=budget)
    with _project() as folder:
        parts = _Parts(description, ask, place, store, folder)
        first, _ = parts.stack_of(description.variants[0], Next(variant=description.benchmark, repeat=0))
        on = None if place.on == "local" else place.on
        return run_trials(
            description, sweep, first, store, emit, on=on, trainer=lambda: parts, stack_of=parts.stack_of, fill=fill, begun=begun
        )


def end_to_end(parts: Sequence[Trial], target: float | None) -> tuple[Point, ...]:
    """The curve of the last part, after the time that those before it took to the target; nothing where one of them did not reach it."""
    if target is None:
        return ()
    before = [measure_of(one, TO_TARGET, target) for one in parts[:-1]]
    if any(seconds is None for seconds in before):
        return ()
    offset = sum(seconds or 0.0 for seconds in before)
    return tuple(msgspec.structs.replace(one, seconds=one.seconds + offset) for one in parts[-1].curve)


@contextmanager
def _project() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="laminar-layers-") as name:
        (Path(name) / "models.py").write_text(MODELS, encoding="utf-8")
        yield Path(name)


@final
class _Parts:
    """Knows the stack of each part, and trains it in a process of its own. One thread asks for a stack, and then has it trained."""

    def __init__(self, description: Description, ask: Ask, place: Place, store: Store, folder: Path) -> None:
        self._description, self._ask, self._place, self._store, self._folder = description, ask, place, store, folder
        self._process = TrialProcess()
        self._now = Next(variant=description.benchmark, repeat=0)
        self._label = CLASSIC

    def stack_of(self, variant: Variant, what: Next) -> tuple[StackFile, str]:
        self._now, self._label = what, variant.settings["part"]
        way, layer, change = PARTS[self._label]
        ask = msgspec.structs.replace(self._ask, epochs=1) if what.warm_up else self._ask
        most = WARM_SAMPLES if what.warm_up else None
        text = stack_text(way, ask, workers=self._place.workers, hidden=HEADS[change], seed=what.repeat, most=most)
        path = self._folder / FILE
        path.write_text(text, encoding="utf-8")  # a cluster is sent the folder
        return parse(text, path), layer

    def ask(self, asked: dict[str, Any], emit: Emit, *, on_ready: Callable[[], None] | None = None) -> Answer:
        if self._label == ALL and not self._now.warm_up:
            return self._together()
        found: list[str] = []

        def hear(event: Event) -> None:
            if event["event"] == "features" and event.get("reused"):
                found.append(event["key"])
            emit(event)

        answer = self._process.ask(asked, hear, on_ready=on_ready)
        if found and "done" in answer and PARTS[self._label][2] != CHANGED:
            # An earlier experiment has left them. The first time, a layer has to compute its features; after a change they are there.
            for key in found:
                self._forget(key)
            answer = self._process.ask(asked, emit, on_ready=on_ready)
        return answer

    def _forget(self, key: str) -> None:
        with self._store.lock(f"features-{key}"):
            shutil.rmtree(self._store.layout.feature(key), ignore_errors=True)

    def _together(self) -> Answer:
        """The whole development: as long as its layers together, as good as the last."""
        labels = [label for label, (way, _, change) in PARTS.items() if way != CLASSIC and change != CHANGED and label != ALL]
        ids = {one.label: one.id for one in self._description.variants}
        known = standing(files.read_trials(self._store, self._description.name))
        parts = [known[ids[label], self._now.repeat] for label in labels]
        failed = next((one for one in parts if one.outcome != "done"), None)
        if failed is not None:
            why = f"a layer that it is the sum of failed: {failed.error.get('message', '')}"
            return {"error": plain_error(failed.error.get("code", "L611"), why, failed.error.get("hint", ""))}
        last = parts[-1].metrics
        curve = end_to_end(parts, self._description.target)
        return {
            "done": {
                "started": parts[0].started,
                "wall": sum(one.wall for one in parts),
                "seconds": sum(one.seconds for one in parts),
                "metrics": {name: last[name] for name in ("accuracy", "loss") if name in last},
                "curve": msgspec.to_builtins(curve),
                "sum_of": [ids[label] for label in labels],
            }
        }

    def interrupt(self) -> None:
        self._process.interrupt()

    def close(self) -> None:
        self._process.close()

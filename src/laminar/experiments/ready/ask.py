"""Ask: run a ready experiment on the stack at hand or on its own, and give what came of it. The same command goes on where it was left."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from laminar.core.clock import SYSTEM, Clock
from laminar.core.errors import LaminarError
from laminar.core.events import Emit, nowhere
from laminar.data.count import training_samples
from laminar.data.fingerprint import fingerprint
from laminar.experiments.prepare import prepare
from laminar.experiments.ready import stacks
from laminar.experiments.ready.catalogue import READY, parts
from laminar.experiments.ready.form import ADDRESS, Ask, Ready, own_wishes
from laminar.experiments.record import Description, Trial
from laminar.experiments.run import machine_facts, run
from laminar.experiments.spec import Budget, Sweep
from laminar.stack.plan import fingerprint_folder
from laminar.stack.project import Project
from laminar.stack.read import FILE, StackFile, parse
from laminar.store.store import Store


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    ready: Ready
    description: Description
    trials: list[Trial]


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """How much of it is run in this go, and where. `workers` is for `layers` and `flowers`, `on` for `layers`."""

    hours: float | None = None
    trials: int | None = None
    workers: int | None = None
    on: str | None = None


def uses_stack_at_hand(name: str, project: Project, ask: Ask) -> bool:
    return READY[name].at_hand and project.file is not None and ask.data is None


def answers(
    name: str, ask: Ask, project: Project, limits: Limits | None = None, emit: Emit = nowhere, clock: Clock = SYSTEM
) -> Iterator[Answer]:
    """One for each part of the experiment, as it ends. Mistakes are told before anything is trained."""
    begun = clock.monotonic() if ask.quick else None  # a minute is promised, and looking at the data is a part of it
    limits = limits or Limits()
    at_hand = uses_stack_at_hand(name, project, ask)
    if ask.layer is not None and not at_hand:
        raise LaminarError(
            "L008",
            f"--layer {ask.layer}: the built-in stack has one layer",
            hint=f"leave it out, or run it where a {FILE} is, without --data",
        )
    facts = machine_facts()
    ask = msgspec.structs.replace(ask, at_hand=at_hand, cores=int(facts.get("cores", ask.cores)), workers=limits.workers)
    store = project.open_store()
    if at_hand and name == "batch":
        ask = msgspec.structs.replace(ask, have=_training_samples(project.need_file(), ask.layer, store))
    for ready in parts(name, ask):
        one = ask if ask.name is None else msgspec.structs.replace(ask, name=ask.name + ready.name.removeprefix(name))
        if name == "layers":
            yield _layers(ready, one, limits, store, emit, facts, clock, begun)
        elif name == "layout":
            yield _layout(ready, one, limits, store, emit, facts, clock, begun)
        else:
            with _served(ready) as stack:
                file = project.need_file() if at_hand else _own(stack, store)
                yield _sweep(name, ready, one, limits, file, store, emit, clock, begun)


@contextlib.contextmanager
def _served(ready: Ready) -> Iterator[str]:
    """The stack that comes with it, while the images that it names are served."""
    if ready.images is None:
        yield ready.stack
        return
    from laminar.experiments.ready.grid_run import serving

    words = ["data", "serve", str(ready.images), "--http", "0", "--host", "127.0.0.1", "--json"]
    with serving(*words, cwd=Path.cwd()) as mirror:
        yield ready.stack.replace(ADDRESS, f"{mirror['urls'][0]}/index.json#sha256={mirror['sha256']}")


def _own(text: str, store: Store) -> StackFile:
    """The stack it comes with; no file is written. Where its data is not to be had, what needs no network is named."""
    file = parse(text, store.root.parent / FILE)
    for spec in file.spec.data.values():
        try:
            fingerprint(spec, file.root, fingerprint_folder(store))
        except LaminarError as error:
            more = "" if spec.source == "flowers" else "; or --data digits, which comes with Laminar"
            raise LaminarError(error.code, f"{spec.where} is not to be had: {error.message}", hint=f"{error.hint}{more}") from None
    return file


def _training_samples(file: StackFile, name: str | None, store: Store) -> int:
    layer = file.spec.layer[-1] if name is None else next((one for one in file.spec.layer if one.name == name), file.spec.layer[-1])
    spec, cache = file.spec.data[layer.data], fingerprint_folder(store)
    return training_samples(spec, fingerprint(spec, file.root, cache), file.root, cache)


def _layers(
    ready: Ready, ask: Ask, limits: Limits, store: Store, emit: Emit, facts: dict[str, Any], clock: Clock, begun: float | None
) -> Answer:
    from laminar.experiments.ready import layers_run
    from laminar.experiments.ready.layers import LAYERED, stack_text

    _own(stack_text(LAYERED, ask, workers=1, hidden=1, seed=0), store)
    usual = 4 if limits.on not in (None, "local") else 1 if ask.quick else min(4, ask.cores)
    place = layers_run.Place(on=limits.on or "local", workers=limits.workers or usual)
    described = layers_run.describe(ready, ask, place, facts, clock.now())
    trials = layers_run.run(described, ask, place, Budget(hours=limits.hours, trials=limits.trials), store, emit, begun)
    return Answer(ready=ready, description=described, trials=trials)


def _layout(
    ready: Ready, ask: Ask, limits: Limits, store: Store, emit: Emit, facts: dict[str, Any], clock: Clock, begun: float | None
) -> Answer:
    from laminar.experiments.ready import layout_run

    file = _own(stacks.mlp(ask), store)
    described = layout_run.describe(ready, ask, file, facts, clock.now())
    trials = layout_run.run(described, ask, Budget(hours=limits.hours, trials=limits.trials), file, store, emit, begun)
    return Answer(ready=ready, description=described, trials=trials)


def _sweep(
    name: str, ready: Ready, ask: Ask, limits: Limits, file: StackFile, store: Store, emit: Emit, clock: Clock, begun: float | None
) -> Answer:
    fill = ready.fills(ask)
    prepared = prepare(_limited(ready.sweep(ask), limits), file, store, quick=ask.quick, fill=fill, clock=clock)
    described = msgspec.structs.replace(
        prepared.description,
        notes=(*ready.notes, *own_wishes(ask), *prepared.description.notes),
        study=ready.study,
        epochs=ready.epochs,
        command=ask.command,
        tables=ready.tables,
    )
    more: dict[str, Any] = {}
    if name == "grid":
        from laminar.experiments.ready.grid_run import GridTrainer

        words = ["--allow-private"] if ready.images is not None else []  # they are on this machine
        more["trainer"] = functools.partial(GridTrainer, *words, shared=ask.quick or bool(ready.speeds), speeds=ready.speeds)
    trials = run(described, prepared.sweep, prepared.file, store, emit, clock=clock, fill=fill, begun=begun, **more)
    return Answer(ready=ready, description=described, trials=trials)


def _limited(sweep: Sweep, limits: Limits) -> Sweep:
    return msgspec.structs.replace(sweep, budget=Budget(hours=limits.hours, trials=limits.trials))

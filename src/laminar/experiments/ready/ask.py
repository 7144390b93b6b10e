"""Ask: run a ready experiment on the stack at hand or on its own, and give what came of it. The same command goes on where it was left."""

from __future__ import annotations

from typing import Any

import msgspec

from laminar.core.clock import SYSTEM, Clock
from laminar.core.errors import LaminarError
from laminar.core.events import Emit, nowhere
from laminar.data.fingerprint import fingerprint
from laminar.experiments.ready.catalogue import READY, parts
from laminar.experiments.ready.form import Ask, Ready
from laminar.experiments.record import Description, Trial
from laminar.experiments.run import machine_facts, run
from laminar.experiments.spec import Budget
from laminar.experiments.variants import describe, quicker
from laminar.stack.plan import fingerprint_folder
from laminar.stack.project import Project
from laminar.stack.read import FILE, StackFile, parse
from laminar.store.store import Store


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    ready: Ready
    description: Description
    trials: list[Trial]


def uses_stack_at_hand(name: str, project: Project, ask: Ask) -> bool:
    return READY[name].at_hand and project.file is not None and ask.data is None


def answer(
    name: str,
    ask: Ask,
    project: Project,
    emit: Emit = nowhere,
    *,
    trials: int | None = None,
    on: str | None = None,
    workers: int | None = None,
    clock: Clock = SYSTEM,
) -> list[Answer]:
    """`trials`: at most so many in this go. `on` and `workers` are for `layers`."""
    at_hand = uses_stack_at_hand(name, project, ask)
    if ask.layer is not None and not at_hand:
        raise LaminarError(
            "L008",
            f"--layer {ask.layer}: the built-in stack has one layer",
            hint=f"leave it out, or run it where a {FILE} is, without --data",
        )
    facts = machine_facts()
    ask = msgspec.structs.replace(ask, at_hand=at_hand, cores=int(facts.get("cores", ask.cores)))
    store = project.open_store()
    found = []
    for ready in parts(name, ask):
        one = ask if ask.name is None else msgspec.structs.replace(ask, name=_part_name(ask.name, name, ready))
        if name == "layers":
            from laminar.experiments.ready import layers_run

            place = layers_run.Place(on=on or "local", workers=workers or (min(4, ask.cores) if on in (None, "local") else 4))
            described = layers_run.describe(ready, one, place, facts, clock.now())
            kept = layers_run.run(described, one, place, store, emit, clock)
        else:
            file = project.need_file() if at_hand else _own(ready, store)
            described, kept = _sweep(name, ready, one, file, store, emit, facts, trials, clock)
        found.append(Answer(ready=ready, description=described, trials=kept))
    return found


def _part_name(given: str, name: str, ready: Ready) -> str:
    """An experiment of several parts has as many names."""
    return given + ready.name.removeprefix(name)


def _own(ready: Ready, store: Store) -> StackFile:
    """The stack it comes with; no file is written. L101 and the like, where its data cannot be had, with what needs none."""
    file = parse(ready.stack, store.root.parent / FILE)
    for spec in file.spec.data.values():
        try:
            fingerprint(spec, file.root, fingerprint_folder(store))
        except LaminarError as error:
            more = "" if spec.source == "flowers" else "; or --data digits, which comes with Laminar"
            raise LaminarError(error.code, f"{spec.source} is not to be had: {error.message}", hint=f"{error.hint}{more}") from None
    return file


def _sweep(
    name: str,
    ready: Ready,
    ask: Ask,
    file: StackFile,
    store: Store,
    emit: Emit,
    facts: dict[str, Any],
    trials: int | None,
    clock: Clock,
) -> tuple[Description, list[Trial]]:
    sweep, notes = ready.sweep(ask), list(ready.notes)
    if ask.quick:
        sweep, file, more = quicker(sweep, file)
        notes += more
    if trials is not None:
        sweep = msgspec.structs.replace(sweep, budget=Budget(hours=sweep.budget.hours, trials=trials))
    described = describe(sweep, file, store, now=clock.now(), machine=facts, notes=notes, quick=ask.quick)
    if name == "grid":
        from laminar.experiments.ready.grid_run import GridTrainer

        return described, run(described, sweep, file, store, emit, clock=clock, trainer=GridTrainer)
    return described, run(described, sweep, file, store, emit, clock=clock)

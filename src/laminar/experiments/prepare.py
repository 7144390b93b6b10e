"""Prepare: from a sweep and a stack to what is run: the description, with everything checked that can be seen without training."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from laminar.core.clock import SYSTEM, Clock
from laminar.experiments.record import Description
from laminar.experiments.run import machine_facts
from laminar.experiments.spec import Sweep
from laminar.experiments.variants import describe, quicker
from laminar.stack.read import StackFile
from laminar.store.store import Store


@dataclass(frozen=True)
class Prepared:
    description: Description
    sweep: Sweep
    file: StackFile


def prepare(
    sweep: Sweep,
    file: StackFile,
    store: Store,
    *,
    quick: bool = False,
    fill: bool = False,
    yes: bool = False,
    command: str = "",
    clock: Clock = SYSTEM,
) -> Prepared:
    """`command`: with which the same is asked again. `fill`: a quick run uses all of its minute (variants.quicker)."""
    notes: list[str] = []
    if quick:
        sweep, file, notes = quicker(sweep, file, fill=fill)
    described = describe(sweep, file, store, yes=yes, now=clock.now(), machine=machine_facts(), notes=notes, quick=quick)
    return Prepared(msgspec.structs.replace(described, command=command), sweep, file)

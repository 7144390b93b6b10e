"""The ready experiments by name. Their modules are imported when one is asked for."""

from __future__ import annotations

from importlib import import_module
from typing import Final

import msgspec

from laminar.experiments.ready.form import Ask, Ready

LIMITS: Final = ("hours", "trials", "even_if_busy")
SWEEP: Final = ("data", "samples", *LIMITS)  # what all have whose trials are builds of one layer


class Entry(msgspec.Struct, frozen=True):
    takes: tuple[str, ...]  # options of the command line, besides those that all have
    at_hand: bool = True  # it can be asked of the stack at hand; else it has its own


READY: Final[dict[str, Entry]] = {
    "sequential": Entry((*SWEEP, "epochs", "batch"), at_hand=False),
    "cores": Entry((*SWEEP, "epochs", "batch", "layer")),
    "neurons": Entry((*SWEEP, "epochs", "batch", "layer")),
    "depth": Entry((*SWEEP, "epochs", "batch", "layer")),
    "epochs": Entry((*SWEEP, "batch", "layer")),
    "scaling": Entry((*SWEEP, "epochs", "batch", "layer")),
    "batch": Entry((*SWEEP, "layer", "target")),
    "strategies": Entry((*SWEEP, "epochs", "batch", "layer", "target")),
    "flowers": Entry(("epochs", "batch", "samples", *LIMITS), at_hand=False),
    "layers": Entry(("data", "samples", *LIMITS, "epochs", "batch", "workers", "on"), at_hand=False),
    "grid": Entry(("data", "nodes", "hours", "trials"), at_hand=False),
}


def parts(name: str, ask: Ask) -> tuple[Ready, ...]:
    """What is run when it is asked for: one experiment, or a few."""
    made = import_module(f"laminar.experiments.ready.{name}").ready(ask)
    return made if isinstance(made, tuple) else (made,)

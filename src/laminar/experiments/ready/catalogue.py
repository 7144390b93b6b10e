"""The ready experiments by name. Their modules are imported when one is asked for."""

from __future__ import annotations

from importlib import import_module
from typing import Final

import msgspec

from laminar.experiments.ready.form import Ask, Ready


class Entry(msgspec.Struct, frozen=True):
    at_hand: bool = True  # it can be asked of the stack at hand; else it has its own
    own_way: bool = False  # its trials are no builds of one layer
    takes: tuple[str, ...] = ("epochs", "batch", "layer")  # options besides those that all have


READY: Final[dict[str, Entry]] = {
    "sequential": Entry(at_hand=False, takes=("epochs", "batch")),
    "cores": Entry(),
    "neurons": Entry(),
    "depth": Entry(),
    "epochs": Entry(takes=("batch", "layer")),
    "scaling": Entry(),
    "batch": Entry(takes=("layer", "target")),
    "strategies": Entry(takes=("epochs", "batch", "layer", "target")),
    "flowers": Entry(at_hand=False, takes=("epochs", "batch")),
    "layers": Entry(at_hand=False, own_way=True, takes=("epochs", "batch", "on", "workers")),
    "grid": Entry(at_hand=False, own_way=True, takes=()),
}


def parts(name: str, ask: Ask) -> tuple[Ready, ...]:
    """What is run when it is asked for: one experiment, or a few."""
    made = import_module(f"laminar.experiments.ready.{name}").ready(ask)
    return made if isinstance(made, tuple) else (made,)

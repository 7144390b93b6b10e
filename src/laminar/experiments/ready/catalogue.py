"""The ready experiments by name. Their modules are imported when one is asked for."""

from __future__ import annotations

from importlib import import_module
from typing import Final

import msgspec

from laminar.experiments.ready.form import Ask, Ready

LIMITS: Final = ("hours", "trials", "even_if_busy")
STORES: Final = ("checkpoint_steps", "write_seconds")
PLACES: Final = ("single", "cluster", "workers")
SWEEP: Final = ("data", "samples", *LIMITS)  # what all have whose trials are builds of one layer


class Entry(msgspec.Struct, frozen=True):
    main: str  # the main question: what its first statement answers, and a quick run asks first
    takes: tuple[str, ...]  # options of the command line, besides those that all have
    at_hand: bool = True  # it can be asked of the stack at hand; else it has its own


READY: Final[dict[str, Entry]] = {
    "sequential": Entry("Is the network as accurate as the published one?", (*SWEEP, "epochs", "batch"), at_hand=False),
    "cores": Entry("Do two cores take longer than one?", (*SWEEP, "epochs", "batch", "layer")),
    "neurons": Entry("Does a wider network have a lower loss?", (*SWEEP, "epochs", "batch", "layer")),
    "depth": Entry("Does a deeper network have a higher loss?", (*SWEEP, "epochs", "batch", "layer")),
    "epochs": Entry("Do five epochs lower the loss against one?", (*SWEEP, "batch", "layer")),
    "scaling": Entry("Are two workers faster than one with the same batch?", (*SWEEP, "epochs", "batch", "layer")),
    "batch": Entry("Does a batch stop to pay above 1,024?", (*SWEEP, "layer", "target")),
    "strategies": Entry("Do two workers reach the target sooner than one process?", (*SWEEP, "epochs", "batch", "layer", "target")),
    "backprop": Entry("Is a pipeline of two workers faster than one process?", (*SWEEP, "epochs", "batch", "layer")),
    "speedup": Entry("Does the speed-up of two workers rise with the batch?", (*SWEEP, "epochs", "layer")),
    "shape": Entry("Does a deep network take longer than a wide one of the same size?", (*SWEEP, "epochs", "batch"), at_hand=False),
    "layout": Entry("Are shuffled batches fetched slower where data lie by feature?", ("data", "samples", "batch", *LIMITS), at_hand=False),
    "flowers": Entry(
        "Do workers with parameter servers take less time than one process?",
        ("epochs", "batch", "samples", *STORES, *PLACES, *LIMITS),
        at_hand=False,
    ),
    "layers": Entry(
        "After a mistake, does retraining the last layer cost less than retraining everything?",
        ("data", "samples", *LIMITS, "epochs", "batch", "workers", "on", "target"),
        at_hand=False,
    ),
    "grid": Entry("Is what a desktop grid trains as accurate as the published network?", ("data", "hours", "trials"), at_hand=False),
}


def parts(name: str, ask: Ask) -> tuple[Ready, ...]:
    """What is run when it is asked for: one experiment, or a few."""
    made = import_module(f"laminar.experiments.ready.{name}").ready(ask)
    return made if isinstance(made, tuple) else (made,)

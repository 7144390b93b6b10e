"""Misgivings: a training that ended with finite numbers, and learnt nothing. Figures in, a warning or nothing out; no torch."""

from __future__ import annotations

from typing import Final

from laminar.core.figures import number

WARNING: Final = "warning: "
WORSE: Final = 2.0  # times what guessing costs: overconfident models are a little worse than guessing, and may still be good ones


def misgivings(*, loss: float, guess: float, first: float | None, lr: float) -> str:
    """What is wrong with a test loss of `loss`, where guessing (every class alike, or the mean) gives `guess`.

    `first` is the loss of the first batch, before anything was learnt.
    """
    if loss <= WORSE * guess:
        return ""
    times = f"{number(loss / guess)} times" if guess > 0 else "and not"
    said = f"{WARNING}the test loss is {number(loss)}, {times} what guessing gives ({number(guess)})"
    if first is not None and loss <= first:
        return f"{said}; it began at {number(first)}: train longer, or bring the targets to a smaller scale"
    began = f" and it began at {number(first)}" if first is not None else ""
    return f"{said}{began}: training went astray; lower lr (it is {lr:g}), or set clip = 1.0"

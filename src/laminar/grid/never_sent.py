"""Never sent: sparse answers, and a run too short for them. What a node has not sent when the run ends is lost. Pure, no torch.

A value is sent once in 1 / (1 - sparsity) answers of a node: at 99.9 % once in a thousand, and a node may answer ten times. Then most of
what was learned stays on the nodes, and what does come, comes long after it was computed, when rate and batch statistics have moved on.
"""

from __future__ import annotations

import math
from typing import Final

from laminar.grid.settings import Settings
from laminar.train.compression import Dgc, TopK

ENOUGH: Final = 0.5  # of the values, in all answers of a node; below it is told. 0.8 cost 0.3 points (benchmarks/RESULTS.md)
TWICE: Final = 2.0  # times that each value should be sent: the first is of the untrained model


def never_sent(settings: Settings) -> str:
    """A warning with its remedy, where most values would never be sent; else nothing. As many nodes are reckoned with as `workers`."""
    how = settings.grid
    spec = how.compression
    if not isinstance(spec, TopK | Dgc):
        return ""
    tasks = settings.rounds * (how.workers if how.mode == "rounds" else how.buffer)
    left, sent = float(tasks), 0.0
    if isinstance(spec, Dgc):
        for epoch in range(spec.warmup_epochs):
            some = min(left, settings.batches / how.local_steps)
            left, sent = left - some, sent + some * spec.ratio(epoch)
    share = (sent + left * (1 - spec.sparsity)) / how.workers
    if share >= ENOUGH:
        return ""
    answers = tasks / how.workers
    # rounded down, so that the sparsity that is named is never one that is warned about
    sparsity = math.floor(100 * (1 - TWICE / max(answers, TWICE))) / 100
    remedy = f"sparsity = {sparsity:g} sends each about twice" if sparsity >= 0.5 else 'compress = "int8" sends all of them'
    times = f"about {answers:.0f} times" if answers >= 1.5 else "about once"
    return f"a node answers {times}, and in all that it sends at most {share:.1%} of the values, and the rest is lost: {remedy}"

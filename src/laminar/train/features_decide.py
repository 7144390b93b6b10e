"""Decide: is keeping the outputs of a frozen prefix cheaper than computing them again? Numbers in, a verdict with its numbers out.

Disk may be slower than the processor, and features may be larger than what they are made of, so nothing is taken for granted:
the prefix and the disk are timed on a few samples before this is asked.
"""

from __future__ import annotations

import os
import re
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from laminar.core.errors import LaminarError
from laminar.core.sizes import parse_bytes

Wish = Literal["auto", "always", "never"]

BUDGET: Final = 2 << 30
FREE_SHARE: Final = 0.25
SETTING: Final = "LAMINAR_FEATURES_BUDGET"
# Keeping may cost this build a little (an only epoch), because the next change of the layer above finds the features there.
PATIENCE: Final = 1.1
# Seconds to find a prefix and to prove it, whatever comes of it: tracing takes a time of its own, and one for each module.
LOOKING: Final = 0.3
LOOKING_MODULE: Final = 0.02


@dataclass(frozen=True)
class Costs:
    """What was measured and counted. Seconds are per sample."""

    train: int
    test: int
    missing: int  # samples of both splits whose features are not kept yet
    kept: int  # samples whose features are kept for this prefix, of any data set
    epochs: int
    compute: float  # the prefix, in training's batches
    read: float  # a kept row
    read_plain: float  # the sample itself, which the plain route reads instead
    write: float
    row_bytes: int
    budget: int
    free: int  # bytes left on the disk


@dataclass(frozen=True)
class Decision:
    keep: bool
    reason: str
    with_kept: float = 0.0  # predicted seconds for what the prefix costs in this build
    without: float = 0.0


def decide(costs: Costs, wish: Wish = "auto") -> Decision:
    """Keep when this build gets no slower by it and the rows fit the budget; `always` asks for space only."""
    if wish == "never":
        return Decision(False, 'the recipe says keep_features = "never"')
    visits = costs.epochs * (costs.train + costs.test)
    without = visits * (costs.compute + costs.read_plain)
    kept = visits * costs.read + costs.missing * (costs.compute + costs.write)
    new_bytes = costs.missing * costs.row_bytes
    whole = (costs.kept + costs.missing) * costs.row_bytes
    numbers = (
        f"computing {_ms(costs.compute)} a sample, reading {_ms(costs.read)}; "
        f"{_epochs(costs.epochs)}: {_seconds(without)} computed, {_seconds(kept)} kept"
    )
    if new_bytes > costs.free * 0.9:
        return Decision(False, f"{size(new_bytes)} would be written, but the disk has {size(costs.free)} left", kept, without)
    if wish == "always":
        return Decision(True, f'the recipe says keep_features = "always" ({numbers}; {size(whole)})', kept, without)
    if whole > costs.budget:
        return Decision(False, f"{size(whole)} would be kept, more than the budget of {size(costs.budget)} ({SETTING})", kept, without)
    # Rows that are there stay in use even on a slow day: a build that is resumed shall take the route that it began with.
    slack = 1.0 if costs.missing else 2.0
    if costs.read >= (costs.compute + costs.read_plain) * slack:
        return Decision(False, f"reading is no cheaper than computing: {numbers}", kept, without)
    if costs.missing and kept > without * PATIENCE:
        return Decision(False, f"keeping would cost more than it saves: {numbers}", kept, without)
    return Decision(True, f"{numbers}; {size(whole)} of {size(costs.budget)}", kept, without)


def too_short(*, epochs: int, samples: int, compute: float, modules: int) -> str:
    """Why it is not worth looking for a prefix: even if it were the whole model, which takes `compute` seconds a sample. "" if it is."""
    most, looking = epochs * samples * compute, LOOKING + LOOKING_MODULE * modules
    if most > looking:
        return ""
    return (
        f"there is little to save: the whole model takes {_ms(compute)} a sample, {_seconds(most)} in {_epochs(epochs)}, "
        f"and finding out what could be kept about {_seconds(looking)}"
    )


def budget(folder: Path, setting: str | None = None) -> tuple[int, int]:
    """(bytes that all kept features together may take, bytes free on the disk of `folder`)."""
    free = shutil.disk_usage(folder).free
    text = setting if setting is not None else os.environ.get(SETTING, "")
    if not text:
        return min(BUDGET, int(free * FREE_SHARE)), free
    return parse_size(text, free), free


def parse_size(text: str, free: int) -> int:
    """`20GB`, `512MiB`, `30%` (of what is free) or plain bytes."""
    share = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*%\s*", text)
    if share:
        return int(free * float(share.group(1)) / 100)
    found = parse_bytes(text)
    if found is None:
        raise LaminarError(
            "L008", f"{SETTING} is {text!r}, but must be a size such as 20GB, 512MiB or 30%", hint=f"export {SETTING}=2GB, or unset it"
        )
    return found


def size(count: float) -> str:
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000:
            return f"{count:.0f} {unit}" if unit == "B" or count >= 10 else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} TB"


def _epochs(count: int) -> str:
    return f"{count} epoch{'s' if count != 1 else ''}"


def _ms(seconds: float) -> str:
    return f"{seconds * 1e3:.3f} ms" if seconds < 0.01 else f"{seconds * 1e3:.1f} ms"


def _seconds(seconds: float) -> str:
    return f"{seconds:.2f} s" if seconds < 10 else f"{seconds:.0f} s"

"""Layers that experiments hold: gc keeps those that a line of some experiments/NAME/trials.jsonl names, until the experiment is removed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from laminar.core import atomic
from laminar.store.layout import Layout
from laminar.store.records import corrupt

TRIALS: Final = "trials.jsonl"


def held(layout: Layout) -> frozenset[str]:
    """Ids. L303 when a line is damaged, unless it is the last: that one was being written when its writer was killed."""
    return frozenset(id for path in sorted(layout.experiments.glob(f"*/{TRIALS}")) for id in _named(path))


def _named(path: Path) -> Iterator[str]:
    lines = atomic.read_bytes(path).split(b"\n")
    for number, line in enumerate(lines[:-1]):  # what comes after the last end of a line is torn, or nothing
        try:
            trial = json.loads(line)
        except ValueError:
            raise corrupt(path, f"line {number + 1} is not JSON") from None
        if isinstance(trial, dict) and trial.get("layer"):
            yield str(trial["layer"])

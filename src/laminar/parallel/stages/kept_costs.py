"""Kept costs: how long operators took when a run began, in the run's folder.

Where a model is cut, and which lane has which branch, decides in which order gradients of a value with several uses are added up. A run
that goes on from a checkpoint is cut as it was, not by what takes longer today, and so ends with the same bits.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec

from laminar.core import atomic
from laminar.parallel.stages.flow import Flow
from laminar.parallel.stages.measure import Cost
from laminar.train.checkpoint import OPERATORS, POINTER


class Kept(msgspec.Struct, frozen=True):
    operators: list[str]
    rows: int
    threads: int
    costs: list[Cost]


def kept_costs(folder: Path, flow: Flow, rows: int, threads: int, measure: Callable[[], list[Cost]]) -> list[Cost]:
    """Of the same operators for as many rows, if there is a checkpoint to go on from; else they are measured, and kept."""
    path, operators = folder / OPERATORS, [f"{op.call.path} {op.call.target}" for op in flow.operations]
    found = _read(path) if (folder / POINTER).exists() else None
    if found is not None and (found.operators, found.rows, found.threads) == (operators, rows, threads):
        return found.costs
    costs = measure()
    atomic.write_text(path, msgspec.json.encode(Kept(operators, rows, threads, costs)).decode())
    return costs


def _read(path: Path) -> Kept | None:
    """None: there is none that can be read."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=Kept)
    except (OSError, msgspec.DecodeError):
        return None

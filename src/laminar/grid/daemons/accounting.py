"""Accounting: what each node keeps back, by its sketch, when its answers are not used after all.

A node that compresses puts the packet of an unused answer back into its residual (node/worker.py); here its account follows.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from laminar.core.seeds import derive
from laminar.grid.db import uploads, versions
from laminar.grid.db.book import Tx
from laminar.grid.db.runs import Run
from laminar.grid.settings import Settings
from laminar.grid.wire.answer import BadAnswer, parse
from laminar.grid.wire.sketch import SIZE, Sketch, Sketcher
from laminar.parallel.compress.packet import BadPacket, Packet
from laminar.parallel.compress.values import read_values


@lru_cache(maxsize=8)
def _sketcher(numel: int, seed: int) -> Sketcher:
    return Sketcher(numel, seed)


def sketcher_of(settings: Settings) -> Sketcher:
    return _sketcher(settings.layout.numel, derive(settings.recipe.seed, "grid sketch"))


def keeps_back(run: Run) -> bool:
    return run.settings.grid.compression.kind not in ("none", "fp16")


def account_of(tx: Tx, run: Run, node: str) -> Sketch:
    kept = versions.account(tx, run.id, node)
    return np.zeros(SIZE, np.float32) if kept is None else np.frombuffer(kept, "<f4")


def put_back(tx: Tx, run: Run, node: str, result: int, now: float, *, accounted: bool) -> None:
    """An answer is not used. `accounted`: its packet was taken off the account; else not even its work was put on it."""
    if not keeps_back(run):
        return
    try:
        answer = parse(uploads.read(tx, result))
        positions, values = read_values(Packet.parse(answer.packet), run.settings.layout, run.settings.grid.compression)
    except (BadAnswer, BadPacket):
        return
    if not np.isfinite(answer.sketch).all():
        return
    account = np.zeros(SIZE, np.float32) if answer.head.fresh and not accounted else account_of(tx, run, node)
    if accounted:
        sketcher = sketcher_of(run.settings)
        account = account + (sketcher.of(values) if positions is None else sketcher.of_some(positions, values))
    else:
        account = account + answer.sketch
    versions.keep_account(tx, run.id, node, account.astype(np.float32).tobytes(), now)

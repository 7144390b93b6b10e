"""Row facts: what the probe (row_probe.py) found out about a model whose batches are split by rows. This module does not need torch."""

from __future__ import annotations

from typing import Any

import msgspec

from laminar.core.errors import LaminarError
from laminar.train.strategies import Sync


class RowFacts(msgspec.Struct, frozen=True, kw_only=True):
    """How the rows of a batch depend on each other in a model."""

    channels: list[int] = []  # of each batch norm that takes statistics of the batch, call by call as the model is trained
    learned: list[bool] = []  # whether a gradient flows through it, for each of `channels`
    judged: bool = False  # whether a batch norm also uses batch statistics in tests
    tracked: list[str] = []  # buffers in which batch and instance norms keep running statistics
    mixes: str = ""  # how else the rows of a batch depend on each other, in words; empty: not at all

    @property
    def pooled(self) -> bool:
        """Whether workers have statistics to exchange."""
        return bool(self.channels or self.judged or self.tracked)

    def to_json(self) -> dict[str, Any]:
        json: dict[str, Any] = msgspec.to_builtins(self)
        return json

    @classmethod
    def from_json(cls, json: dict[str, Any]) -> RowFacts:
        return msgspec.convert(json, cls)


def refuse_mixed(facts: RowFacts, how: Sync) -> None:
    """Raise L012 if splitting batches by rows would train another layer under the key of one process."""
    if facts.mixes and how.mixed_rows == "refuse" and how.workers > 1:
        raise LaminarError(
            "L012",
            f"the rows of a batch depend on each other: {facts.mixes}; {how.workers} workers of sync, "
            "each with a part of the rows, would train another layer than one process",
            hint='train with one process (strategy = "solo") or a mesh; or set mixed_rows = "worker" in strategy: '
            "each worker then uses its own rows only, and the number of workers is in the key",
        )


def by_worker(facts: RowFacts, how: Sync) -> list[str]:
    """Notes for a layer that differs from that of one process, because each worker used its own rows only."""
    notes = []
    if facts.pooled and how.batch_norm == "worker" and how.workers > 1:
        notes.append(f"batch norms used the statistics of each worker's own rows ({how.workers} workers)")
    if facts.mixes and how.workers > 1:
        notes.append(f"the rows of a batch depend on each other ({facts.mixes}), and each of {how.workers} workers used its own rows only")
    return notes

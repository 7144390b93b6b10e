"""Row facts: what is known of a model whose batches are shared out by rows. No torch here."""

from __future__ import annotations

from typing import Any

import msgspec

from laminar.core.errors import LaminarError
from laminar.train.strategies import Sync


class RowFacts(msgspec.Struct, frozen=True, kw_only=True):
    """Found by running it (row_probe.py)."""

    channels: list[int] = []  # of each batch norm that takes statistics of the batch, call by call as the model is trained
    learned: list[bool] = []  # goes a gradient through it?
    judged: bool = False  # does one take them also where the model is judged?
    tracked: list[str] = []  # buffers that these, and instance norms, keep running statistics in
    mixes: str = ""  # where else the rows of a batch depend on each other; empty: nowhere

    @property
    def pooled(self) -> bool:
        """Is there anything that workers have to exchange?"""
        return bool(self.channels or self.judged or self.tracked)

    def to_json(self) -> dict[str, Any]:
        found: dict[str, Any] = msgspec.to_builtins(self)
        return found

    @classmethod
    def from_json(cls, told: dict[str, Any]) -> RowFacts:
        return msgspec.convert(told, cls)


def refuse_mixed(facts: RowFacts, how: Sync) -> None:
    """L012 where parts of a batch would give another layer under the key of one process."""
    if facts.mixes and how.mixed_rows == "refuse" and how.workers > 1:
        raise LaminarError(
            "L012",
            f"the rows of a batch depend on each other: {facts.mixes}; {how.workers} workers of sync have some rows each, "
            "and would not learn what one process learns",
            hint='one process (strategy = "solo"), a mesh, which exchanges what it needs; or mixed_rows = "worker" in strategy: '
            "each worker's rows by themselves, as another layer with the number of workers in its key",
        )


def by_worker(facts: RowFacts, how: Sync) -> list[str]:
    """For the notes of a layer that is not the one of one process, because each worker's rows were taken by themselves."""
    found = []
    if facts.pooled and how.batch_norm == "worker" and how.workers > 1:
        found.append(f"batch norms had the statistics of the rows of each of {how.workers} workers")
    if facts.mixes and how.workers > 1:
        found.append(f"the rows of a batch depend on each other ({facts.mixes}), and each of {how.workers} workers had its own")
    return found

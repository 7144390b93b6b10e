"""Team statistics: those of a whole batch, of which each worker of a team has some rows. Exchanged at each batch norm, there and back."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import final

import torch
from torch import Tensor

from laminar.parallel.sync.batch_norms import BatchNorms, Moments, combined, moments_of
from laminar.parallel.sync.row_facts import RowFacts
from laminar.parallel.sync.sent_bytes import of_rows
from laminar.parallel.sync.statistics_room import END, NORM, SUM, Room


@final
class TeamStatistics:
    """Of a member of a team. Between `among` and the end of `together` all that have rows of the batch make the same exchanges."""

    constant = False

    def __init__(self, room: Room, rank: int, facts: RowFacts) -> None:
        self._room, self._rank, self._ranks = room, rank, [rank]
        self._mode = BatchNorms(self)
        self.judges, self.tracked = facts.judged, frozenset(facts.tracked)
        self._sent = 0  # bytes, by all of them to each other, since the last step

    def among(self, ranks: Sequence[int]) -> None:
        self._ranks = list(ranks)
        self._room.among(ranks)

    @contextlib.contextmanager
    def together(self) -> Iterator[None]:
        """Batch norms have the statistics of all that have rows of the batch."""
        with self._mode:
            yield
        self._exchange(END, torch.zeros(0, dtype=torch.float64))

    def moments(self, x: Tensor) -> Moments:
        own = moments_of(x)
        count = own.mean.new_tensor([float(own.count)])
        found = self._exchange(NORM, torch.cat([count, own.mean, own.squares]))
        channels = len(own.mean)
        return combined([Moments(int(row[0]), row[1 : 1 + channels], row[1 + channels :]) for row in found])

    def add_up(self, own: Tensor) -> Tensor:
        first, *others = self._exchange(SUM, own)
        for other in others:
            first = first + other
        return first

    def sent_since(self) -> int:
        """Bytes that all have sent to each other since this was asked last, as far as this member has had rows."""
        sent, self._sent = self._sent, 0
        return sent

    def _exchange(self, what: int, own: Tensor) -> list[Tensor]:
        if len(self._ranks) == 1:
            return [own]
        self._sent += of_rows(len(own), len(self._ranks))
        return [row.to(own.device) for row in self._room.exchange(what, own)]

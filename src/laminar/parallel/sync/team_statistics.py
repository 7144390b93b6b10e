"""Team statistics: statistics of a whole batch that a team shares by rows, exchanged at each batch norm, forward and backward."""

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
    """The statistics as one member sees them. Between `among` and the end of `together`, all members with rows make the same exchanges."""

    constant = False

    def __init__(self, room: Room, rank: int, facts: RowFacts) -> None:
        self._room, self._rank, self._ranks = room, rank, [rank]
        self._mode = BatchNorms(self)
        self.judges, self.tracked = facts.judged, frozenset(facts.tracked)
        self._sent = 0  # bytes that all members sent to each other since the last step

    def among(self, ranks: Sequence[int]) -> None:
        self._ranks = list(ranks)
        self._room.among(ranks)

    @contextlib.contextmanager
    def together(self) -> Iterator[None]:
        """While the context is active, batch norms use the statistics of all members with rows of the batch."""
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
        """Bytes that all members sent to each other since the last call, in batches of which this member had rows."""
        sent, self._sent = self._sent, 0
        return sent

    def _exchange(self, what: int, own: Tensor) -> list[Tensor]:
        if len(self._ranks) == 1:
            return [own]
        self._sent += of_rows(len(own), len(self._ranks))
        return [row.to(own.device) for row in self._room.exchange(what, own)]

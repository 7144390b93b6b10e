"""A team on one machine: what its members have in common lies in shared memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import final

import torch
from torch import Tensor, nn

from laminar.parallel import buffer_row
from laminar.parallel.meeting import Meeting
from laminar.parallel.segment import Segment
from laminar.parallel.sync.crowding import Crowding
from laminar.parallel.sync.layout import LENGTH, SUMS, Layout
from laminar.parallel.sync.own_state import OwnState
from laminar.parallel.sync.row_facts import RowFacts
from laminar.parallel.sync.shared_optimizer import SharedOptimizer
from laminar.parallel.sync.standing import Decides, Standing
from laminar.parallel.sync.statistics_room import SharedRoom
from laminar.parallel.sync.team_statistics import TeamStatistics
from laminar.parallel.waited import WAITED
from laminar.train.compression import NoCompression
from laminar.train.lines import on_a_line
from laminar.train.recipe import Recipe
from laminar.train.strategies import Sync, strategy
from laminar.train.team import Learner, WholeModel, rows_of_member


@final
class SharedTeam(WholeModel):
    def __init__(
        self,
        segment: Segment,
        layout: Layout,
        rank: int,
        decides: Callable[[int], Decides] = Crowding,
        model: nn.Module | None = None,
        facts: RowFacts | None = None,
    ) -> None:
        """`decides`: for a team of so many, who stands in for whom. `model`: is looked at for what it keeps beside its tensors. `facts`:
        where statistics are those of whole batches."""
        self.rank, self.size = rank, layout.size
        self._segment, self._layout = segment, layout
        self._words = segment.words(layout.words, layout.word_count)
        self._sums = segment.doubles(layout.sums, SUMS * layout.size)
        self.meeting = Meeting(self._words, rank, layout.size)
        self._buffers = segment.rows(layout.buffer_bytes(0), layout.size, layout.buffers)
        self._decides, self._model = decides, model
        room = None if facts is None else SharedRoom(segment, self._words, layout, self.meeting)
        self._statistics = None if facts is None or room is None else TeamStatistics(room, rank, facts)
        self._standing: Standing | None = None
        self._optimizer: SharedOptimizer | None = None
        self._batch = self._rows = 0  # of a whole batch, and of the one that goes through the model

    @property
    def pooled(self) -> TeamStatistics | None:
        return self._statistics

    @property
    def waited(self) -> float:
        return WAITED.seconds

    def optimizer(self, recipe: Recipe, params: Mapping[str, nn.Parameter]) -> SharedOptimizer:
        if self._may_stand_in(recipe):
            self._standing = Standing(self._words, self._layout, self.meeting, self._decides(self.size), OwnState(self._model))
        self._batch = recipe.batch
        made = SharedOptimizer(recipe, params, self._layout, self._segment, self.meeting, first=True, standing=self._standing)
        self._optimizer = made
        self.meeting.meet()
        return made

    def _may_stand_in(self, recipe: Recipe) -> bool:
        """Where a member has nothing to itself but its rows: what compression keeps back and running statistics are each member's own, and
        statistics of a batch are asked of all at once."""
        how = strategy(recipe.strategy)
        own = (
            self._statistics is not None
            or self._layout.buffers
            or recipe.accumulate > 1
            or not isinstance(how, Sync)
            or not isinstance(how.compression, NoCompression)
        )
        return self.size > 1 and not own and isinstance(how, Sync) and how.shares != "measured"

    @property
    def taking(self) -> range:
        return super().taking if self._standing is None else self._standing.ranks

    @property
    def steady(self) -> int | None:
        return None if self._standing is None else self._standing.left

    @property
    def resting(self) -> int:
        return 0 if self._standing is None else self._standing.resting

    def expect(self, rows: int) -> None:
        self._rows = rows

    def learn(self, learner: Learner, inputs: list[Tensor], targets: Tensor, share: float) -> tuple[Tensor | None, float]:
        if self._standing is None or len(taking := self._standing.ranks) < 2:
            return super().learn(learner, inputs, targets, share)
        assert self._optimizer is not None
        rows = [rows_of_member(self._rows, rank, self.size, self._batch) for rank in taking]
        outputs, added = [], 0.0
        for rank, mine in zip(taking, rows, strict=True):
            part, loss = slice(mine.start - rows[0].start, mine.stop - rows[0].start), 0.0
            if part.start < part.stop:
                count = part.stop - part.start
                made, value = learner.learn([on_a_line(one[part]) for one in inputs], targets[part], count / self._rows)
                outputs.append(made)
                added += value * count
                loss = value * (count / self._rows)
            self._optimizer.hand_in(rank, loss)
            self._optimizer.zero_grad()
        return torch.cat(outputs) if outputs else None, added / max(1, len(targets))

    def sum(self, own: Sequence[float]) -> list[float]:
        start = SUMS * self.rank
        for i, value in enumerate(own):
            self._sums[start + i] = value
        self.meeting.meet()
        found = [sum(self._sums[SUMS * rank + i] for rank in range(self.size)) for i in range(len(own))]
        self.meeting.meet()  # nobody gives the next ones before all have read these
        return found

    def gather(self, own: bytes) -> list[bytes]:
        layout, room = self._layout, self._layout.grad_room
        self._words[layout.facts(self.rank) + LENGTH] = len(own)
        self.meeting.meet()
        lengths = [self._words[layout.facts(rank) + LENGTH] for rank in range(self.size)]
        found = [bytearray() for _ in range(self.size if not self.rank else 0)]
        for at in range(0, max(lengths), room):
            part = own[at : at + room]
            self._segment.bytes(layout.grad_bytes(self.rank), len(part))[:] = part
            self.meeting.meet()
            for rank, so_far in enumerate(found):
                there = self._segment.bytes(layout.grad_bytes(rank), max(0, min(room, lengths[rank] - at)))
                so_far += there
                there[:] = bytes(len(there))  # by now, since others may write there next; gaps between tensors count as gradients, too
            self.meeting.meet()
        return [bytes(one) for one in found]

    @torch.no_grad()
    def share_buffers(self, buffers: Mapping[str, Tensor]) -> None:
        if not buffers:
            return
        tracked = set() if self._statistics is None else self._statistics.tracked
        own = sorted(buffers, key=lambda name: name not in tracked)
        same = buffer_row.count(buffers[name] for name in own if name in tracked)  # in all but those that had no rows of the last batch
        self._buffers[self.rank].copy_(buffer_row.row_of([buffers[name] for name in own]))
        self.meeting.meet()
        first = self._buffers[0]
        row = torch.cat([first[:same], buffer_row.mean(self._buffers[:, same:])])
        buffer_row.put_back([buffers[name] for name in own], row, whole=first)
        self.meeting.meet()

    def before_backward(self, *, last: bool) -> None:
        """There is nothing to send."""

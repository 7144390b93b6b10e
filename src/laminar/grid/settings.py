"""Settings of a run: what the server goes by. Made from a job by whoever trains (train.py), kept in the database as JSON. No torch."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import msgspec

from laminar.parallel.aggregate.rules import Rules
from laminar.parallel.compress.layout import Layout
from laminar.train.compression import Dgc, TopK
from laminar.train.on_grid import Grid
from laminar.train.own_daemons import Kind, OwnDaemon
from laminar.train.recipe import Recipe

WORKER = "grid"  # to the aggregator all nodes are one: the database knows which answer is whose, and that it came once


@dataclass(frozen=True, slots=True)
class Traffic:
    """The data of a task: a version down, an answer up."""

    down: float  # bytes
    up: float
    most: float  # seconds that it is given

    def seconds(self, *, up: float, down: float) -> float:
        """For which it is on the line of a node with these rates. One of 0 is not known, and takes no time. A node that says to be slower
        still is given no longer than `most`."""
        if not up and not down:
            return 0.0
        return min((self.down / down if down > 0 else 0.0) + (self.up / up if up > 0 else 0.0), self.most)


class Settings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    recipe: Recipe  # with the strategy
    rounds: int  # versions to make
    batches: int  # in an epoch, of the whole data set or of one local sample
    epoch_samples: int  # training samples of an epoch
    test_samples: int = 0  # that a version, or a node's own model on its sample, is tested on
    local: bool  # every node draws its own sample
    parameters: dict[str, tuple[int, ...]]
    buffers: int  # numbers in the model's buffers
    gradients: bool  # a task is the gradient of one batch; else the distance of some steps
    daemons: tuple[OwnDaemon, ...] = ()  # of other packages
    kernels: dict[str, str] = {}  # that the graph calls: sha256 -> the file's name without .c; nodes must have them

    @property
    def needs(self) -> frozenset[str]:
        """Kernels without which a node cannot do its tasks."""
        return frozenset(self.kernels)

    def own(self, kind: Kind) -> OwnDaemon | None:
        """A daemon of another package that does this in the place of ours."""
        return next((one for one in self.daemons if one.kind == kind), None)

    @property
    def grid(self) -> Grid:
        assert isinstance(self.recipe.strategy, Grid)
        return self.recipe.strategy

    @property
    def layout(self) -> Layout:
        return _layout(tuple(self.parameters.items()))

    @property
    def size(self) -> int:
        """Bytes of a version."""
        return 4 * self.layout.numel + 8 * self.buffers

    @property
    def answer_size(self) -> float:
        """Bytes of an answer, about."""
        how = self.grid.compression
        share = {"fp16": 0.5, "int8": 0.26}.get(how.kind, 1.0)
        if isinstance(how, TopK | Dgc):
            share = min(1.0, 2 * (1 - how.sparsity))  # places beside the values
        return 4 * self.layout.numel * share + 8 * self.buffers

    @property
    def traffic(self) -> Traffic:
        return Traffic(self.size, self.answer_size, self.grid.lease)

    @property
    def rules(self) -> Rules:
        how = self.grid
        if how.mode == "async":
            # a buffer that is not full when nobody answers any more is a step all the same
            waits = how.deadline if how.buffer > 1 else None
            return Rules(kind="arrival", buffer=how.buffer, deadline=waits, ageing=how.ageing, max_staleness=how.max_staleness)
        return Rules(
            kind="rounds",
            quorum=how.quorum,
            answers=how.workers,
            minimum=how.minimum,
            late=how.late,
            deadline=how.deadline,
            ageing=how.ageing,
            max_staleness=how.max_staleness,
        )

    def to_json(self) -> str:
        return msgspec.json.encode(self).decode()

    @classmethod
    def from_json(cls, text: str | bytes) -> Settings:
        return _DECODER.decode(text)


@lru_cache(maxsize=32)
def _layout(parameters: tuple[tuple[str, tuple[int, ...]], ...]) -> Layout:
    return Layout.of(dict(parameters))


_DECODER = msgspec.json.Decoder(Settings)


def position_of(settings: Settings, position: int) -> dict[str, Any]:
    """Where in the data the task lies that begins after so many steps of tasks: epoch, first batch, steps, progress in epochs."""
    how = settings.grid
    epoch, first = divmod(position, settings.batches)
    if settings.local:  # a sample is small, and gone through from its start in an order of the task's own
        epoch, first, steps = 0, 0, how.local_steps
    else:
        steps = min(how.local_steps, settings.batches - first)
    return {"epoch": epoch, "first": first, "steps": steps, "progress": position / settings.batches}

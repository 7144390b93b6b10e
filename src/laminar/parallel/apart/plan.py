"""Plan: what a server and a worker are told when they are started; JSON, and enough to start them again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from laminar.core.figures import many
from laminar.parallel.aggregate.rules import Rules
from laminar.parallel.compress.layout import Layout
from laminar.parallel.compress.local_clip import LocalClip
from laminar.parallel.compress.make import make_compressor
from laminar.parallel.compress.protocol import Compressor
from laminar.train.compression import Dgc
from laminar.train.recipe import Recipe
from laminar.train.strategies import Averaging, Downpour, Quorum, strategy

UNACKNOWLEDGED = 64 << 20  # bytes of pushes that a worker keeps until a server has them safe


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """Of the whole training; the same for every process of it."""

    recipe: Recipe  # with the strategy
    shards: list[dict[str, tuple[int, ...]]]  # names and shapes of the tensors on each server
    buffers: int  # numbers in the model's buffers (../buffer_row.py)
    batches: int  # in an epoch
    samples: int  # in an epoch
    unit: int = 1  # downpour: batches that a worker is given at once

    @property
    def how(self) -> Averaging | Downpour | Quorum:
        chosen = strategy(self.recipe.strategy)
        assert isinstance(chosen, Averaging | Downpour | Quorum)
        return chosen

    @property
    def steps(self) -> int:
        return self.batches * self.recipe.epochs

    @property
    def pushes_distances(self) -> bool:
        """Do workers push how far their own optimizers went, and no gradients?"""
        how = self.how
        return isinstance(how, Averaging) or (isinstance(how, Downpour) and how.push == "steps")

    def servers_note(self) -> str | None:
        """What to say where there are fewer servers than `shards` asks for."""
        asked, there = getattr(self.how, "shards", 1), len(self.shards)
        if there >= asked:
            return None
        return f"shards = {asked}, but the layer trains {many(there, 'tensor')}, which are not cut: {many(there, 'parameter server')}"

    def layout(self, shard: int) -> Layout:
        return Layout.of(self.shards[shard])

    def compressor(self, shard: int) -> Compressor:
        """For distances there is no momentum, clipping or decay: those are the workers' own optimizer's."""
        how, settings, inner = self.how, self.recipe.settings(), self.pushes_distances
        spec, before = how.compression, inner or self.local_clip() is not None
        return make_compressor(
            msgspec.structs.replace(spec, clip=None) if before and isinstance(spec, Dgc) else spec,
            self.layout(shard),
            workers=how.workers,
            momentum=0.0 if inner else settings.get("momentum", 0.0),
            nesterov=not inner and bool(settings.get("nesterov")),
            clip=None if before else self.recipe.clip,
            weight_decay=0.0 if before else settings["weight_decay"],
            seed=self.recipe.seed,
        )

    def local_clip(self) -> LocalClip | None:
        """Of several shards' compressors none sees the whole gradient: there it is done before them."""
        spec = self.how.compression
        if not isinstance(spec, Dgc) or self.pushes_distances or len(self.shards) == 1:
            return None
        return LocalClip(spec, workers=self.how.workers, clip=self.recipe.clip, weight_decay=self.recipe.settings()["weight_decay"])

    def room(self, shard: int) -> tuple[int, int]:
        """Bytes that messages to a server, and from it, have at most."""
        compressor, buffers = self.compressor(shard), 8 * self.buffers
        return compressor.max_nbytes + buffers, 4 * compressor.layout.numel + buffers

    def window(self, shard: int) -> int:
        """Pushes that a worker may have under way or not yet safe."""
        return max(4, min(512, UNACKNOWLEDGED // self.compressor(shard).max_nbytes))


def rules(how: Averaging | Downpour | Quorum) -> Rules:
    """The strategy as settings of the aggregator."""
    if isinstance(how, Downpour):
        among = how.workers if how.push == "steps" else None
        own: Literal["ahead", "known"] = "known" if how.push == "steps" else "ahead"  # unpushed.py
        return Rules(kind="arrival", ageing=how.ageing, max_staleness=how.max_staleness, among=among, own=own)
    if isinstance(how, Averaging):
        return Rules(kind="rounds", start=how.workers)
    return Rules(
        kind="rounds",
        start=how.workers,
        quorum=how.quorum,
        minimum=how.minimum,
        late=how.late,
        deadline=how.deadline,
        ageing=how.ageing,
        max_staleness=how.max_staleness,
    )


def plain_sgd(recipe: Recipe) -> Recipe:
    """What is left to do where momentum, clipping and decay are inside the packets."""
    return msgspec.structs.replace(recipe, momentum=None, nesterov=None, weight_decay=0.0, clip=None)


def to_json(plan: Plan) -> dict[str, Any]:
    found: dict[str, Any] = msgspec.to_builtins(plan)
    return found


def from_json(told: Mapping[str, Any]) -> Plan:
    return msgspec.convert(told, Plan)

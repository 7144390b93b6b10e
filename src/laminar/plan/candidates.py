"""Candidates: the strategies that are priced, of all that can be run with so many workers. No torch here.

Degrees go by powers of two and by what divides the number of workers. A mesh has an axis for rows of a batch, one for the model, or both;
what each module does apart from that is for the search (search_modules.py). Nothing is here that `laminar build` cannot run.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any, Final

import msgspec

from laminar.train.on_grid import Grid
from laminar.train.recipe import Recipe
from laminar.train.splitting import Branches, Mesh, Pipeline, Schedule
from laminar.train.strategies import AnyStrategy, Averaging, Downpour, Quorum, Solo, Sync

ROWS: Final = "rows"
COLS: Final = "cols"
SCHEDULES: Final[tuple[Schedule, ...]] = ("1f1b", "gpipe", "interleaved", "zero-bubble")
EVERY: Final = (8, 32, 128)  # steps between averages
PACES: Final = (1, 4, 16)  # steps between pushes and fetches
MICRO: Final = (2, 4, 8)  # micro-batches for each lane
TASKS: Final = (5, 20, 80)  # steps of a task of the grid
SMALL: Final = ("none", "int8", "dgc")  # how its answers are packed
TASK_TIMES: Final = (10.0, 40.0)  # deadline of a round and lease of a task, in tasks of a usual desktop; at least the defaults
# Tables for the axis of a model, by what its dimensions are called; where one has `hidden` and `channels`, both are split at once, too.
TABLES: Final = (
    ("hidden",),
    ("channels",),
    ("hidden", "channels"),
    ("heads", "hidden"),
    ("vocab", "hidden"),
    ("height",),
    ("width",),
    ("length",),
)


@dataclass(frozen=True)
class Space:
    """What may be chosen from."""

    workers: int  # at most
    recipe: Recipe
    samples: int
    dimensions: Collection[str] = ()  # of the model's tensors; none: it cannot be split
    several: bool = False  # machines, between which nothing is shared
    branches: int = 1  # side by side, at most
    stragglers: bool = False
    only_same: bool = False  # only what learns what one process learns
    desktops: int = 0  # of a grid
    desktop_step: float = 0.0  # seconds of a step on a usual one
    tensors: int | None = None  # that are trained; None: more than any plan has shards

    def counts(self) -> list[int]:
        """Numbers of workers that are tried, most first."""
        powers = [1 << k for k in range(1, self.workers.bit_length()) if 1 << k <= self.workers]
        return sorted({*powers, self.workers} - {0, 1}, reverse=True)


def candidates(space: Space) -> Iterator[AnyStrategy]:
    """All of them; what the model does not allow is found when it is priced."""
    yield from by_data(space)
    yield from by_model(space)
    yield from grids(space)


def by_data(space: Space) -> Iterator[AnyStrategy]:
    """One process, then those that split samples. All that need not look into the model, so they come first."""
    yield Solo()
    for workers in _counts(space):
        yield from (how for how in _with(space, workers) if allowed(space, how))


def by_model(space: Space) -> Iterator[AnyStrategy]:
    """Those that split or cut it; of each kind in turns, so that something is known of all of them where there is no time for the rest."""
    if not space.dimensions:
        return
    for workers in _counts(space):
        for some in zip_longest(_branched(space, workers), _pipelines(space, workers), meshes(space, workers)):
            yield from (how for how in some if how is not None and allowed(space, how))


def grids(space: Space) -> Iterator[Grid]:
    """What is played takes longer than what is summed up."""
    yield from (how for how in _grids(space) if allowed(space, how))


def _counts(space: Space) -> list[int]:
    return [workers for workers in space.counts() if workers <= min(space.recipe.batch, space.samples)]


def allowed(space: Space, how: AnyStrategy, batch: int | None = None) -> bool:
    """Can the layer's recipe be trained so, and may what is learned be something else? `batch`: another one than the recipe's."""
    if space.only_same and how.key_fields() is not None:
        return False
    rows = batch or space.recipe.batch
    try:
        msgspec.structs.replace(space.recipe, strategy=how, batch=rows)
    except ValueError:
        return False
    return _has_work(space, how, rows)


def _has_work(space: Space, how: AnyStrategy, batch: int) -> bool:
    """For every worker and every shard, or the executor refuses it (parallel/apart/prepare.py)."""
    if isinstance(how, Downpour) and space.tensors is not None and how.shards > space.tensors:  # a shard has whole ones
        return False
    if isinstance(how, Averaging | Downpour):  # whose workers take whole batches
        return how.workers <= batches_per_epoch(space.samples, batch)
    return not isinstance(how, Quorum) or how.workers <= min(batch, space.samples)


def batches_per_epoch(samples: int, batch: int) -> int:
    """As Job.batches_per_epoch has it: a last batch of one sample is left out."""
    whole, rest = divmod(samples, batch)
    return whole + (rest > 1 or (rest == 1 and whole == 0))


def _with(space: Space, workers: int) -> Iterator[AnyStrategy]:
    link: dict[str, Any] = {"link": "gloo"} if space.several else {}
    yield Sync(workers=workers, **link)
    if space.several:  # where what is sent takes time
        for small in ("fp16", "int8", "powersgd", "dgc"):
            if not (small == "dgc" and space.recipe.optimizer != "sgd"):
                yield Sync(workers=workers, compress=small, **link)
    for every in EVERY:
        yield Averaging(workers=workers, every=every)
    for pace in PACES:
        for shards in (1, 2):
            yield Downpour(workers=workers, shards=shards, n_push=pace, n_fetch=pace)
    if space.stragglers and workers > 2:
        yield Quorum(workers=workers, quorum=0.8)
        yield Quorum(workers=workers, quorum=0.8, late="age")


def _grids(space: Space) -> Iterator[Grid]:
    """That of the recipe as it is; then rounds of all desktops or half of them, and answers that are steps by themselves."""
    if not space.desktops or space.only_same:
        return
    if isinstance(space.recipe.strategy, Grid):
        yield space.recipe.strategy
    for steps in TASKS:
        usual = steps * space.desktop_step
        waits: dict[str, Any] = {
            "deadline": max(600.0, round(TASK_TIMES[0] * usual, 1)),
            "lease": max(3600.0, round(TASK_TIMES[1] * usual, 1)),
        }
        for small in SMALL:
            yield Grid(workers=space.desktops, local_steps=steps, compress=small, **waits)
        if space.desktops > 1:
            yield Grid(workers=space.desktops // 2, local_steps=steps, **waits)
            yield Grid(workers=space.desktops, local_steps=steps, quorum=1.0, **waits)
        # as many nodes as there are go the same way at once, so their ages must count in full
        yield Grid(workers=space.desktops, mode="async", buffer=max(1, space.desktops // 4), ageing=1.0, local_steps=steps, **waits)


def meshes(space: Space, workers: int) -> Iterator[Mesh]:
    link: dict[str, Any] = {"link": "gloo"} if space.several else {}
    for mesh, rest in _shapes(workers):
        for names in _tables(space.dimensions):
            split = dict.fromkeys(names, COLS) | ({"batch": ROWS} if rest > 1 else {})
            yield Mesh(mesh=mesh, split=split, **link)


def _shapes(workers: int) -> Iterator[tuple[dict[str, int], int]]:
    """Meshes with an axis for the model, and how many share the rows of a batch."""
    for cols in range(2, workers + 1):
        if workers % cols == 0:
            rows = workers // cols
            yield ({ROWS: rows, COLS: cols} if rows > 1 else {COLS: cols}), rows


def _tables(dimensions: Collection[str]) -> list[Sequence[str]]:
    return [names for names in TABLES if all(name in dimensions for name in names)]


def _pipelines(space: Space, workers: int) -> Iterator[Pipeline]:
    link: dict[str, Any] = {"link": "gloo"} if space.several else {}
    for lanes in (count for count in range(2, workers + 1) if workers % count == 0):
        rows = workers // lanes
        inner: dict[str, Any] = {"mesh": {ROWS: rows}, "split": {"batch": ROWS}} if rows > 1 else {}
        for schedule in SCHEDULES:
            for micro in MICRO:
                if micro * lanes * rows > space.recipe.batch:
                    continue
                stages = 2 * lanes if schedule == "interleaved" else lanes
                yield Pipeline(workers=workers, stages=stages, microbatches=micro * lanes, schedule=schedule, **inner, **link)


def _branched(space: Space, workers: int) -> Iterator[Branches]:
    link: dict[str, Any] = {"link": "gloo"} if space.several else {}
    for lanes in (count for count in range(2, min(workers, space.branches) + 1) if workers % count == 0):
        rows = workers // lanes
        inner: dict[str, Any] = {"mesh": {ROWS: rows}, "split": {"batch": ROWS}} if rows > 1 else {}
        yield Branches(lanes=lanes, **inner, **link)

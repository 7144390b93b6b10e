"""Apart: the pace of downpour, quorum and averaging, simulated event by event on a virtual clock. No torch here.

Workers whose steps take now longer, now shorter, servers with one thread each, cores and links that all of them share. Some seeds, and
what is in the middle and near the worst of them. Read apart_scene.py first (what goes in and comes out), then apart_downpour.py and
apart_rounds.py; apart_clock.py is below them.
Not here: how many steps such training needs (steps_needed.py).
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Final, Literal

from laminar.parallel.aggregate.rules import Rules
from laminar.plan.apart_downpour import DownpourRun, How, unit_of
from laminar.plan.apart_rounds import Deal, RoundsRun
from laminar.plan.apart_scene import Pace, Scene, Worker, pace
from laminar.train.shares import apportion

SEEDS: Final = 5
CROWD: Final = 32  # workers, of whom there are so many that two seeds say as much
SETTLE: Final = 3  # batches of each worker, in which queues fill
EXCHANGES: Final = 100  # of each seed, with servers: more say the same, and take longer
LEAST: Final = 4  # of each worker

__all__ = ["Pace", "Scene", "Worker", "averaging", "downpour", "quorum", "unit_of"]


def downpour(
    scene: Scene,
    *,
    n_push: int = 4,
    n_fetch: int = 4,
    shards: int = 1,
    overlap: bool = True,
    max_staleness: int | None = None,
    unit: int | None = None,
    epoch: int | None = None,
    seeds: Sequence[int] | None = None,
    exchanges: int = EXCHANGES,
) -> Pace:
    """`unit`: batches that a worker is given at once (`unit_of`). `epoch`: those after which the chief tests."""
    workers, longest = len(scene.workers), max(n_push, n_fetch)
    each = max(LEAST, exchanges // (workers * shards)) * min(n_push, n_fetch)
    if unit is not None and unit <= 4 * each:
        longest = max(longest, unit)
    each = -(-each // longest) * longest  # whole turns of every worker
    settle, batches, test = max(longest, SETTLE) * workers, each * workers, scene.test
    if epoch is not None and test:  # whole epochs; of long ones a part, with its part of the test
        turn = epoch if epoch <= batches else batches
        test *= turn / epoch
        settle, batches, epoch = max(settle, 3 * turn), -(-batches // turn) * turn, turn
    how = How(n_push, n_fetch, shards, overlap, max_staleness, unit, epoch, test)
    found = [DownpourRun(scene, how, seed, settle=settle, batches=batches).run() for seed in seeds or usual(workers)]
    return pace(found, workers)


def quorum(
    scene: Scene,
    *,
    share: float = 0.8,
    deadline: float = 30.0,
    minimum: int = 1,
    late: Literal["drop", "age"] = "drop",
    max_staleness: int | None = None,
    seeds: Sequence[int] | None = None,
    exchanges: int = EXCHANGES,
) -> Pace:
    """`share` of the workers closes a round. Deadlines far below the time of an answer change nothing but how long this takes."""
    workers = len(scene.workers)
    deadline = max(deadline, min(worker.seconds for worker in scene.workers) / 20)
    rules = Rules(kind="rounds", start=workers, quorum=share, minimum=minimum, late=late, deadline=deadline, max_staleness=max_staleness)
    return _rounds(scene, rules, lambda _: ((1,) * workers, 1.0), seeds, exchanges)


def averaging(
    scene: Scene,
    *,
    every: int = 32,
    epoch: int | None = None,
    measured: bool = False,
    seeds: Sequence[int] | None = None,
    exchanges: int = EXCHANGES,
) -> Pace:
    """`epoch`: its batches; the last round of one is shorter. `measured`: batches are dealt by speed, and `every` is their mean."""
    workers = len(scene.workers)
    rules = Rules(kind="rounds", start=workers)
    return _rounds(scene, rules, deal_of(scene, every, epoch, measured), seeds, exchanges, turn=_turn(every, workers, epoch))


def _rounds(scene: Scene, rules: Rules, deal: Deal, seeds: Sequence[int] | None, exchanges: int, turn: int = 1) -> Pace:
    """`turn`: rounds after which all begins again."""
    rounds = min(exchanges // 2, max(LEAST, exchanges // len(scene.workers)))
    if turn <= 4 * rounds:
        rounds = -(-rounds // turn) * turn
    settle = turn if turn < rounds else 1
    found = [RoundsRun(scene, rules, deal, seed, settle=settle, rounds=rounds).run() for seed in seeds or usual(len(scene.workers))]
    return pace(found, len(scene.workers))


def usual(workers: int) -> range:
    """Seeds, if none are given."""
    return range(SEEDS if workers <= CROWD else 2)


def deal_of(scene: Scene, every: int, epoch: int | None, measured: bool) -> Deal:
    """As `Rounds` of parallel/apart/work.py deals batches, when speeds are known."""
    workers = len(scene.workers)
    whole, turn = every * workers, _turn(every, workers, epoch)
    shares = apportion(whole, [1 / worker.seconds for worker in scene.workers], 1) if measured else [every] * workers

    def deal(step: int) -> tuple[tuple[int, ...], float]:
        now = whole if epoch is None else min(whole, epoch - step % turn * whole)
        if now == whole:
            return tuple(shares), float(now)
        if measured:
            return tuple(apportion(now, shares, min(1, now // workers))), float(now)
        bounds = [now * i // workers for i in range(workers + 1)]
        return tuple(b - a for a, b in itertools.pairwise(bounds)), float(now)

    return deal


def _turn(every: int, workers: int, epoch: int | None) -> int:
    """Rounds of an epoch."""
    return 1 if epoch is None else -(-epoch // (every * workers))

"""Memory along a timeline: what tasks take when they begin and give back at their ends, on top of what is always there. No torch here."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import groupby

from laminar.plan.simulate import Timeline


def peaks(timeline: Timeline, standing: Mapping[int, int]) -> dict[int, int]:
    """The most bytes that each worker has at any time. `standing`: what it always has."""
    has = dict(standing)
    most = dict(standing)
    for (_, _, worker), size in _moves(timeline):
        has[worker] = has.get(worker, 0) + size
        most[worker] = max(most.get(worker, 0), has[worker])
    return dict(sorted(most.items()))


def curve(timeline: Timeline, worker: int, standing: int = 0) -> list[tuple[float, int]]:
    """(seconds, bytes from then on) of a worker. There may be several of a time: first what is given back, then what is taken."""
    found = [(0.0, standing)]
    for (seconds, _, who), size in _moves(timeline):
        if who == worker:
            found.append((seconds, found[-1][1] + size))
    return found


def _moves(timeline: Timeline) -> Iterator[tuple[tuple[float, int, int], int]]:
    """(seconds, rank, worker) and the bytes that it has more then, in order. What ends makes room for what begins at the same time."""
    moves: list[tuple[tuple[float, int, int], int]] = []
    for task, begin, end in zip(timeline.tasks, timeline.begin, timeline.end, strict=True):
        moves += [((begin, 1, worker), size) for worker, size in task.takes]
        moves += [((end, 0 if end > begin else 2, worker), -size) for worker, size in task.gives]
    moves.sort()
    for at, some in groupby(moves, key=lambda move: move[0]):
        yield at, sum(size for _, size in some)

"""Passes: a whole model there and back, as tasks of one worker; where its modules are known, one task for each way of each of them.

Gradients are ready module by module then. Elsewhere a backward pass is as many pieces as there are buckets, as long as these are large.
No torch here.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple, final

from laminar.plan.facts import ModelCost, Pass
from laminar.plan.known import Known
from laminar.plan.tasks import Key, Task

FORWARD, BACKWARD = 1, 2  # of keys
WHOLE: Final = ("forward", "backward")  # what tasks are called where nothing is known of its parts


class Piece(NamedTuple):
    name: str
    seconds: float
    bytes: int  # that it takes there, and gives back after that


@final
class Passes:
    """Of a worker with so many rows. `buckets`: numbers of the trained tensors in each, in the order in which they are sent; `sizes`: bytes
    of each."""

    def __init__(
        self, known: Known, rows: int, threads: int, buckets: Sequence[Sequence[int]] = ((),), sizes: Sequence[int] = (1,)
    ) -> None:
        self.whole: Pass = known.whole(rows, "module", threads)
        parts = known.parts(rows, threads)
        if parts is not None:
            self._there = [Piece(one.path or one.name, one.forward, one.kept) for one in parts.operators]
            self._back = [Piece(one.path or one.name, one.inputs + one.weights, one.kept) for one in reversed(parts.operators)]
            self._ready = _ready(parts, buckets)
        else:
            held = known.job().kept_per_row * rows
            self._there = [Piece(WHOLE[0], self.whole.forward, held)]
            shares = [self.whole.backward * size / sum(sizes) for size in sizes]
            self._back = [Piece(WHOLE[1], share, held if i == len(shares) - 1 else 0) for i, share in enumerate(shares)]
            self._ready = list(range(len(shares)))

    def tasks(self, worker: int, core: int, slow: float, *, after: Key, more: float = 0.0) -> Iterator[Task]:
        """One after the other. `slow`: how much longer this worker takes; `more`: seconds of the last piece of the way there."""
        for i, piece in enumerate(self._there):
            seconds = piece.seconds * slow + (more if i == len(self._there) - 1 else 0.0)
            key: Key = (FORWARD, worker, i)
            yield Task(key, seconds, (core,), (after,), "forward", piece.name, takes=((worker, piece.bytes),))
            after = key
        for i, piece in enumerate(self._back):
            key = (BACKWARD, worker, i)
            gives = ((worker, piece.bytes),) if piece.bytes else ()
            yield Task(key, piece.seconds * slow, (core,), (after,), "backward", piece.name, gives=gives)
            after = key

    def ready(self, worker: int, bucket: int) -> Key:
        """After which a bucket can be sent."""
        return (BACKWARD, worker, self._ready[bucket])

    def last(self, worker: int) -> Key:
        return (BACKWARD, worker, len(self._back) - 1)


def _ready(parts: ModelCost, buckets: Sequence[Sequence[int]]) -> list[int]:
    """The piece of the way back behind which each bucket is whole, and all before it, which are sent first. A tensor that several calls
    have is ready behind the first of these; one that no module has, which may be used anywhere, when all is done."""
    count = len(parts.operators)
    behind: dict[int, int] = {}
    for number, one in enumerate(reversed(parts.operators)):
        behind |= dict.fromkeys(one.trained, number)
    found, latest = list[int](), 0
    for some in buckets:
        latest = max(latest, *(behind.get(tensor, count - 1) for tensor in some), 0)
        found.append(latest)
    return found

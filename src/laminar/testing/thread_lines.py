"""Lines and posts between threads of one process: a whole mesh or pipeline in a test.

What is exchanged is copied, as it is between processes.
"""

from __future__ import annotations

import queue
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar, final

import torch
from torch import Tensor

from laminar.parallel.split.grid import Grid
from laminar.parallel.split.line import Alone, Line

T = TypeVar("T")
PATIENCE: Final = 20.0  # seconds that a worker waits for another


@dataclass
class _Table:
    size: int
    slots: list[Any] = field(init=False)
    barrier: threading.Barrier = field(init=False)

    def __post_init__(self) -> None:
        self.slots = [None] * self.size
        self.barrier = threading.Barrier(self.size)


@final
class ThreadLine:
    def __init__(self, table: _Table, rank: int) -> None:
        self.rank, self.size, self.sent = rank, table.size, 0
        self._table = table

    def _all(self, own: Any) -> list[Any]:
        self._table.slots[self.rank] = own
        self._table.barrier.wait(PATIENCE)
        found = list(self._table.slots)
        self._table.barrier.wait(PATIENCE)
        return found

    def sum(self, own: Tensor) -> Tensor:
        self.sent += own.nbytes
        first, *rest = self._all(own.detach().clone())
        found: Tensor = first.clone()
        for one in rest:
            found += one
        return found

    def gather(self, own: Tensor, counts: Sequence[int]) -> list[Tensor]:
        self.sent += own.nbytes
        found = self._all(own.detach().clone().reshape(-1))
        assert [one.numel() for one in found] == list(counts)
        return [one.clone() for one in found]

    def swap(self, out: Mapping[int, Tensor], into: Mapping[int, int], most: int, dtype: torch.dtype) -> dict[int, Tensor]:
        if not most:
            return {}
        assert all(tensor.numel() <= most and tensor.dtype == dtype for tensor in out.values())
        self.sent += sum(tensor.nbytes for tensor in out.values())
        given = self._all({rank: tensor.detach().clone().reshape(-1) for rank, tensor in out.items()})
        found = {rank: given[rank][self.rank] for rank in into}
        assert {rank: tensor.numel() for rank, tensor in found.items()} == dict(into)
        return found


@final
class ThreadPost:
    def __init__(self) -> None:
        self._messages: queue.Queue[Tensor | None] = queue.Queue()
        self._expected: deque[tuple[tuple[int, ...], torch.dtype]] = deque()
        self.sent = self._released = 0

    def send(self, tensor: Tensor) -> None:
        self.sent += tensor.nbytes
        self._messages.put(tensor.detach().clone())

    def expect(self, shape: Sequence[int], dtype: torch.dtype) -> None:
        self._expected.append((tuple(shape), dtype))

    @property
    def arrived(self) -> bool:
        return not self._messages.empty()

    def receive(self) -> Tensor:
        found = self._messages.get(timeout=PATIENCE)
        if found is None:
            raise threading.BrokenBarrierError
        assert (tuple(found.shape), found.dtype) == self._expected.popleft()
        return found

    def release(self) -> None:
        self._released += 1

    def call_off(self) -> None:
        """Who waits for something here stops waiting."""
        self._messages.put(None)


def on_every_worker(grid: Grid, work: Callable[[int, dict[str, Line]], T], posts: Sequence[ThreadPost] = ()) -> list[T]:
    """What `work(rank, lines)` gives in each worker of the grid, all at once. The first error of any is raised, and those that wait for
    others on lines or at `posts` stop."""
    tables = [_Table(len(group.ranks)) for group in grid.groups()]
    found: list[Any] = [None] * grid.size
    errors: list[BaseException] = []

    def one(rank: int) -> None:
        lines: dict[str, Line] = {axis: Alone() for axis in grid.mesh}
        lines |= {
            group.axis: ThreadLine(tables[number], group.ranks.index(rank)) for number, group in grid.own(rank) if len(group.ranks) > 1
        }
        try:
            found[rank] = work(rank, lines)
        except BaseException as error:
            errors.append(error)
            for table in tables:
                table.barrier.abort()
            for post in posts:
                post.call_off()

    threads = [threading.Thread(target=one, args=(rank,)) for rank in range(grid.size)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise next((error for error in errors if not isinstance(error, threading.BrokenBarrierError)), errors[0])
    return found

"""Sent: answers that were brought, of which the node does not know yet whether they were used.

Only of runs whose compression keeps something back: what was not used goes back into it (worker.py). They are on the disk, so that a node
that was killed still knows them, and a verdict counts once, however often it is told: then its answer is gone. No more than MOST answers
and MOST_BYTES are kept; those that were brought first give way, as if they had been used.
"""

from __future__ import annotations

from typing import Final, final

from laminar.grid.node.home import Home
from laminar.grid.wire.messages import Task

MOST: Final = 64
MOST_BYTES: Final = 1 << 30


@final
class Sent:
    def __init__(self, home: Home) -> None:
        self._home = home
        self._tasks = {task.result: task for task in home.sent()}
        self._bytes = {result: _size(home, result) for result in self._tasks}

    def __len__(self) -> int:
        return len(self._tasks)

    def add(self, task: Task) -> None:
        self._home.note_sent(task)
        self._tasks[task.result], self._bytes[task.result] = task, _size(self._home, task.result)
        while len(self._tasks) > MOST or (sum(self._bytes.values()) > MOST_BYTES and len(self._tasks) > 1):
            self.settled(next(iter(self._tasks)))

    def of(self, result: int) -> Task | None:
        return self._tasks.get(result)

    def settled(self, result: int) -> None:
        self._tasks.pop(result, None)
        self._bytes.pop(result, None)
        self._home.forget_sent(result)


def _size(home: Home, result: int) -> int:
    try:
        return home.answer_path(result).stat().st_size
    except OSError:
        return 0

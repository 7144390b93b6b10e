"""States: the life of a result and of a task, as one table. What is not in it does not happen: the database refuses it (db/moves.py).

A task is a piece of work: train from this version on these samples. A result is one attempt at it by one node. So a task has one result
or, where answers are compared, several. (BOINC's work units and results: Anderson, "BOINC: A Platform for Volunteer Computing", 2020.)

    unsent ──> in progress ──> returned ──> valid
       │            │   └─> lost ─┘ ├─────> invalid
       └> given up <┘        └> late <──────┘

Pure: no database, no clock.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final


class ResultState(StrEnum):
    UNSENT = "unsent"  # waits for a node
    IN_PROGRESS = "in progress"  # a node has it, until its lease ends
    RETURNED = "returned"  # the answer is here and durable, and not judged yet
    VALID = "valid"  # agreed with others, or of a node that is trusted; goes into the model, or has gone
    INVALID = "invalid"  # refused on arrival, or disagreed with the others
    LATE = "late"  # honest, and of no use any more
    LOST = "lost"  # the lease ended without an answer
    GIVEN_UP = "given up"  # nobody needs it any more, or its node said that it cannot


class TaskState(StrEnum):
    OPEN = "open"
    DONE = "done"  # one of its results is valid
    FAILED = "failed"  # too many attempts
    CANCELLED = "cancelled"  # its round is over, or its run


R: Final = ResultState

MOVES: Final[dict[ResultState, frozenset[ResultState]]] = {
    R.UNSENT: frozenset({R.IN_PROGRESS, R.GIVEN_UP}),
    R.IN_PROGRESS: frozenset({R.RETURNED, R.INVALID, R.LOST, R.LATE, R.GIVEN_UP}),
    R.LOST: frozenset({R.RETURNED, R.INVALID, R.LATE}),  # it comes after all
    R.RETURNED: frozenset({R.VALID, R.INVALID, R.LATE}),
    R.VALID: frozenset(),
    R.INVALID: frozenset(),
    R.LATE: frozenset(),
    R.GIVEN_UP: frozenset(),
}

LIVE: Final = frozenset({R.UNSENT, R.IN_PROGRESS, R.RETURNED})  # from which something may still come
VAIN: Final = frozenset({R.LATE, R.INVALID, R.GIVEN_UP})  # what was computed for it is of no use
OVER: Final = frozenset(state for state, after in MOVES.items() if not after)
BY_TASK: Final[dict[TaskState, frozenset[TaskState]]] = {
    TaskState.OPEN: frozenset({TaskState.DONE, TaskState.FAILED, TaskState.CANCELLED}),
    TaskState.DONE: frozenset(),
    TaskState.FAILED: frozenset(),
    TaskState.CANCELLED: frozenset(),
}


def may(before: ResultState, after: ResultState) -> bool:
    return after in MOVES[before]


def sources(after: ResultState) -> tuple[str, ...]:
    """The states from which a result may come to `after`."""
    return tuple(state.value for state, targets in MOVES.items() if after in targets)

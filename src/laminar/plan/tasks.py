"""Tasks: a step of training as pieces of work that need each other, and the machine's parts that do them. No torch here.

A task runs when everything that it comes after is done and all of its resources are free, and holds all of them until its end: a forward
pass holds one core; a collective holds its members and the links between them, so it begins with the last of them.
Its key says what it is and never when it was made, so that equal tasks have equal keys in any simulation (see delta.py).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

Key = tuple[int, ...]  # of numbers; the first is the operator that it belongs to, which is where it goes when that operator is split anew
Kind = Literal["forward", "inputs", "weights", "backward", "exchange", "pack", "transfer", "optimizer", "server", "load", "wait"]


class Task(NamedTuple):
    key: Key
    seconds: float
    resources: tuple[int, ...]
    after: tuple[Key, ...] = ()
    kind: Kind = "forward"
    name: str = ""  # for people
    takes: tuple[tuple[int, int], ...] = ()  # (worker, bytes) of memory that it takes when it begins …
    gives: tuple[tuple[int, int], ...] = ()  # … and gives back when it ends


@dataclass(frozen=True)
class Ran:
    """A task on the clock."""

    task: Task
    ready: float
    begin: float
    end: float

"""Fetch clock: how long a block of code was at fetching files. A node of a grid tells it apart from computing."""

from __future__ import annotations

import contextlib
import functools
import time
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Final, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


@dataclass
class Clocked:
    seconds: float = 0.0


_CLOCKED: Final[ContextVar[Clocked | None]] = ContextVar("clocked", default=None)


@contextlib.contextmanager
def clocked() -> Iterator[Clocked]:
    """What is fetched inside, by this thread, is counted."""
    found = Clocked()
    token = _CLOCKED.set(found)
    try:
        yield found
    finally:
        _CLOCKED.reset(token)


def fetches(function: Callable[P, T]) -> Callable[P, T]:
    """Marks a function that fetches files."""

    @functools.wraps(function)
    def measured(*args: P.args, **kwargs: P.kwargs) -> T:
        found = _CLOCKED.get()
        if found is None:
            return function(*args, **kwargs)
        began = time.monotonic()
        try:
            return function(*args, **kwargs)
        finally:
            found.seconds += time.monotonic() - began

    return measured

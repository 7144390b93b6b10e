"""Kept: what was used last, up to a budget of bytes. Safe to use from several threads."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Hashable
from typing import Generic, Protocol, TypeVar, final


class _Sized(Protocol):
    @property
    def nbytes(self) -> int: ...


K = TypeVar("K", bound=Hashable)
V = TypeVar("V", bound=_Sized)


@final
class Kept(Generic[K, V]):
    def __init__(self, budget: int) -> None:
        self._budget, self._bytes = budget, 0
        self._values: OrderedDict[K, V] = OrderedDict()  # the one used longest ago is first
        self._lock = threading.Lock()

    @property
    def nbytes(self) -> int:
        return self._bytes

    def __contains__(self, key: K) -> bool:
        return key in self._values

    def get(self, key: K) -> V | None:
        with self._lock:
            value = self._values.get(key)
            if value is not None:
                self._values.move_to_end(key)
            return value

    def put(self, key: K, value: V) -> None:
        """What is larger than the whole budget is not kept, and drives nothing out."""
        if value.nbytes > self._budget:
            return
        with self._lock:
            old = self._values.pop(key, None)
            self._bytes += value.nbytes - (old.nbytes if old is not None else 0)
            self._values[key] = value
            while self._bytes > self._budget:
                self._bytes -= self._values.popitem(last=False)[1].nbytes

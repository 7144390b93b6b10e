"""Sent: which objects of a remote this store knows to be right, because it sent them, or read them and hashed what came.

A server tells the size of a file and no more. An object of the right size that some other program or person put there may hold anything, so
the first push that meets it reads it back; from then on its size is enough. What rots on the server after that, `push --check` finds.
One record a remote, `sent/<sha256 of its URL without credentials>.json`.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterable
from typing import final

from laminar.core.digest import of_bytes
from laminar.core.errors import LaminarError
from laminar.store import records
from laminar.store.drivers import without_credentials
from laminar.store.store import Store


@final
class Sent:
    def __init__(self, store: Store, url: str) -> None:
        name = of_bytes(without_credentials(url).rstrip("/").encode())[:32]
        self._store = store
        self._name = f"sent-{name}"
        self._path = store.layout.sent / f"{name}.json"
        self._mutex = threading.Lock()

    def known(self) -> frozenset[str]:
        """Nothing, where the record is damaged: then all is read back once more."""
        with contextlib.suppress(LaminarError):
            return frozenset((records.read(self._path) or {}).get("objects", ()))
        return frozenset()

    def add(self, names: Iterable[str]) -> None:
        self._change(add=frozenset(names))

    def forget(self, name: str) -> None:
        """It was found to be damaged there."""
        self._change(drop=frozenset((name,)))

    def _change(self, *, add: frozenset[str] = frozenset(), drop: frozenset[str] = frozenset()) -> None:
        """A memory that cannot be written only costs time."""
        if self._store.read_only:
            return
        with self._mutex, self._store.lock(self._name):
            before = self.known()
            after = {name for name in (before | add) - drop if name in add or self._store.objects.path(name).exists()}
            if after != before:
                records.write(self._path, {"objects": sorted(after)}, tmp=self._store.layout.tmp)

"""Which runs are trials of experiments: many, and seldom what somebody looks for among builds."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any, Final, final

import msgspec

from laminar.dashboard.history import UNREADABLE
from laminar.store.store import Store
from laminar.store.trial_layers import TRIALS


class _Trial(msgspec.Struct):
    run: str | None = None


_TRIAL: Final = msgspec.json.Decoder(_Trial)


@final
class TrialRuns:
    """Remembers what it read of files that have not changed."""

    def __init__(self) -> None:
        self._known: dict[Path, tuple[object, list[str]]] = {}
        self._lock = threading.Lock()

    def all(self, store: Store) -> dict[str, str]:
        """Run to the name of its experiment. Damaged lines are passed over: the page of the experiment says so."""
        with self._lock:
            found: dict[Path, tuple[object, list[str]]] = {}
            for path in sorted(store.layout.experiments.glob(f"*/{TRIALS}")):
                try:
                    facts = path.stat()
                    seen: object = (facts.st_mtime_ns, facts.st_size, facts.st_ino)
                    known = self._known.get(path)
                    found[path] = known if known is not None and known[0] == seen else (seen, _runs(path.read_bytes()))
                except OSError:
                    continue
            self._known = found
            return {run: path.parent.name for path, (_, runs) in found.items() for run in runs}


def _runs(content: bytes) -> list[str]:
    found: list[Any] = []
    for line in content.split(b"\n")[:-1]:
        try:
            found.append(_TRIAL.decode(line).run)
        except UNREADABLE:
            continue
    return [run for run in found if run]

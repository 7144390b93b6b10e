"""What a build hears of the workers that train a layer: passed on as it comes, and the sum of it kept for the report."""

from __future__ import annotations

from typing import Any, final

from laminar.core.events import Emit, Event


@final
class TeamHeard:
    def __init__(self, emit: Emit) -> None:
        self._emit = emit
        self.team: dict[str, Any] = {}  # empty: one process

    def __call__(self, event: Event) -> None:
        kind = event["event"]
        if kind == "end" and event.get("team"):
            self.team = event["team"]
        elif kind == "epoch" and "workers" in event:  # of this epoch alone
            sent = {name: _sum(self.team.get(name, 0), event.get(name)) for name in ("bytes", "dense_bytes")}
            self.team = {"workers": event["workers"], **sent}
        self._emit(event)


def _sum(before: int | None, more: int | None) -> int | None:
    return None if before is None or more is None else before + more

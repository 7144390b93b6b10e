"""What each worker of a run did, as far as its events tell. Pure.

Busy is the part of the time in which a worker computed rather than waited for others. Teams that wait for each other at every step tell
it with every epoch; workers of servers tell the seconds of both so far, so an epoch has what came since the one before it.
"""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from laminar.dashboard.history import History, figure, is_figure, table_of
from laminar.dashboard.lttb import Floats

MOST: Final = 10_000  # workers
DRAWN: Final = 8  # of which so many get a curve


def shares(history: History) -> list[dict[str, Any]]:
    """A row a worker: how busy it was, gradients used, its share of a batch, rounds that ended without it."""
    found: dict[int, dict[str, Any]] = {}
    for event in history.others:
        if event.get("event") == "worker" and event.get("role") == "worker" and is_figure(event.get("rank")):
            found[int(event["rank"])] = {"rank": int(event["rank"]), "host": str(event.get("host", "")), "pid": event.get("pid")}
    team = next((told for e in reversed(history.others) if (told := table_of(e, "team"))), {})
    epoch = next((e for e in reversed(history.others) if isinstance(e.get("shares"), list)), {})
    by_worker = history.column("worker")
    used = by_worker[ranks(by_worker)].astype(int)
    counts = np.bincount(used) if used.size else np.zeros(0, int)
    busy = _busy([e for e in history.others if e.get("event") == "epoch"], team)
    rounds = team.get("rounds")
    for rank in (*range(counts.size), *busy):
        found.setdefault(rank, {"rank": rank, "host": "", "pid": None})
    for rank, row in found.items():
        if rank in busy:
            row["busy"] = busy[rank]
        if counts.size:
            count = int(counts[rank]) if rank < counts.size else 0
            row["gradients"], row["part"] = count, count / max(int(counts.sum()), 1)
        given = team.get("shares") or epoch.get("shares") or []
        if isinstance(given, list) and rank < len(given) and is_figure(given[rank]):
            row["share"] = given[rank]
        missing = team.get("missing")
        if is_figure(rounds) and rounds and isinstance(missing, dict):
            row["took_part"] = 1 - figure(missing.get(str(rank), 0)) / rounds
    return [found[rank] for rank in sorted(found)]


def ranks(worker: Floats) -> NDArray[np.bool_]:
    """Which of them are numbers that a worker may have."""
    found: NDArray[np.bool_] = (worker >= 0) & (worker < MOST)
    return found


def utilisation(epochs: list[dict[str, Any]]) -> dict[int, list[float]]:
    """By rank, how busy it was in each epoch; not a number where nobody knows."""
    found: dict[int, list[float]] = {}
    before: dict[int, tuple[float, float]] = {}
    for place, event in enumerate(epochs):
        now = _times(table_of(event, "team"))
        for rank, part in {**_told(event), **{rank: _part(times, before.get(rank, (0.0, 0.0))) for rank, times in now.items()}}.items():
            found.setdefault(rank, [math.nan] * len(epochs))[place] = part
        before |= now
    return dict(sorted(found.items()))


def _busy(epochs: list[dict[str, Any]], team: dict[str, Any]) -> dict[int, float]:
    """Of the whole run: epochs count by how long they took."""
    found = {rank: part for rank, times in _times(team).items() if math.isfinite(part := _part(times, (0.0, 0.0)))}
    total: dict[int, tuple[float, float]] = {}
    for event in epochs:
        seconds = figure(event.get("seconds"))
        for rank, part in _told(event).items() if seconds > 0 else ():
            busy, all_ = total.get(rank, (0.0, 0.0))
            total[rank] = busy + part * seconds, all_ + seconds
    return found | {rank: busy / all_ for rank, (busy, all_) in total.items()}


def _told(event: dict[str, Any]) -> dict[int, float]:
    given = event.get("busy")
    return {rank: float(part) for rank, part in enumerate(given[:MOST]) if is_figure(part)} if isinstance(given, list) else {}


def _times(team: dict[str, Any]) -> dict[int, tuple[float, float]]:
    """Seconds of computing and of waiting, by rank."""
    computing, waiting = table_of(team, "computing"), table_of(team, "waiting")
    named = [name for name in computing if name.isascii() and name.isdecimal() and int(name) < MOST]
    return {int(name): (computing[name], waiting[name]) for name in named if is_figure(computing[name]) and is_figure(waiting.get(name))}


def _part(now: tuple[float, float], before: tuple[float, float]) -> float:
    """Not a number where time went back: a server that died has forgotten what came after its snapshot."""
    computing, waiting = now[0] - before[0], now[1] - before[1]
    return computing / (computing + waiting) if computing >= 0 and waiting >= 0 and computing + waiting > 0 else math.nan

"""Curves: what a history tells, as series over steps, epochs or seconds. Pure.

Seconds are of training: the time between the end of an attempt and its resumption does not count.
"""

from __future__ import annotations

import math
from typing import Any, Final, Literal

import msgspec
import numpy as np

from laminar.dashboard.history import History, figure, is_figure, table_of
from laminar.dashboard.lttb import Floats, thin
from laminar.dashboard.workers import DRAWN, ranks, utilisation

Axis = Literal["step", "epoch", "time"]
AXES: Final[tuple[Axis, ...]] = ("step", "epoch", "time")
RATE_BINS: Final = 120
MEANS: Final = 100  # stretches of a run over which a noisy curve is averaged


class Series(msgspec.Struct, frozen=True, kw_only=True):
    chart: str  # "loss", "accuracy", "samples_per_second", …: series of one chart are drawn together
    name: str  # "train", "test", …
    x: list[float]
    y: list[float]
    of: int  # points before they were thinned
    faint: bool = False  # noise, with its mean drawn over it


def curves(history: History, axis: Axis, points: int, low: float | None = None, high: float | None = None) -> list[Series]:
    """Every series there is; of each at most about `points` between `low` and `high`."""
    begins = _starts(history)
    per_epoch = _steps_per_epoch(begins)
    start, gaps = _clock(history, begins)
    found: list[Series] = []

    def add(chart: str, name: str, x: Floats, y: Floats, *, faint: bool = False) -> None:
        inside = np.isfinite(y)
        if low is not None and high is not None:  # and one point on each side, so that lines reach the edge
            within = np.flatnonzero((x >= low) & (x <= high))
            span = slice(max(within[0] - 1, 0), within[-1] + 2) if within.size else slice(0, 0)
            x, y = x[span], y[span]
            inside = np.isfinite(y)
        if inside.any():
            kept = thin(x, y, points)
            found.append(Series(chart=chart, name=name, x=x[kept].tolist(), y=y[kept].tolist(), of=int(inside.sum()), faint=faint))

    if history.steps:
        t = _seconds(history.column("t"), start, gaps)
        done = history.column("step") + 1
        x = {"step": done, "epoch": done / per_epoch if per_epoch else history.column("epoch"), "time": t}[axis]
        for chart in ("loss", "staleness"):
            values = history.column(chart)
            noisy = int(np.isfinite(values).sum()) > 3 * MEANS
            add(chart, "each step", x, values, faint=noisy)
            if noisy:
                add(chart, "mean", *_means(x, values))
        add("lr", "each step", x, history.column("lr"))
        for rank, where, gradients in _by_worker(history.column("worker"), t, x):
            add("gradients_by_worker", f"worker {rank}", where, gradients)
        per_step = _samples_per_step(begins)
        if per_step is not None:
            at, rate = _rate(t, done, x)
            add("samples_per_second", "as it went", at, rate * per_step)
    epochs = [e for e in history.others if e.get("event") == "epoch" and is_figure(e.get("epoch"))]
    ends = _columns(epochs, per_epoch, start, gaps)[axis]
    for chart, name, told in _figures(epochs):
        add(chart, name, ends, np.array(told, dtype=float))
    return found


def _figures(epochs: list[dict[str, Any]]) -> list[tuple[str, str, list[float]]]:
    found: list[tuple[str, str, list[float]]] = []
    for side in ("train", "test"):
        tables = [table_of(e, side) for e in epochs]
        for name in dict.fromkeys(name for table in tables for name in table):
            found.append((str(name), side, [figure(table.get(name)) for table in tables]))
    found.append(("samples_per_second", "each epoch", [figure(e.get("samples_per_second")) for e in epochs]))
    sent = np.nancumsum([figure(e.get("bytes")) for e in epochs])
    if any(is_figure(e.get("bytes")) for e in epochs):
        found.append(("bytes", "sent", sent.tolist()))
        found.append(("bytes", "without compression", np.nancumsum([figure(e.get("dense_bytes")) for e in epochs]).tolist()))
    teams = [table_of(e, "team") for e in epochs]
    given = [e.get("shares", team.get("shares")) for e, team in zip(epochs, teams, strict=True)]
    lists = [each if isinstance(each, list) else [] for each in given]
    for rank in range(min(max(map(len, lists), default=0), DRAWN)):
        found.append(("shares", f"worker {rank}", [figure(each[rank]) if rank < len(each) else math.nan for each in lists]))
    found += [("busy", f"worker {rank}", parts) for rank, parts in list(utilisation(epochs).items())[:DRAWN]]
    found.append(("bytes", "by the server", [figure(team.get("bytes")) for team in teams]))
    found.append(("staleness", "mean so far", [figure(team.get("staleness")) for team in teams]))
    found.append(("workers", "there", [figure(e.get("workers", team.get("workers"))) for e, team in zip(epochs, teams, strict=True)]))
    return found


def _starts(history: History) -> list[dict[str, Any]]:
    return [e for e in history.others if e.get("event") in ("start", "resume")]


def _steps_per_epoch(begins: list[dict[str, Any]]) -> float | None:
    for e in begins:
        if is_figure(e.get("steps")) and is_figure(e.get("epochs")) and e["epochs"] > 0 and e["steps"] > 0:
            return float(e["steps"] / e["epochs"])
    return None


def _samples_per_step(begins: list[dict[str, Any]]) -> float | None:
    per_epoch = _steps_per_epoch(begins)
    samples = next((e["samples"] for e in begins if is_figure(e.get("samples"))), None)
    return samples / per_epoch if samples is not None and per_epoch else None


def _clock(history: History, begins: list[dict[str, Any]]) -> tuple[float, list[tuple[float, float]]]:
    """When it began, and at which times how many seconds passed without training."""
    times = [e["t"] for e in begins if is_figure(e.get("t"))]
    steps = history.column("t")
    first = times[0] if times else float(steps[0]) if steps.size else 0.0
    gaps: list[tuple[float, float]] = []
    for at, e in enumerate(history.others):
        if e.get("event") == "resume" and is_figure(e.get("t")):
            before = [o["t"] for o in history.others[:at] if is_figure(o.get("t"))]
            earlier = steps[steps < e["t"]]
            last = max([*before, *(earlier[-1:].tolist())], default=e["t"])
            gaps.append((float(e["t"]), max(float(e["t"]) - float(last), 0.0)))
    return float(first), gaps


def _seconds(t: Floats, start: float, gaps: list[tuple[float, float]]) -> Floats:
    passed = t - start
    for at, gap in gaps:
        passed = passed - np.where(t >= at, gap, 0.0)
    return passed


def _columns(epochs: list[dict[str, Any]], per_epoch: float | None, start: float, gaps: list[tuple[float, float]]) -> dict[str, Floats]:
    ends = np.array([figure(e.get("epoch")) + 1 for e in epochs])
    steps = np.array([figure(e.get("step")) for e in epochs])
    if per_epoch:
        steps = np.where(np.isfinite(steps), steps, ends * per_epoch)
    return {"epoch": ends, "step": steps, "time": _seconds(np.array([figure(e.get("t")) for e in epochs]), start, gaps)}


def _by_worker(worker: Floats, t: Floats, x: Floats) -> list[tuple[int, Floats, Floats]]:
    """Of the first few workers, how many of their gradients a second were made use of, over stretches of the run."""
    named = ranks(worker)
    if named.sum() < 4 or t[-1] <= t[0]:
        return []
    edges = np.linspace(t[0], t[-1], int(min(40, max(named.sum() // 6, 2))) + 1)
    ends = np.interp(edges[1:], t, x)
    found = []
    for rank in np.unique(worker[named]).astype(int)[:DRAWN].tolist():
        counts, _ = np.histogram(t[worker == rank], edges)
        found.append((rank, ends, counts / np.diff(edges)))
    return found


def _means(x: Floats, y: Floats) -> tuple[Floats, Floats]:
    """Means over stretches of equally many points, each at its middle."""
    known = np.isfinite(y)
    x, y = x[known], y[known]
    edges = np.linspace(0, y.size, MEANS + 1).astype(int)
    counts = np.diff(edges)
    return np.add.reduceat(x, edges[:-1]) / counts, np.add.reduceat(y, edges[:-1]) / counts


def _rate(t: Floats, done: Floats, x: Floats) -> tuple[Floats, Floats]:
    """Steps a second over some twenty to a hundred stretches of the run, each at its end."""
    edges = np.unique(np.linspace(0, t.size - 1, min(RATE_BINS, max(t.size // 8, 2))).astype(int))
    seconds, steps = np.diff(t[edges]), np.diff(done[edges])
    with np.errstate(divide="ignore", invalid="ignore"):
        rate = np.where(seconds > 0, steps / seconds, np.nan)
    return x[edges[1:]], rate

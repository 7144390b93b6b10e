"""Heard: the curve and the series of a trial, from the events of its run. Pure over events; reading the file is here too."""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final

import msgspec

from laminar.core.events import Event
from laminar.experiments.record import Point
from laminar.train.history import END, Saved

_WANTED: Final = tuple(f'{{"event":"{kind}"'.encode() for kind in ("start", "resume", "epoch", "saved", "end"))


class Heard(msgspec.Struct, frozen=True, kw_only=True):
    curve: tuple[Point, ...] = ()
    series: dict[str, tuple[float, ...]] = {}
    metrics: dict[str, float] = {}  # that the build does not say: seconds_per_epoch, samples_per_step, bytes, steps, checkpoints …
    resumed: bool = False
    ended: bool = False


def events_of(path: Path) -> Iterator[Event]:
    """Those that say something of a trial as a whole: a run may have a million steps."""
    try:
        lines = open(path, "rb")  # noqa: SIM115
    except FileNotFoundError:
        return
    with lines:
        for line in lines:
            if line.startswith(_WANTED) and line.endswith(b"\n"):
                try:
                    event = json.loads(line)
                except ValueError:
                    continue
                yield event


def hear(events: Iterable[Event]) -> Heard:
    curve: list[Point] = []
    series: dict[str, list[float]] = {}
    spent: list[float] = []
    start: float | None = None
    resumed = ended = False
    sent: float | None = None
    staleness: float | None = None
    samples: int | None = None
    tests: list[float] = []  # seconds of each
    busy: list[float] = []  # of each epoch: the share of its time that workers computed, on average
    saved: list[Saved] = []  # checkpoints that training stood still for
    servers = False  # they keep snapshots while workers go on
    for event in events:
        kind = event["event"]
        if kind == "start":
            start, curve, series, spent, sent, saved, tests, busy = event["t"], [], {}, [], None, [], [], []
            samples = event.get("samples")
        elif kind == "resume":
            resumed = True
        elif kind == "epoch":
            test, train = event.get("test", {}), event.get("train", {})
            # a grid has rounds in place of epochs, and tells the seconds since it began
            spent.append(float(event.get("seconds", 0.0)))
            curve.append(
                Point(
                    epoch=event["epoch"] + 1,
                    seconds=round(event["t"] - start, 6) if start is not None else sum(spent),
                    step=event.get("step", 0),
                    loss=train.get("loss"),
                    accuracy=train.get("accuracy"),
                    test_loss=test.get("loss"),
                    test_accuracy=test.get("accuracy"),
                )
            )
            if "test_seconds" in event:
                tests.append(float(event["test_seconds"]))
            team = event.get("team") or {}
            servers |= bool(team)
            if event.get("busy"):
                busy.append(statistics.mean(event["busy"]))
            if team.get("bytes") is not None:  # of all so far
                series.setdefault("bytes", []).append(float(team["bytes"]))
                sent = float(team["bytes"])
            elif event.get("bytes") is not None:  # of this epoch
                sent = (sent or 0.0) + event["bytes"]
                series.setdefault("bytes", []).append(sent)
            if team.get("staleness") is not None:
                staleness = float(team["staleness"])
                series.setdefault("staleness", []).append(staleness)
        elif kind == "saved" and (found := msgspec.convert(event, Saved)).why != END:
            saved.append(found)
        elif kind == "end":
            ended = True
            team = event.get("team") or {}
            sent = float(team["bytes"]) if team.get("bytes") is not None else sent
            staleness = float(team["staleness"]) if team.get("staleness") is not None else staleness
            busy = _computing(team) or busy
    metrics: dict[str, float] = {}
    if spent:
        metrics["seconds_per_epoch"] = sum(spent) / len(spent)
        metrics["epochs"], metrics["steps"] = float(curve[-1].epoch), float(curve[-1].step)
        if samples and curve[-1].step:
            metrics["samples_per_step"] = samples * curve[-1].epoch / curve[-1].step
        metrics["utilization"] = statistics.mean(busy) if busy else 1.0  # one process waits for nobody
        if not servers:
            metrics["checkpoints"], metrics["checkpoint_seconds"] = float(len(saved)), sum(one.seconds for one in saved)
    if tests:
        metrics["test_seconds"] = statistics.median(tests)
    if saved:
        metrics["checkpoint_bytes"] = float(statistics.median(one.bytes for one in saved))
    if sent is not None:
        metrics["bytes"] = sent
    if staleness is not None:
        metrics["staleness"] = staleness
    return Heard(
        curve=tuple(curve),
        series={name: tuple(values) for name, values in series.items()},
        metrics=metrics,
        resumed=resumed,
        ended=ended,
    )


def _computing(team: dict[str, Any]) -> list[float]:
    """Of each worker of a training with servers: the share of its time that it computed."""
    computing, waiting = team.get("computing") or {}, team.get("waiting") or {}
    shares = [(float(seconds), float(waiting.get(worker, 0.0))) for worker, seconds in computing.items()]
    return [one / (one + other) for one, other in shares if one + other > 0]


def plain_error(code: str, message: str, hint: str = "") -> dict[str, Any]:
    return {"code": code, "message": message, "hint": hint}

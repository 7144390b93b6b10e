"""Progress of an experiment: a bar with the expected end on a terminal, a line a trial elsewhere."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Iterator
from datetime import datetime

from laminar.cli.output import number, remark, seconds
from laminar.core import printable
from laminar.core.events import Emit, Event, nowhere


@contextlib.contextmanager
def experiment_progress(*, quiet: bool) -> Iterator[Emit]:
    if quiet:
        yield nowhere
    elif sys.stderr.isatty():
        with _bar() as emit:
            yield emit
    else:
        yield _line


@contextlib.contextmanager
def _bar() -> Iterator[Emit]:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.fields[end]}"),
        TextColumn("{task.fields[said]}", style="dim", markup=False),
    )
    with Progress(*columns, console=Console(stderr=True)) as bars:
        task = bars.add_task("trials", total=None, end="", said="")

        def emit(event: Event) -> None:
            kind = event["event"]
            if kind in ("experiment", "trial"):
                bars.update(task, completed=event["done"], total=event["of"], end=expected_end(event.get("left_seconds")))
            if kind == "trial":
                bars.update(task, said=_what(event))
            elif kind == "epoch":
                bars.update(task, said=f"{event.get('layer', '')} epoch {event['epoch'] + 1}/{event.get('epochs', '?')}")
            elif kind in ("note", "waiting"):
                bars.console.print(printable.lines(f"{kind}: {event['why']}"), style="dim", markup=False)
            elif kind == "experiment" and (trial := event.get("trial")) and trial["outcome"] == "failed":
                bars.console.print(printable.lines(told(event)), style="red", markup=False)

        yield emit


def _line(event: Event) -> None:
    if event["event"] == "experiment" and event.get("trial"):
        remark(told(event))
    elif event["event"] in ("note", "waiting"):
        remark(f"{event['event']}: {event['why']}")


def told(event: Event) -> str:
    """`3/12 neurons 64, repeat 0: 1.2 s, accuracy 0.9375; the rest until 14:05`."""
    trial = event["trial"]
    if trial["outcome"] == "failed":
        said = f"failed with {trial['error'].get('code', '?')}: {trial['error'].get('message', '')}"
    else:
        metrics = [f"{name} {number(trial['metrics'][name])}" for name in ("accuracy", "loss", "mae") if name in trial["metrics"]][:1]
        said = ", ".join([seconds(trial["seconds"]), *metrics])
    said += f" (not counted: {trial['why_not']})" if trial["why_not"] else ""
    end = expected_end(event.get("left_seconds")) if event["done"] < event["of"] else ""
    return f"{event['done']}/{event['of']} {trial['label']}, repeat {trial['repeat']}: {said}" + (f"; {end}" if end else "")


def _what(event: Event) -> str:
    return f"{event['label']}, {'warm-up' if event['warm_up'] else 'repeat'} {event['repeat']}"


def expected_end(left: float | None) -> str:
    if left is None:
        return ""
    end = datetime.fromtimestamp(time.time() + left)
    return f"until {end:%H:%M}" if left < 20 * 3600 else f"until {end:%Y-%m-%d %H:%M}"

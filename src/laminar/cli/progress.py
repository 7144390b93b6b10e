"""Progress of a build: bars on a terminal, a line an epoch elsewhere. Fed by the events of the build and of its training."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from laminar.cli.output import number, remark, seconds
from laminar.core.events import Emit, Event, nowhere

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID


@contextlib.contextmanager
def progress(*, quiet: bool) -> Iterator[Emit]:
    if quiet:
        yield nowhere
    elif sys.stderr.isatty():
        with _bars() as emit:
            yield emit
    else:
        yield _lines


@contextlib.contextmanager
def counting(what: str, *, quiet: bool) -> Iterator[Callable[[int, int], None] | None]:
    """A bar for work that counts itself, as (done, all): transfers, checks. None where nobody looks."""
    if quiet or not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as bars:
        task = bars.add_task(what, total=None)
        yield lambda done, total: bars.update(task, completed=done, total=total)


@contextlib.contextmanager
def counted(*, quiet: bool) -> Iterator[Callable[[str, int, int | None], None]]:
    """A bar for data: what is being done, how much is done, of how much. A bar for each thing that is done."""
    if quiet or not sys.stderr.isatty():
        yield lambda what, done, total: None  # noqa: ARG005
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as bars:
        tasks: dict[str, TaskID] = {}

        def show(what: str, done: int, total: int | None) -> None:
            if what not in tasks:
                tasks[what] = bars.add_task(what, total=total)
            bars.update(tasks[what], completed=done, total=total)

        yield show


def _lines(event: Event) -> None:
    kind = event["event"]
    if kind == "epoch":
        remark(f"{event.get('layer', '')} epoch {event['epoch'] + 1}/{event.get('epochs', '?')}: {figures(event)}")
    elif kind in ("note", "waiting", "resume"):
        remark(f"{event.get('layer', '')} {kind}: {event['why']}".strip())


def figures(event: Event) -> str:
    test: dict[str, Any] = event.get("test", {})
    said = [f"{name} {number(value)}" for name, value in test.items()]
    if "samples_per_second" in event:
        said.append(f"{event['samples_per_second']:,.0f} samples/s")
    if "seconds" in event:
        said.append(seconds(event["seconds"]))
    return ", ".join(said)


@contextlib.contextmanager
def _bars() -> Iterator[Emit]:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[said]}"),
    )
    with Progress(*columns, console=Console(stderr=True)) as bars:
        yield _Bars(bars)


class _Bars:
    def __init__(self, bars: Progress) -> None:
        self._bars = bars
        self._task: TaskID | None = None

    def __call__(self, event: Event) -> None:
        kind = event["event"]
        if kind == "layer":
            self._task = self._bars.add_task(event["layer"], total=None, said="")
        elif self._task is None:
            return
        elif kind in ("start", "resume"):
            self._bars.update(self._task, total=event["steps"], completed=event.get("step", 0))
        elif kind == "step":
            self._bars.update(self._task, completed=event["step"] + 1)
        elif kind == "epoch":
            self._bars.update(self._task, said=f"epoch {event['epoch'] + 1}: {figures(event)}")
        elif kind == "features" and event["action"] == "computing":
            self._bars.update(self._task, total=event["of"], completed=event["done"], said="features of the frozen prefix")
        elif kind == "data":
            self._bars.update(self._task, total=event["of"], completed=event["done"], said=event["what"])
        elif kind in ("waiting", "note"):
            self._bars.update(self._task, said=event["why"])
        elif kind == "layer-done":
            if event["action"] == "cached":
                self._bars.update(self._task, total=1, completed=1, said="cached")
            self._bars.stop_task(self._task)

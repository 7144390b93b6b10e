"""Progress of a build: bars on a terminal, a line an epoch elsewhere. Fed by the events of the build and of its training."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from laminar.cli.output import number, remark, seconds
from laminar.cli.team import Arrivals, team_of, totals
from laminar.core import printable
from laminar.core.events import Emit, Event, nowhere

if TYPE_CHECKING:
    from rich.progress import TaskID


@contextlib.contextmanager
def progress(*, quiet: bool, workers: Mapping[str, int] | None = None) -> Iterator[Emit]:
    """`workers`: how many each layer is to be trained by."""
    arrivals = Arrivals(workers or {})
    if quiet:
        yield nowhere
    elif sys.stderr.isatty():
        from laminar.cli.bars import bars  # rich takes its time to load

        with bars(arrivals) as emit:
            yield emit
    else:
        yield lambda event: _lines(event, arrivals)


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
    from rich.markup import escape
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as bars:
        tasks: dict[str, TaskID] = {}

        def show(what: str, done: int, total: int | None) -> None:
            if what not in tasks:
                tasks[what] = bars.add_task(escape(printable.line(what)), total=total)
            bars.update(tasks[what], completed=done, total=total)

        yield show


def _lines(event: Event, arrivals: Arrivals) -> None:
    kind = event["event"]
    if said := arrivals.hear(event):
        remark(f"{event.get('layer', '')}: {said}")
    if kind == "epoch":
        team = team_of(event)
        beside = f"; {totals(team)}" if team else ""
        remark(f"{event.get('layer', '')} epoch {event['epoch'] + 1}/{event.get('epochs', '?')}: {figures(event)}{beside}")
    elif kind in ("note", "waiting", "resume"):
        remark(f"{event.get('layer', '')} {kind}: {reason(event)}".strip())


def reason(event: Event) -> str:
    """Why, and the command that helps where there is one."""
    return f"{event['why']}; {event['help']}" if event.get("help") else str(event["why"])


def figures(event: Event) -> str:
    test: dict[str, Any] = event.get("test", {})
    said = [f"{name} {number(value)}" for name, value in test.items()]
    if "samples_per_second" in event:
        said.append(f"{event['samples_per_second']:,.0f} samples/s")
    if "seconds" in event:
        said.append(seconds(event["seconds"]))
    return ", ".join(said)

"""Bars of a build on a terminal: one a layer, and below them a line about the workers of the layer under way, where there are several."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from typing import final

from rich.console import Console, RenderableType
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.text import Text

from laminar.cli.progress import figures, reason
from laminar.cli.team import Arrivals, pace
from laminar.core import printable
from laminar.core.events import Emit, Event


@contextlib.contextmanager
def bars(arrivals: Arrivals, console: Console | None = None) -> Iterator[Emit]:
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[said]}", markup=False),
    )
    with _WithTeam(*columns, console=console or Console(stderr=True)) as shown:
        yield _Bars(shown, arrivals)


@final
class _WithTeam(Progress):
    """Beside a bar there is no room for what is to be said of a team."""

    team = ""

    def get_renderables(self) -> Iterable[RenderableType]:
        yield from super().get_renderables()
        if self.team:
            yield Text(self.team, no_wrap=True, overflow="ellipsis", style="dim")


@final
class _Bars:
    def __init__(self, bars: _WithTeam, arrivals: Arrivals) -> None:
        self._bars, self._arrivals = bars, arrivals
        self._task: TaskID | None = None

    def __call__(self, event: Event) -> None:
        kind = event["event"]
        if said := self._arrivals.hear(event):
            self._bars.team = f"{event.get('layer', '')}: {said}"
        if kind == "layer":
            self._task = self._bars.add_task(event["layer"], total=None, said="")
        elif self._task is None:
            return
        elif kind in ("start", "resume"):
            self._bars.update(self._task, total=event["steps"], completed=event.get("step", 0))
        elif kind == "step":
            self._bars.update(self._task, completed=event["step"] + 1)
            if event.get("team"):
                self._bars.team = f"{event.get('layer', '')}: {pace(event['team'])}"
        elif kind == "epoch":
            self._bars.update(self._task, said=f"epoch {event['epoch'] + 1}: {figures(event)}")
        elif kind == "features" and event["action"] == "computing":
            self._bars.update(self._task, total=event["of"], completed=event["done"], said="features of the frozen prefix")
        elif kind == "planning":
            self._bars.update(self._task, total=event["of"], completed=event["done"], said=f"planning: {event['what']}")
        elif kind == "data":
            self._bars.update(self._task, total=event["of"], completed=event["done"], said=printable.line(event["what"]))
        elif kind in ("waiting", "note"):
            self._bars.update(self._task, said=printable.line(reason(event)))
        elif kind == "layer-done":
            self._bars.team = ""
            if event["action"] == "cached":
                self._bars.update(self._task, total=1, completed=1, said="cached")
            self._bars.stop_task(self._task)

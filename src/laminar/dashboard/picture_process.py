"""A process that draws the pictures of an experiment's report, so that the dashboard never loads matplotlib, and stays quick meanwhile.

    python -m laminar.dashboard.picture_process < request.json

They are the ones of `laminar experiment report`, in the page's colours, with what they say where they are pointed at.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import msgspec

from laminar.core.errors import LaminarError
from laminar.experiments.lineage import lineage
from laminar.experiments.listing import read_view
from laminar.experiments.pictures.choose import pictures
from laminar.experiments.pictures.sheet import on_page
from laminar.experiments.pictures.timelines import timelines
from laminar.parallel.crew import die_with
from laminar.stack.project import open_project


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    start: str  # the folder of the project
    name: str  # of the experiment
    narrow: bool = False  # for a phone


class Drawn(msgspec.Struct, frozen=True, kw_only=True):
    """`hints`: x, y and a text each, in the picture's own units. Of a timeline, which a run has left, there are none."""

    name: str
    title: str
    caption: str
    svg: str
    kind: str = "picture"  # or "timeline"
    hints: list[tuple[float, float, str]] = []


def main() -> int:
    die_with(os.getppid())
    asked = msgspec.json.decode(sys.stdin.buffer.read(), type=Asked)
    out = sys.stdout.buffer
    sys.stdout = sys.stderr
    try:
        told: dict[str, Any] = {"pictures": draw(asked)}
    except LaminarError as error:
        told = {"error": {"code": error.code, "message": error.message, "hint": error.hint}}
    out.write(msgspec.json.encode(told) + b"\n")
    out.flush()
    return 0


def draw(asked: Asked) -> list[Drawn]:
    store = open_project(Path(asked.start)).look_at_store()
    found = read_view(store, asked.name)
    drawn = []
    for picture in pictures(found, lineage(store, list(found.done))):
        svg, hints = on_page(picture, narrow=asked.narrow)
        spots = [(float(one.x), float(one.y), one.text) for one in hints]
        drawn.append(Drawn(name=picture.name, title=picture.title, caption=picture.caption, svg=svg, hints=spots))
    words = "Rows are workers, bars what they did; gaps are time in which one waited for another."
    drawn += [Drawn(name=one.name, title=one.label, caption=words, svg=one.svg, kind="timeline") for one in timelines(found, store)]
    return drawn


if __name__ == "__main__":
    sys.exit(main())

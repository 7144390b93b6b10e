"""A process that asks layers about samples, so that the dashboard itself never loads torch, and stays quick while models compute.

    python -m laminar.dashboard.judge_process < request.json

It writes a line of JSON for every piece of progress, and last one with the judgement, or with what went wrong.
"""

from __future__ import annotations

import base64
import io
import os
import sys
from pathlib import Path
from typing import Any, Final

import msgspec
import numpy as np

from laminar.core.errors import LaminarError
from laminar.dashboard.judgement import VALUES, Answered, Judged, Judgement, groups, judged, rows_of
from laminar.data.contact_sheet import tile_of
from laminar.parallel.crew import die_with

MOST: Final = 10_000  # samples that are asked about …
BYTES: Final = 256 << 20  # … and of them
FEWEST: Final = 100


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    start: str  # the folder of the project
    ids: list[str]
    data: str  # a name of the stack file, or a source


def main() -> int:
    die_with(os.getppid())
    asked = msgspec.json.decode(sys.stdin.buffer.read(), type=Asked)
    out = sys.stdout.buffer
    sys.stdout = sys.stderr  # a project's own code may print

    def say(told: Any) -> None:
        out.write(msgspec.json.encode(told) + b"\n")
        out.flush()

    try:
        say({"judgement": judge(asked, lambda what, done, of: say({"progress": {"what": what, "done": done, "of": of}}))})
    except LaminarError as error:
        say({"error": _told(error)})
    return 0


def judge(asked: Asked, tell: Any) -> Judgement:
    of = len(asked.ids) + 1
    tell("loading PyTorch", 0, of)
    from laminar.stack.project import open_project
    from laminar.stack.use import answers, objective_of, open_for

    project = open_project(Path(asked.start))
    store = project.look_at_store()
    tell(f"opening {asked.data}", 0, of)
    dataset = open_for(project, store.layer(asked.ids[0]), asked.data)
    sample = max(1, dataset.test.x[:1].nbytes)
    rows = rows_of(len(dataset.test), max(FEWEST, min(MOST, BYTES // sample)))
    layers: list[Judged] = []
    answered: list[Answered] = []
    for number, id in enumerate(asked.ids):
        manifest = store.layer(id)
        tell(f"asking {manifest.name} about {len(rows):,} samples", number + 1, of)
        try:
            labels, outputs = answers(project, store, id, dataset, asked.data, rows)
        except LaminarError as error:
            layers.append(Judged(id=id, error=_told(error)))
            continue
        classes = None if dataset.classes is None else manifest.classes or list(dataset.classes)
        answered.append(Answered(id, classes, labels, outputs, objective_of(store, manifest)))
        layers.append(judged(answered[-1]))

    def show(row: int) -> tuple[str | None, list[float]]:
        return shown(dataset.test.x[row])

    return Judgement(
        data=asked.data,
        task=dataset.task,
        all=len(dataset.test),
        used=len(rows),
        layers=layers,
        groups=groups(answered, rows, show),
    )


def shown(sample: Any) -> tuple[str | None, list[float]]:
    """A sample as a picture, if it looks like one; else its first values."""
    if sample.ndim == 3 and min(sample.shape[1:]) >= 4:
        file = io.BytesIO()
        tile_of(sample).save(file, format="PNG")
        return "data:image/png;base64," + base64.b64encode(file.getvalue()).decode(), []
    return None, [float(value) for value in np.ravel(sample)[:VALUES]]


def _told(error: LaminarError) -> dict[str, str]:
    return {"code": error.code, "message": error.message, "hint": error.hint}


if __name__ == "__main__":
    sys.exit(main())

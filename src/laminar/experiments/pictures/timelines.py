"""Stage timelines: the pictures that pipelines and branches leave in the folder of a run (parallel/stages), one for each variant."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from laminar.core.errors import LaminarError
from laminar.experiments.view import View
from laminar.store.store import Store

FILE: Final = "stages.svg"
MOST: Final = 4  # in one report
LARGEST: Final = 400_000  # bytes of one; a longer one says nothing on a page


@dataclass(frozen=True)
class Timeline:
    name: str  # of its file
    label: str
    svg: str


def timelines(view: View, store: Store) -> list[Timeline]:
    """Of the first trial of a variant that has one."""
    found: list[Timeline] = []
    for one in view.variants:
        for trial in view.trials_of(one.id):
            text = _text(store, trial.run) if trial.run else None
            if text is not None:
                found.append(Timeline(f"stages-{len(found) + 1}", one.label, text))
                break
        if len(found) == MOST:
            break
    return found


def _text(store: Store, run: str) -> str | None:
    try:
        text = (store.run_folder(run) / FILE).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError, LaminarError):
        return None
    return text if text.startswith("<svg") and len(text) <= LARGEST else None

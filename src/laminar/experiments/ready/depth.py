"""Hidden layers, in the sense of the study: 1, 4 or 8 hidden modules of 128 neurons."""

from __future__ import annotations

from laminar.experiments.ready import stacks, tables
from laminar.experiments.ready.form import Ask, Choice, Ready
from laminar.experiments.ready.judged import above, below
from laminar.experiments.ready.studies import PRACTICE


def _label(n: int) -> str:
    return f"{n} hidden layer{'s' if n > 1 else ''}"


def ready(ask: Ask) -> Ready:
    return Ready(
        name="depth",
        title="Hidden layers",
        question="What does a deeper network win, and what does it cost?",
        choices=tuple(Choice(label=_label(n), settings={"depth": n}, published=row) for n, row in tables.DEPTH.items()),
        measures=("loss", "accuracy", "seconds"),
        statements=(
            above("Eight hidden layers have a higher loss than one.", "loss", _label(8), _label(1), claim="2.d"),
            below("Eight hidden layers are less accurate than one.", "accuracy", _label(8), _label(1), claim="2.d"),
            above("Eight hidden layers take longer than one.", "seconds", _label(8), _label(1), claim="2.d"),
            below("They take less than twice as long.", "seconds", _label(8), _label(1), 200.0),
        ),
        study=PRACTICE,
        stack=stacks.mlp(ask),
    )

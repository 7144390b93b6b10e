"""Epochs 1, 5, 10, 20."""

from __future__ import annotations

from laminar.experiments.ready import stacks, tables
from laminar.experiments.ready.form import Ask, Choice, Ready
from laminar.experiments.ready.judged import above, below
from laminar.experiments.ready.studies import PRACTICE


def _label(n: int) -> str:
    return f"{n} epoch{'s' if n > 1 else ''}"


def ready(ask: Ask) -> Ready:
    counts = (1, 5, 10) if ask.quick else tuple(tables.EPOCHS)
    last = counts[-1]
    return Ready(
        name="epochs",
        title="Epochs",
        question="When does more training stop to pay?",
        choices=tuple(Choice(label=_label(n), settings={"epochs": n}, published=tables.EPOCHS[n]) for n in counts),
        measures=("loss", "accuracy", "seconds", "train_loss", "train_accuracy"),
        statements=(
            below("Five epochs lower the loss against one.", "loss", _label(5), _label(1), claim="2.e"),
            above(f"{last} epochs raise the accuracy in training against one.", "train_accuracy", _label(last), _label(1), claim="2.e"),
            above(f"{last} epochs take longer than one.", "seconds", _label(last), _label(1), claim="2.e"),
            above(f"{last} epochs are more accurate than five.", "accuracy", _label(last), _label(5)),
            above(
                "The loss on held-out data no longer falls after five epochs: over-fitting begins.", "loss", _label(last), _label(5), 99.0
            ),
            below(
                f"Time grows a little less than in proportion: {last} epochs take less than {last} times one.",
                "seconds",
                _label(last),
                _label(1),
                100.0 * last,
            ),
        ),
        study=PRACTICE,
        stack=stacks.mlp(ask),
    )

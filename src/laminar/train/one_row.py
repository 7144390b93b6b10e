"""One row: batch statistics of it do not exist, so BatchNorm refuses it. What to say of that, and what to change. No torch here."""

from __future__ import annotations

from typing import Final, NamedTuple

from laminar.train.recipe import Recipe
from laminar.train.strategies import strategy

_REFUSAL: Final = "Expected more than 1 value per channel when training"  # of torch, for every kind of BatchNorm
_OTHER: Final = "another norm than BatchNorm (GroupNorm, LayerNorm)"


class Rows(NamedTuple):
    """What the model was given: `own` rows of a batch of `whole`, in a job of so many `samples`."""

    own: int
    whole: int
    samples: int


def one_row(error: str, rows: Rows, recipe: Recipe, workers: int) -> tuple[str, str] | None:
    """Why the model was given a row that it refuses, and what to change; None: that is not what happened. `workers`: that share batches."""
    if _REFUSAL not in error or rows.own != 1:
        return None
    if rows.whole == 1:
        edit = "batch = 2 or more in train" if recipe.batch == 1 else "more training samples"
        return "the batch has 1 row, of which there are no batch statistics", f"{edit}, or {_OTHER}"
    why = f"this worker has 1 row of a batch of {rows.whole}, which {workers} workers share, and of 1 row there are no batch statistics"
    if rows.whole >= 2 * workers:  # by their speeds, or more have come than were asked for
        measured = getattr(strategy(recipe.strategy), "shares", "equal") == "measured"
        edit = 'shares = "equal" in strategy' if measured else "a larger batch in train"
        return why, f"{edit}, fewer workers, or {_OTHER}"
    most = rows.whole // 2
    edits = [f"workers = {most}{' or fewer' if most > 1 else ''} in strategy", _OTHER]
    if getattr(strategy(recipe.strategy), "batch_norm", "exact") == "worker":
        edits.insert(0, 'batch_norm = "exact" in strategy')
    if (batch := _batch_for(rows.samples, recipe.batch, 2 * workers)) is not None:
        edits.insert(0, f"batch = {batch} in train")
    return why, f"{', '.join(edits[:-1])}, or {edits[-1]}"


def _batch_for(samples: int, batch: int, least: int) -> int | None:
    """The nearest one that leaves no batch with fewer rows, the last one of an epoch included; one of 1 row is left out anyway."""
    for far in range(max(samples, batch)):
        for found in (batch + far, batch - far):
            if least <= found <= samples and (samples % found <= 1 or samples % found >= least):
                return found
    return None

"""Judgement: what layers answer on the same samples: figures, confusion matrices, and the samples that tell them apart.

Pure: answers in, plain data out. Who computes the answers is judge_process.py, which needs torch; this does not.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from laminar.train.recipe import HUBER_DELTA

SHOWN: Final = 18  # samples of a group
POINTS: Final = 400  # of a regression
VALUES: Final = 8  # of a sample that is no picture

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Answered:
    """Of one layer: `labels` in the numbering of `classes`, which are the layer's own; outputs one row a sample."""

    id: str
    classes: list[str] | None
    labels: NDArray[Any]
    outputs: NDArray[Any]
    objective: str = "mse"  # the loss that a layer for numbers was trained with


class Judged(msgspec.Struct, frozen=True, kw_only=True):
    """`matrix[truth][answer]` counts samples; `pairs` of a regression are (truth, answer). `error`: why there is nothing of this layer."""

    id: str
    metrics: dict[str, float] = {}
    classes: list[str] = []
    matrix: list[list[int]] = []
    pairs: list[tuple[float, float]] = []
    error: dict[str, str] | None = None


class Said(msgspec.Struct, frozen=True, kw_only=True):
    answer: str
    probability: float
    right: bool


class Sample(msgspec.Struct, frozen=True, kw_only=True):
    """`picture` is a data: address; `values` are the first of a sample that is none."""

    number: int
    truth: str
    said: list[Said]  # in the order of layers that could be asked
    picture: str | None = None
    values: list[float] = []


class Group(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    count: int  # all of it, of which some are shown
    samples: list[Sample]


class Judgement(msgspec.Struct, frozen=True, kw_only=True):
    data: str
    task: str
    all: int  # samples of the test split
    used: int  # of which so many were asked about
    layers: list[Judged]
    groups: list[Group]


def rows_of(samples: int, most: int) -> NDArray[np.int64]:
    """Which samples to ask about: all, or as many as may be, evenly spread."""
    if samples <= most:
        return np.arange(samples, dtype=np.int64)
    return np.linspace(0, samples - 1, most).astype(np.int64)


def judged(one: Answered) -> Judged:
    """Of classes: loss is the cross-entropy. Of numbers: the loss that the layer was trained with, mean absolute error and r2."""
    if one.classes is None:
        return _numbers(one)
    logs = log_softmax(one.outputs)
    answers = logs.argmax(1)
    matrix = np.zeros((len(one.classes), max(len(one.classes), logs.shape[1])), dtype=np.int64)
    np.add.at(matrix, (one.labels, answers), 1)
    loss = float(-logs[np.arange(len(logs)), one.labels].mean())
    figures = {"accuracy": float((answers == one.labels).mean()), "loss": loss}
    return Judged(id=one.id, metrics=_finite(figures), classes=one.classes, matrix=matrix[:, : len(one.classes)].tolist())


def _numbers(one: Answered) -> Judged:
    truth = one.labels.astype(np.float64).reshape(len(one.labels), -1)
    given = one.outputs.astype(np.float64).reshape(truth.shape)
    wrong = given - truth
    spread = float(np.square(truth - truth.mean(0)).sum())
    lost = float(np.square(wrong).sum())
    figures = {"loss": float(_LOSSES[one.objective](wrong).mean()), "mae": float(np.abs(wrong).mean())}
    figures["r2"] = 1 - lost / spread if spread else float(lost == 0)
    some = rows_of(len(truth), POINTS)
    pairs = [(float(a), float(b)) for a, b in zip(truth[some, 0], given[some, 0], strict=True) if math.isfinite(a) and math.isfinite(b)]
    return Judged(id=one.id, metrics=_finite(figures), pairs=pairs)


def _huber(wrong: Floats) -> Floats:
    size = np.abs(wrong)
    return np.where(size <= HUBER_DELTA, 0.5 * size**2, HUBER_DELTA * (size - 0.5 * HUBER_DELTA))


_LOSSES: Final[dict[str, Callable[[Floats], Floats]]] = {"mse": np.square, "l1": np.abs, "huber": _huber}


def _finite(figures: dict[str, float]) -> dict[str, float]:
    return {name: value for name, value in figures.items() if math.isfinite(value)}


def log_softmax(outputs: NDArray[Any]) -> Floats:
    wide = outputs.astype(np.float64)
    shifted = wide - wide.max(1, keepdims=True)
    found: Floats = shifted - np.log(np.exp(shifted).sum(1, keepdims=True))
    return found


def groups(
    answered: Sequence[Answered], rows: NDArray[np.int64], show: Callable[[int], tuple[str | None, list[float]]], most: int = SHOWN
) -> list[Group]:
    """Samples of classes on which the layers disagree, are wrong together, and are right together. `show(row)`: a picture, or values."""
    asked = [one for one in answered if one.classes is not None]
    if not asked:
        return []
    logs = [log_softmax(one.outputs) for one in asked]
    answers = np.stack([np.array(one.classes, dtype=object)[log.argmax(1)] for one, log in zip(asked, logs, strict=True)])
    sure = np.stack([np.exp(log.max(1)) for log in logs])
    truth = np.array(asked[0].classes, dtype=object)[asked[0].labels]
    right = answers == truth
    apart = (answers != answers[0]).any(0)
    kinds = [("wrong together", ~right.any(0) & ~apart), ("right together", right.all(0))]
    if len(asked) > 1:
        kinds.insert(0, ("they disagree", apart))
    found = []
    for name, which in kinds:
        places = np.flatnonzero(which)
        # the surest first: of these, one of them has something to explain. Of what all know, the least sure.
        weight = sure.min(0) if name == "right together" else -sure.max(0)
        best = places[np.argsort(weight[places], kind="stable")][:most]
        samples = [_sample(int(place), int(rows[place]), truth, answers, sure, right, show) for place in best]
        found.append(Group(name=name, count=len(places), samples=samples))
    return found


def _sample(
    place: int,
    row: int,
    truth: NDArray[Any],
    answers: NDArray[Any],
    sure: Floats,
    right: NDArray[np.bool_],
    show: Callable[[int], tuple[str | None, list[float]]],
) -> Sample:
    picture, values = show(row)
    said = [
        Said(answer=str(answers[layer, place]), probability=float(sure[layer, place]), right=bool(right[layer, place]))
        for layer in range(len(answers))
    ]
    return Sample(number=row, truth=str(truth[place]), said=said, picture=picture, values=values)

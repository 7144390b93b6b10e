"""Measures: the figures that trials are compared by, and how each is read off a trial. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal

import msgspec

from laminar.experiments.record import Point, Trial


class Measure(msgspec.Struct, frozen=True):
    words: str
    unit: str
    better: Literal["more", "less"]
    timed: bool = False  # it says something only where others were quiet
    ratios: bool = True  # per cent of it mean something: it has a zero, and does not lie about it


MEASURES: Final[dict[str, Measure]] = {
    "seconds": Measure("time of training", "s", "less", True),
    "seconds_per_epoch": Measure("time of an epoch", "s", "less", True),
    "test_seconds": Measure("time of the test after an epoch", "s", "less", True),
    "without_checkpoints": Measure("time of training without its checkpoints", "s", "less", True),
    "wall": Measure("time with everything", "s", "less", True),
    "time_to_target": Measure("time to the target accuracy", "s", "less", True),
    "steps_to_target": Measure("steps to the target accuracy", "", "less"),
    "epochs_to_target": Measure("epochs to the target accuracy", "", "less"),
    "samples_per_second": Measure("samples per second", "/s", "more", True),
    "speedup": Measure("times as many samples per second as with one worker", "", "more", True),
    "efficiency": Measure("speed-up for each worker", "", "more", True),
    "utilization": Measure("share of their time that workers compute, and wait for nobody", "", "more", True),
    "batches_per_second": Measure("batches fetched per second", "/s", "more", True),
    "bytes_touched": Measure("bytes of the data's cache lines that a batch reads", "B", "less"),
    "accuracy": Measure("accuracy on the test part", "", "more"),
    "loss": Measure("loss on the test part", "", "less"),
    "train_accuracy": Measure("accuracy in training, last epoch", "", "more"),
    "train_loss": Measure("loss in training, last epoch", "", "less"),
    "overfit": Measure("over-fitting: training minus test accuracy, or test minus training loss", "", "less", ratios=False),
    "mae": Measure("mean absolute error on the test part", "", "less"),
    "r2": Measure("share of the variance that is explained", "", "more"),
    "epochs": Measure("epochs trained", "", "less"),
    "steps": Measure("steps trained", "", "less"),
    "checkpoints": Measure("checkpoints within the training", "", "less"),
    "checkpoint_seconds": Measure("time for which training stood still to write checkpoints", "s", "less", True),
    "checkpoint_bytes": Measure("bytes of a checkpoint", "B", "less"),
    "parameters": Measure("parameters of the model, frozen ones included", "", "less"),
    "bytes": Measure("bytes sent between workers", "B", "less"),
    "staleness": Measure("steps by which gradients were late, on average", "", "less"),
    "layer_bytes": Measure("bytes the layer takes in the store", "B", "less"),
}
AGAINST_OTHERS: Final = ("speedup", "efficiency")  # known of a trial when those of another variant are (speedups.py)
TO_TARGET: Final = {"time_to_target": "seconds", "steps_to_target": "step", "epochs_to_target": "epoch"}  # and the point's field
OF_CURVES: Final = ("seconds_per_epoch", "accuracy", "loss", "train_accuracy", "train_loss", "overfit", "epochs", "steps")  # by epoch
AT_RUNGS: Final = (*OF_CURVES, *TO_TARGET, "seconds", "wall", "bytes", "staleness")  # known of a trial that has not come to its end


def measure_of(trial: Trial, name: str, target: float | None = None) -> float | None:
    """None: it is not known of this trial, or the target was not reached."""
    if name in ("seconds", "wall"):
        return float(getattr(trial, name))
    if name == "without_checkpoints":
        return trial.seconds - trial.metrics["checkpoint_seconds"] if "checkpoint_seconds" in trial.metrics else None
    last = trial.curve[-1] if trial.curve else None
    if name == "seconds_per_epoch":
        return trial.metrics.get(name, trial.seconds / len(trial.curve) if trial.curve else None)
    if name in TO_TARGET:
        return None if target is None else _to_target(trial.curve, target, TO_TARGET[name])
    if name in trial.metrics:
        return trial.metrics[name]
    if last is None:
        return None
    if name == "train_accuracy":
        return last.accuracy
    if name == "train_loss":
        return last.loss
    if name == "epochs":
        return float(last.epoch)
    if name == "steps":
        return float(last.step)
    if name == "overfit":
        if last.accuracy is not None and last.test_accuracy is not None:
            return last.accuracy - last.test_accuracy
        return None if last.loss is None or last.test_loss is None else last.test_loss - last.loss
    return None


def _to_target(curve: Sequence[Point], target: float, what: str) -> float | None:
    """Where the line between the tests before and after meets the target: whole epochs are too coarse to count large batches by."""
    before: Point | None = None
    for point in curve:
        if point.test_accuracy is None:
            continue
        here = float(getattr(point, what))
        if point.test_accuracy >= target:
            if before is None or before.test_accuracy is None:
                return here
            share = (target - before.test_accuracy) / (point.test_accuracy - before.test_accuracy)
            return float(getattr(before, what)) + share * (here - float(getattr(before, what)))
        before = point
    return None

"""Tables that some experiments have besides that of all variants: epochs beside published ones, efficiency, the critical batch, and
what a larger batch saves. Pure.

Part of every summary, so that `show`, reports, CSV and JSON have them too.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import Any, Final

from laminar.core.figures import many
from laminar.experiments.axes import plain_name, told
from laminar.experiments.fit import critical_batch, strong_scaling, weak_scaling
from laminar.experiments.intervals import ENOUGH, Interval, ratio
from laminar.experiments.measures import measure_of
from laminar.experiments.record import Axis, Description, Point, Trial, Variant
from laminar.experiments.results import Cell, Extra

STRONG, WEAK = "strong", "weak"  # lines of variants, in the sense of scaling
PAYS: Final = 0.8  # a larger batch pays where it takes this share of the time, or less
Counted = Mapping[str, Sequence[Trial]]  # by variant


def extras(description: Description, variants: Sequence[Variant], counted: Counted) -> tuple[Extra, ...]:
    """Those that have a row."""
    found = [
        _epochs(description, counted.get(description.benchmark, ())) if description.epochs else None,
        _scaling(description, variants, counted) if any(one.line in (STRONG, WEAK) for one in variants) else None,
        _critical(description, variants, counted) if "steps_to_target" in description.measures else None,
        _larger_batch(description, variants, counted) if "epochs_to_target" in description.measures else None,
        _checkpoints(description, variants, counted) if "checkpoint_seconds" in description.measures else None,
    ]
    return tuple(one for one in found if one is not None and one.rows)


def varying(axes: Sequence[Axis], variants: Sequence[Variant]) -> tuple[Axis, ...]:
    """Those along which variants differ."""
    return tuple(axis for axis in axes if len({repr(one.settings.get(axis.name)) for one in variants}) > 1)


def line_of(variant: Variant, axes: Sequence[Axis], *but: str) -> str:
    """What variants have in common that only differ along some axes: the line they are of, or how the other axes are set, in words."""
    return variant.line or ", ".join(
        told(one.name, variant.settings[one.name]) for one in axes if one.name not in but and one.name in variant.settings
    )


def _extra(name: str, title: str, columns: Sequence[str], rows: Sequence[Sequence[Cell]]) -> Extra:
    return Extra(name=name, title=title, columns=tuple(columns), rows=tuple(dict(zip(columns, row, strict=True)) for row in rows))


def _epochs(description: Description, trials: Sequence[Trial]) -> Extra:
    """Of the benchmark, epoch by epoch: the median of its trials, and of what is held out also the least and the most."""
    rows: list[tuple[Cell, ...]] = []
    for number in range(max((len(one.curve) for one in trials), default=0)):
        points = [one.curve[number] for one in trials if len(one.curve) > number]
        spent = [
            one.curve[number].seconds - (one.curve[number - 1].seconds if number else 0.0) for one in trials if len(one.curve) > number
        ]
        said = description.epochs[number] if number < len(description.epochs) else {}
        held = _known(points, "test_accuracy")
        middle, least, most = (statistics.median(held), min(held), max(held)) if held else (None, None, None)
        seen = _known(points, "accuracy")
        ours = statistics.median(seen) if seen else None
        rows.append((number + 1, ours, said.get("train_accuracy"), middle, least, most, statistics.median(spent), said.get("seconds")))
    columns = ("epoch", "in training", "published", "held out", "least", "most", "seconds", "published seconds")
    return _extra("epochs", f"Accuracy and time, epoch by epoch: medians of {many(len(trials), 'trial')}", columns, rows)


def _known(points: Sequence[Point], name: str) -> list[float]:
    return [value for one in points if (value := getattr(one, name)) is not None]


def _scaling(description: Description, variants: Sequence[Variant], counted: Counted) -> Extra:
    """An epoch has the same samples whatever the batch; with n times the batch it has an n-th of the steps, so weak work is n epochs."""
    seconds: dict[str, dict[int, float]] = {STRONG: {}, WEAK: {}}
    for variant in variants:
        workers, spent = variant.settings.get("workers"), _median(counted, variant.id, "seconds_per_epoch", description.target)
        if isinstance(workers, int) and spent is not None:
            for line in (STRONG, WEAK) if variant.id == description.benchmark else (variant.line,):
                if line in seconds:
                    seconds[line][workers] = spent * (workers if line == WEAK else 1)
    rows: list[tuple[Cell, ...]] = []
    for line, law in ((STRONG, strong_scaling), (WEAK, weak_scaling)):
        if 1 in seconds[line]:
            rows += [(line, one.workers, one.speed_up, one.efficiency) for one in law(seconds[line])]
    return _extra("scaling", "Scaling against one worker; 1 is ideal", ("scaling", "workers", "speed-up", "efficiency"), rows)


def _critical(description: Description, variants: Sequence[Variant], counted: Counted) -> Extra | None:
    axis = _axis_of_batches(description)
    if axis is None:
        return None
    axes = varying(description.axes, variants)
    lines: dict[str, list[tuple[Any, str, float | None]]] = {}
    for one in variants:
        steps = _median(counted, one.id, "steps_to_target", description.target)
        lines.setdefault(line_of(one, axes, axis.name), []).append((one.settings.get(axis.name), one.id, steps))
    rows: list[tuple[Cell, ...]] = []
    for line, known in lines.items():
        points = [
            (samples_per_step(counted.get(id, ()), batch), steps)
            for batch, id, steps in known
            if steps is not None and isinstance(batch, int | float)
        ]
        law = critical_batch(points)
        if law is not None:
            found = "yes" if law.found else "no, beyond the batches measured"
            rows.append((line or "all", law.points, law.s_min, law.b_crit, law.error, found))
        else:
            rows.append((line or "all", len(points), None, None, None, "too few batches reached the target"))
    columns = ("line", "batches", "S_min", "B_crit", "rms error of ln steps", "found")
    title = f"Fitted: steps(B) = S_min (1 + B_crit / B), to an accuracy of {description.target or 0:g}"
    return _extra("critical-batch", title, columns, rows)


def _axis_of_batches(description: Description) -> Axis | None:
    return next((one for one in description.axes if plain_name(one.name).rpartition(".")[2] == "batch"), None)


def samples_per_step(trials: Sequence[Trial], batch: float) -> float:
    """What steps really had: the last batch of an epoch is smaller, and one that is larger than the data is as large as they are."""
    known = [one.metrics["samples_per_step"] for one in trials if "samples_per_step" in one.metrics]
    return statistics.median(known) if known else float(batch)


def _larger_batch(description: Description, variants: Sequence[Variant], counted: Counted) -> Extra | None:
    """Of each line with two batches: time and epochs to the target with the larger one, as a share of those with the smaller one."""
    axis = _axis_of_batches(description)
    if axis is None:
        return None
    axes = varying(description.axes, variants)
    lines: dict[str, list[Variant]] = {}
    for one in sorted(variants, key=lambda one: float(one.settings.get(axis.name, 0))):
        lines.setdefault(line_of(one, axes, axis.name), []).append(one)
    if any(len(line) != 2 for line in lines.values()):
        return None
    rows: list[tuple[Cell, ...]] = []
    verdicts = []
    for name, (small, large) in lines.items():
        cells: list[Cell] = [name or "all"]
        for measure in ("time_to_target", "epochs_to_target"):
            values, base = (_values(counted, one.id, measure, description.target) for one in (large, small))
            found = ratio(values, base)
            interval = found[1] if found is not None else None
            cells += [found[0] if found is not None else None, *((interval.low, interval.high) if interval else (None, None))]
            if measure == "time_to_target":
                missed = any(
                    len(_values(counted, one.id, measure, description.target)) < len(counted.get(one.id, ())) for one in (small, large)
                )
                verdicts.append(_pays(interval, missed=missed))
        rows.append((*cells, verdicts[-1]))
    least, most = (next(iter(lines.values()))[at].settings[axis.name] for at in (0, 1))
    whole = "yes" if "yes" in verdicts else "not shown" if "not shown" in verdicts else "no"
    rows.append(("any of them", *6 * [None], whole))
    columns = ("line", "time", "low", "high", "epochs", "low of epochs", "high of epochs", f"{PAYS:g} of the time or less")
    title = f"Batch {most:,} against {least:,}, to an accuracy of {description.target or 0:g}: 1 is as long"
    return _extra("larger-batch", title, columns, rows)


def _pays(interval: Interval | None, *, missed: bool) -> str:
    if interval is None or interval.level < ENOUGH - 1e-9 or missed:
        return "not shown"
    return "yes" if interval.high <= PAYS else "no" if interval.low > PAYS else "not shown"


def _values(counted: Counted, variant: str, measure: str, target: float | None) -> list[float]:
    return [value for one in counted.get(variant, ()) if (value := measure_of(one, measure, target)) is not None]


def _checkpoints(description: Description, variants: Sequence[Variant], counted: Counted) -> Extra:
    """How much of what a variant takes longer than the benchmark is the time for which its training stood still."""
    rows: list[tuple[Cell, ...]] = []
    base = _median(counted, description.benchmark, "without_checkpoints", None)
    for one in variants:
        seconds, still, written, size = (
            _median(counted, one.id, measure, None) for measure in ("seconds", "checkpoint_seconds", "checkpoints", "checkpoint_bytes")
        )
        if seconds is None or still is None or written is None:  # servers write beside the training
            continue
        longer = None if base is None or one.id == description.benchmark else seconds - base
        rows.append((one.label, written, still / written if written else None, size, still, seconds - still, longer))
    columns = ("variant", "checkpoints", "seconds of one", "bytes of one", "seconds of all", "training without them", "longer")
    against = next((one.label for one in variants if one.id == description.benchmark), "the benchmark")
    title = f"Checkpoints: what training stood still for, and how much longer it took than {against} without its own"
    return _extra("checkpoints", title, columns, rows)


def _median(counted: Counted, variant: str, measure: str, target: float | None) -> float | None:
    known = _values(counted, variant, measure, target)
    return statistics.median(known) if known else None

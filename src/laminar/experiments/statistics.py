"""Statistics: what the trials say, per variant and measure, relative to the benchmark. Pure; show, compare and reports read the `Summary`.

Warm-ups and trials on a busy machine are not counted; failed and stopped ones are listed. A verdict is "more" or "less" only where the
interval of the difference from the benchmark leaves out no difference at all, at a level of 90 % or more (intervals.py).
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from laminar.core.figures import many
from laminar.experiments.axes import told
from laminar.experiments.checkpoints import checkpoint_words
from laminar.experiments.differences import difference_words, differences
from laminar.experiments.extras import extras
from laminar.experiments.intervals import LEVEL, Interval, compare, difference, of_median, ratio
from laminar.experiments.measures import MEASURES, TO_TARGET, measure_of
from laminar.experiments.order import WARM_UP, standing
from laminar.experiments.record import Axis, Description, Trial, Variant
from laminar.experiments.results import Failure, Figure, Judged, Row, Summary, Verdict
from laminar.experiments.speedups import with_speedups
from laminar.experiments.statements import Evidence, judge

__all__ = [
    "BUSY",
    "METHOD",
    "Failure",
    "Figure",
    "Interval",
    "Judged",
    "Row",
    "Summary",
    "Verdict",
    "counted_trials",
    "figure",
    "summary",
    "values_of",
]

BUSY: Final = 0.15  # of a core, as plan/profile/busy.py has it
METHOD: Final = (
    f"medians; intervals at {LEVEL:.0%} where there are trials enough for it, else as wide as the trials, at the level given: of medians "
    "by the sign test, of ratios and differences by the rank-sum test over all pairs (Hodges and Lehmann 1963)"
)


def counted_trials(trials: Sequence[Trial]) -> dict[str, list[Trial]]:
    """Variant: its trials that count and came to their end, by repeat."""
    return _by_variant(one for _, one in sorted(standing(trials).items()) if _counts(one))


def values_of(trials: Iterable[Trial], measure: str, target: float | None) -> list[float]:
    return [value for one in trials if (value := measure_of(one, measure, target)) is not None]


def summary(description: Description, trials: Sequence[Trial]) -> Summary:
    """Everything that tables and pictures need."""
    variants = all_variants(description, trials)
    listed = {one.id for one in variants}
    dropped = sum(one.variant not in listed for one in trials)
    trials = with_speedups(description, variants, [one for one in trials if one.variant in listed])
    known = standing(trials)
    all_of, known_of = _by_variant(trials), _by_variant(one for _, one in sorted(known.items()))
    counted = {one.id: [t for t in known_of.get(one.id, ()) if _counts(t)] for one in variants}
    values = {
        (id, measure): values_of(some, measure, description.target) for id, some in counted.items() for measure in description.measures
    }
    measures = tuple(measure for measure in description.measures if any(values[one.id, measure] for one in variants))
    rows = tuple(
        _row(description, one, all_of.get(one.id, []), known_of.get(one.id, []), counted[one.id], measures, values) for one in variants
    )
    labels = {one.id: one.label for one in variants}
    apart = () if (table := differences(description, variants)) is None else (table,)
    failures = tuple(
        Failure(
            variant=t.variant,
            label=labels[t.variant],
            repeat=t.repeat,
            code=t.error.get("code", ""),
            message=t.error.get("message", ""),
            hint=t.error.get("hint", ""),
        )
        for t in known.values()
        if t.outcome == "failed"
    )
    evidence = Evidence(description, tuple(variants), {id: tuple(some) for id, some in counted.items()})
    return Summary(
        name=description.name,
        title=description.title,
        question=description.question,
        stack=description.stack,
        layer=description.layer,
        benchmark=labels.get(description.benchmark, ""),
        measures=measures,
        units={measure: MEASURES[measure].unit for measure in measures},
        rows=rows,
        planned=sum(max(description.repeats, len(known_of.get(one.id, ()))) for one in variants),
        done=sum(1 for t in known.values() if t.outcome != "stopped"),
        failures=failures,
        seconds=sum(t.wall for t in trials if not t.sum_of),
        quick=description.quick,
        timed=description.timed,
        statements=tuple(judge(one, evidence) for one in description.statements),
        notes=(*description.notes, *difference_words(description, variants), *_notes(description, trials, rows, measures, dropped)),
        method=METHOD,
        study=description.study,
        tables=(*extras(description, variants, counted), *apart, *description.tables),
    )


def all_variants(description: Description, trials: Iterable[Trial]) -> list[Variant]:
    """Those described, and those that a search has proposed."""
    found = {one.id: one for one in description.variants}
    for trial in trials:
        if trial.variant not in found and trial.settings:
            label = ", ".join(told(name, value) for name, value in trial.settings.items())
            found[trial.variant] = Variant(id=trial.variant, label=label, settings=trial.settings)
    return list(found.values())


def _by_variant(trials: Iterable[Trial]) -> dict[str, list[Trial]]:
    found: dict[str, list[Trial]] = {}
    for one in trials:
        found.setdefault(one.variant, []).append(one)
    return found


def _counts(trial: Trial) -> bool:
    return trial.outcome == "done" and trial.counted


def _row(
    description: Description,
    variant: Variant,
    mine: list[Trial],
    known: list[Trial],
    counted: list[Trial],
    measures: tuple[str, ...],
    values: dict[tuple[str, str], list[float]],
) -> Row:
    """`mine`: all trials of the variant; `known`: what is known of each of its repeats."""
    return Row(
        variant=variant.id,
        label=variant.label,
        settings=variant.settings,
        benchmark=variant.id == description.benchmark,
        counted=len(counted),
        failed=sum(t.outcome == "failed" for t in known),
        stopped=sum(t.outcome == "stopped" for t in known),
        not_counted=sum(1 for t in mine if not t.counted and not t.why_not.startswith(WARM_UP)),
        busy=sum(t.busy > BUSY for t in counted) if description.timed else 0,
        figures={
            measure: _figure(description, variant, measure, values[variant.id, measure], values.get((description.benchmark, measure), []))
            for measure in measures
            if values[variant.id, measure]
        },
    )


def _figure(description: Description, variant: Variant, measure: str, values: list[float], base: list[float]) -> Figure:
    found = figure(values, None if variant.id == description.benchmark else base, ratios=MEASURES[measure].ratios)
    published = next((one for one in description.published if (one.variant, one.measure) == (variant.id, measure)), None)
    if published is None:
        return found
    return msgspec.structs.replace(found, published=published.value, published_percent=published.percent, source=published.source)


def figure(values: list[float], base: list[float] | None, *, ratios: bool = True) -> Figure:
    """These values, relative to those of the benchmark; `base` is None for the benchmark itself. `ratios`: per cent mean something."""
    low, high = _quartiles(values)
    found = Figure(
        n=len(values),
        median=statistics.median(values),
        least=min(values),
        most=max(values),
        low_quartile=low,
        high_quartile=high,
        interval=of_median(values),
        verdict="benchmark",
        percent=100.0 if ratios and min(values) > 0 else None,
        difference=0.0,
    )
    if base is None:
        return found
    times, apart = ratio(values, base) if ratios else None, difference(values, base)
    return msgspec.structs.replace(
        found,
        verdict=compare(values, base),
        percent=None if times is None else 100 * times[0],
        percent_interval=None if times is None or times[1] is None else _times_100(times[1]),
        difference=None if apart is None else apart[0],
        difference_interval=None if apart is None else apart[1],
    )


def _times_100(interval: Interval) -> Interval:
    return Interval(100 * interval.low, 100 * interval.high, interval.level)


def _quartiles(values: list[float]) -> tuple[float, float]:
    if len(values) < 2:
        return values[0], values[0]
    low, _, high = statistics.quantiles(values, n=4, method="inclusive")
    return low, high


def _is_below(axis: Axis, description: Description) -> bool:
    """It changes another layer than the one that repeats train anew."""
    return len(axis.values) > 1 and axis.path.startswith("layer.") and not axis.path.startswith(f"layer.{description.layer}.")


def _notes(description: Description, trials: Sequence[Trial], rows: Sequence[Row], measures: Sequence[str], dropped: int) -> list[str]:
    found = []
    if dropped:
        found.append(f"{many(dropped, 'trial')} of variants that the sweep no longer has: kept, and left out here")
    if below := [one.name for one in description.axes if _is_below(one, description)] if description.repeats > 1 else []:
        found.append(
            f"{', '.join(below)}: what is below {description.layer} is trained once for each value, and repeats differ in "
            f"{description.layer} alone: what another seed below would change is in no interval"
        )
    if busy := sum(row.busy for row in rows):
        found.append(f"{many(busy, 'counted trial')} ran while others took more than {BUSY:.0%} of a core: take their times with care")
    if again := sum(row.not_counted for row in rows):
        found.append(f"{many(again, 'trial')} ran on a busy machine, or went on from a checkpoint: not counted")
    if any(one in TO_TARGET for one in measures):
        for row in rows:
            reached = max((row.figures[one].n for one in TO_TARGET if one in row.figures), default=0)
            if reached < row.counted:
                found.append(f"{row.label}: the target of {description.target} was reached by {reached} of {many(row.counted, 'trial')}")
    found += checkpoint_words(description, rows)
    if description.timed and any(t.reused for t in trials if t.counted):
        found.append("some trials were found in the store: their times were measured then")
    return found

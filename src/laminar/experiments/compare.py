"""Compare: two experiments by the variants that both have. Pure."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

import msgspec

from laminar.core.errors import LaminarError
from laminar.experiments.measures import MEASURES
from laminar.experiments.record import Description, Trial
from laminar.experiments.results import Figure
from laminar.experiments.speedups import with_speedups
from laminar.experiments.statistics import counted_trials, figure, values_of


class Compared(msgspec.Struct, frozen=True, kw_only=True):
    variant: str
    label: str
    measure: str
    first: float  # median
    second: Figure  # relative to the first


class Comparison(msgspec.Struct, frozen=True, kw_only=True):
    first: str
    second: str
    rows: tuple[Compared, ...]
    only_first: tuple[str, ...] = ()  # labels
    only_second: tuple[str, ...] = ()


def compare_experiments(first: tuple[Description, Sequence[Trial]], second: tuple[Description, Sequence[Trial]]) -> Comparison:
    """L008 when no variant is in both."""
    (one, trials), (other, others) = first, second
    labels = {variant.id: variant.label for variant in one.variants}
    ids = {variant.id for variant in other.variants}
    both = [id for id in labels if id in ids]
    if not both:
        raise LaminarError(
            "L008",
            f"'{one.name}' and '{other.name}' have no variant in common: {_axes(one)} there, {_axes(other)} here",
            hint="compare two experiments with the same axes and values",
        )
    rows = []
    known = counted_trials(with_speedups(one, one.variants, trials))
    known_others = counted_trials(with_speedups(other, other.variants, others))
    for id in both:
        for measure in one.measures:
            base = values_of(known.get(id, ()), measure, one.target)
            values = values_of(known_others.get(id, ()), measure, other.target)
            if base and values:
                rows.append(
                    Compared(
                        variant=id,
                        label=labels[id],
                        measure=measure,
                        first=statistics.median(base),
                        second=figure(values, base, ratios=MEASURES[measure].ratios),
                    )
                )
    return Comparison(
        first=one.name,
        second=other.name,
        rows=tuple(rows),
        only_first=tuple(label for id, label in labels.items() if id not in ids),
        only_second=tuple(variant.label for variant in other.variants if variant.id not in labels),
    )


def _axes(description: Description) -> str:
    return ", ".join(axis.name for axis in description.axes) or "no axes"

"""A view of an experiment: its description, trials and summary, asked the way tables and pictures ask. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

from laminar.experiments.axes import plain_name
from laminar.experiments.extras import line_of, varying
from laminar.experiments.order import standing
from laminar.experiments.record import Axis, Description, Published, Trial, Variant
from laminar.experiments.results import Figure, Row, Summary
from laminar.experiments.speedups import with_speedups
from laminar.experiments.statistics import all_variants, summary

WORKERS: Final = ("workers", "nodes", "processes", "threads")  # axes that ought to make training faster, the surest first


@dataclass(frozen=True)
class View:
    description: Description
    trials: tuple[Trial, ...]
    summary: Summary

    @cached_property
    def rows(self) -> dict[str, Row]:
        return {row.variant: row for row in self.summary.rows}

    @cached_property
    def variants(self) -> tuple[Variant, ...]:
        """Those described, and those that a search has proposed."""
        lines = {one.id: one.line for one in self.description.variants}
        return tuple(
            Variant(id=row.variant, label=row.label, settings=row.settings, line=lines.get(row.variant, "")) for row in self.summary.rows
        )

    @cached_property
    def benchmark(self) -> Variant:
        found = next((one for one in self.variants if one.id == self.description.benchmark), None)
        return found or Variant(id=self.description.benchmark, label="the benchmark", settings={})

    @property
    def measures(self) -> tuple[str, ...]:
        return self.summary.measures

    @cached_property
    def done(self) -> tuple[Trial, ...]:
        """Trials that count, in the order of the variants and repeats."""
        places = {one.id: place for place, one in enumerate(self.variants)}
        found = [one for one in standing(self.trials).values() if one.outcome == "done" and one.counted and one.variant in places]
        return tuple(sorted(found, key=lambda one: (places[one.variant], one.repeat)))

    @cached_property
    def _by_variant(self) -> dict[str, list[Trial]]:
        found: dict[str, list[Trial]] = {}
        for one in self.done:
            found.setdefault(one.variant, []).append(one)
        return found

    def trials_of(self, variant: str) -> list[Trial]:
        """Those that count."""
        return self._by_variant.get(variant, [])

    def label(self, variant: str) -> str:
        return self.rows[variant].label if variant in self.rows else variant

    def figure(self, variant: str, measure: str) -> Figure | None:
        """None where nothing is known, or it is no number."""
        found = self.rows[variant].figures.get(measure) if variant in self.rows else None
        return found if found is not None and math.isfinite(found.median) else None

    # axes

    def value(self, variant: Variant, axis: Axis) -> Any:
        return variant.settings.get(axis.name)

    def lines(self, *but: str) -> dict[str, list[Variant]]:
        """Variants that differ along these axes only, by what they have in common in words; or by the line they were said to be of.

        A benchmark that is of no line, where others are, begins every line.
        """
        found: dict[str, list[Variant]] = {}
        whole = any(one.line for one in self.variants)
        for one in self.variants:
            if not (whole and not one.line and one.id == self.benchmark.id):
                found.setdefault(line_of(one, self.axes, *but), []).append(one)
        first = [one for one in self.variants if whole and not one.line and one.id == self.benchmark.id]
        return {line: first + some for line, some in found.items()} or {"": first}

    @cached_property
    def axes(self) -> tuple[Axis, ...]:
        """Those along which variants differ."""
        return varying(self.description.axes, self.variants)

    def is_numeric(self, axis: Axis) -> bool:
        values = [one.settings.get(axis.name) for one in self.variants]
        return all(_is_number(value) for value in values if value is not None) and sum(_is_number(value) for value in values) > 1

    @cached_property
    def workers_axes(self) -> tuple[Axis, ...]:
        """That of workers; with that of threads where there are lines of either."""
        found = [axis for name in WORKERS for axis in self.axes if _last(axis) == name and self.is_numeric(axis)]
        both = [_last(one) for one in found] == ["workers", "threads"] and any(one.line for one in self.variants)
        return tuple(found if both else found[:1])

    @cached_property
    def batch_axis(self) -> Axis | None:
        return next((axis for axis in self.axes if _last(axis) == "batch" and self.is_numeric(axis)), None)

    # published figures

    @cached_property
    def _published(self) -> dict[tuple[str, str], Published]:
        return {(one.variant, one.measure): one for one in self.description.published}

    def published(self, variant: str, measure: str) -> Published | None:
        return self._published.get((variant, measure))

    def published_percent(self, variant: str, measure: str) -> float | None:
        """In per cent of the paper's benchmark, where the paper has one."""
        found = self.published(variant, measure)
        if found is None or found.percent:
            return found.value if found else None
        base = self.published(self.description.benchmark, measure)
        return 100 * found.value / base.value if base is not None and not base.percent and base.value else None


def view(description: Description, trials: Sequence[Trial]) -> View:
    known = with_speedups(description, all_variants(description, trials), trials)
    return View(description, tuple(known), summary(description, trials))


def ends(figure: Figure) -> tuple[float, float] | None:
    """Of its interval in per cent of the benchmark, where there is one."""
    found = figure.percent_interval
    return None if found is None or not (math.isfinite(found.low) and math.isfinite(found.high)) else (found.low, found.high)


def sure(figure: Figure) -> bool:
    """It differs from the benchmark by more than noise."""
    return figure.verdict in ("more", "less")


def _last(axis: Axis) -> str:
    return plain_name(axis.name).rpartition(".")[2]


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)

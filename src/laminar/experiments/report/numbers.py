"""Every number of an experiment: tidy tables for CSV, one row for one thing, and plain data for JSON. Pure.

trials.csv     a row for each trial, also those that do not count
summary.csv    a row for each variant and measure: medians, intervals, per cent of the benchmark, verdict, published figure
curves.csv     a row for each trial and epoch
series.csv     a row for each value that trials told over time: staleness, bytes …
               and one for each table besides: epochs.csv, scaling.csv, critical-batch.csv
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec

from laminar.core.clock import iso
from laminar.experiments.intervals import Interval
from laminar.experiments.record import Point, Trial
from laminar.experiments.view import View

Row = dict[str, Any]
SERIES = "series.csv"


def tables(view: View) -> dict[str, str]:
    """File name: its text. What has no rows has its head; series only where there are any."""
    axes = [axis.name for axis in view.description.axes]
    found = {
        "trials.csv": _csv(_trial_rows(view, axes), ["variant", "label", *axes, "repeat", "outcome", "counted"]),
        "summary.csv": _csv(_summary_rows(view, axes), ["variant", "label", *axes, "benchmark", "measure"]),
        "curves.csv": _csv(
            _curve_rows(view, axes),
            ["variant", "label", *axes, "repeat", "counted", *(field.name for field in msgspec.structs.fields(Point))],
        ),
        SERIES: _csv(_series_rows(view, axes), ["variant", "label", *axes, "repeat", "counted", "series", "place", "value"]),
    }
    kept = {name: text for name, text in found.items() if name != SERIES or any(one.series for one in view.trials)}
    return kept | {f"{one.name}.csv": _csv(one.rows, list(one.columns)) for one in view.summary.tables}


def plain(view: View) -> dict[str, Any]:
    """For JSON: what is no number is null there."""
    whole = {"description": view.description, "summary": view.summary, "trials": view.trials}
    found: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(whole))
    return found


def _named(view: View, variant: str, axes: list[str]) -> Row:
    """Axes that a trial was not set by are empty; what is no plain value is JSON."""
    row = view.rows.get(variant)
    settings = row.settings if row else {}
    return {"variant": variant, "label": view.label(variant), **{name: _value(settings.get(name)) for name in axes}}


def _trial_rows(view: View, axes: list[str]) -> Iterator[Row]:
    for one in view.trials:
        yield {
            **_named(view, one.variant, axes),
            "repeat": one.repeat,
            "outcome": one.outcome,
            "counted": _counts(view, one),
            "why_not": one.why_not,
            "reused": one.reused,
            "started": iso(one.started),
            "wall": one.wall,
            "seconds": one.seconds,
            "busy": one.busy,
            **one.metrics,
            "layer": one.layer,
            "run": one.run,
            **{f"error_{name}": text for name, text in one.error.items()},
        }


def _summary_rows(view: View, axes: list[str]) -> Iterator[Row]:
    for row in view.summary.rows:
        for measure, figure in row.figures.items():
            yield {
                **_named(view, row.variant, axes),
                "benchmark": row.benchmark,
                "measure": measure,
                "unit": view.summary.units.get(measure, ""),
                "n": figure.n,
                "median": figure.median,
                **_ends("median", figure.interval),
                "least": figure.least,
                "most": figure.most,
                "low_quartile": figure.low_quartile,
                "high_quartile": figure.high_quartile,
                "percent": figure.percent,
                **_ends("percent", figure.percent_interval),
                "difference": figure.difference,
                **_ends("difference", figure.difference_interval),
                "verdict": figure.verdict,
                "published": figure.published,
                "published_in_percent": figure.published_percent if figure.published is not None else None,
                "source": figure.source,
            }


def _ends(name: str, found: Interval | None) -> Row:
    low, high, level = (found.low, found.high, found.level) if found else (None, None, None)
    return {f"{name}_low": low, f"{name}_high": high, f"{name}_level": level}


def _curve_rows(view: View, axes: list[str]) -> Iterator[Row]:
    for one in view.trials:
        for point in one.curve:
            yield {**_named(view, one.variant, axes), "repeat": one.repeat, "counted": _counts(view, one), **msgspec.structs.asdict(point)}


def _series_rows(view: View, axes: list[str]) -> Iterator[Row]:
    for one in view.trials:
        for name, values in one.series.items():
            for place, value in enumerate(values):
                head = {**_named(view, one.variant, axes), "repeat": one.repeat, "counted": _counts(view, one)}
                yield {**head, "series": name, "place": place, "value": value}


def _counts(view: View, trial: Trial) -> bool:
    return trial.counted and trial.outcome == "done" and trial.variant in view.rows


def _csv(rows: Iterable[Mapping[str, Any]], least: list[str]) -> str:
    """Columns: those given, and every other that a row has, in the order in which they come."""
    listed = list(rows)
    columns = list(dict.fromkeys([*least, *(name for row in listed for name in row)]))
    target = io.StringIO(newline="")
    writer = csv.writer(target, lineterminator="\r\n")  # RFC 4180
    writer.writerow(columns)
    writer.writerows([_value(row.get(name)) for name in columns] for row in listed)
    return target.getvalue()


def _value(value: Any) -> Any:
    if value is None or isinstance(value, str | int | float):
        return str(value).lower() if isinstance(value, bool) else value
    return msgspec.json.encode(value).decode()

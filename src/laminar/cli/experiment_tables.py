"""Tables of experiments: every variant in per cent of the benchmark, with intervals, and published figures beside ours."""

from __future__ import annotations

from laminar.cli.output import number, remark, say, seconds, table
from laminar.core.figures import many
from laminar.experiments.results import Figure, Row, Summary

NOISE, FEW = "≈", "?"


def show_summary(summary: Summary) -> None:
    if summary.question:
        say(summary.question)
    say(
        f"{summary.title}: layer {summary.layer} of {summary.stack}, {summary.done} of {summary.planned} trials"
        + (f" in {seconds(summary.seconds)}" if summary.seconds else "")
        + (", quick" if summary.quick else "")
    )
    if summary.measures:
        columns = ["variant", "n"]
        for measure in summary.measures:
            columns += [measure, f"{measure} %"] + ([f"{measure} published"] if _published(summary, measure) else [])
        rows = [[row.label + (" *" if row.benchmark else ""), _counted(row), *_cells(summary, row)] for row in summary.rows]
        table("", columns, rows, right=columns[1:])
        say(_legend(summary))
    for one in summary.statements:
        say(f"{one.verdict}: {one.text} ({one.words})")
    for note in summary.notes:
        say(f"note: {note}")
    for failure in summary.failures[:10]:
        remark(f"failed: {failure.label}, repeat {failure.repeat}: {failure.code}: {failure.message}")
    if len(summary.failures) > 10:
        remark(f"and {len(summary.failures) - 10} more")


def _published(summary: Summary, measure: str) -> bool:
    return any(row.figures[measure].published is not None for row in summary.rows if measure in row.figures)


def _counted(row: Row) -> str:
    beside = [f"{count} {what}" for count, what in ((row.failed, "failed"), (row.stopped, "stopped")) if count]
    return f"{row.counted}" + (f" ({', '.join(beside)})" if beside else "")


def _cells(summary: Summary, row: Row) -> list[str]:
    cells = []
    for measure in summary.measures:
        figure = row.figures.get(measure)
        cells += [number(figure.median) if figure else "-", relative(figure)]
        if _published(summary, measure):
            known = figure is not None and figure.published is not None
            cells.append(f"{number(figure.published)}{' %' if figure.published_percent else ''}" if known and figure else "-")
    return cells


def relative(figure: Figure | None) -> str:
    """`110.3 [104.2, 117.5]`, with a mark where that is no more than noise; a difference where ratios say nothing."""
    if figure is None:
        return "-"
    if figure.verdict == "benchmark":
        return "100" if figure.percent is not None else "0"
    mark = {"inside the noise": f" {NOISE}", "too few repeats": f" {FEW}"}.get(figure.verdict, "")
    if figure.percent is not None:
        between = figure.percent_interval
        return _percent(figure.percent) + (f" [{_percent(between.low)}, {_percent(between.high)}]" if between else "") + mark
    if figure.difference is not None:
        between = figure.difference_interval
        return f"{figure.difference:+.4f}" + (f" [{between.low:+.4f}, {between.high:+.4f}]" if between else "") + mark
    return "-"


def _percent(value: float) -> str:
    """A loss that ran away must not make the column as wide as its digits."""
    return f"{value:.1f}" if abs(value) < 1e5 else number(value)


def _legend(summary: Summary) -> str:
    figures = [figure for row in summary.rows for figure in row.figures.values()]
    levels = [f.percent_interval.level for f in figures if f.percent_interval] + [
        f.difference_interval.level for f in figures if f.difference_interval and not f.percent_interval
    ]
    said = [f"* the benchmark, 100 %: {summary.benchmark}"]
    if levels:
        low, high = min(levels), max(levels)
        said.append(f"in brackets intervals at {low:.0%}" + (f" to {high:.0%}" if round(high - low, 2) else ""))
    if any(f.verdict == "inside the noise" for f in figures):
        said.append(f"{NOISE} inside the noise")
    if any(f.verdict == "too few repeats" for f in figures):
        said.append(f"{FEW} too few repeats to tell")
    return "; ".join(said)


def outcome(summary: Summary) -> str:
    """One line for `list`."""
    return f"{summary.done}/{summary.planned}" + (f", {many(len(summary.failures), 'failure')}" if summary.failures else "")

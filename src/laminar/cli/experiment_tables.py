"""Tables of experiments: every variant in per cent of the benchmark, with intervals, and published figures beside ours."""

from __future__ import annotations

from laminar.cli.output import number, remark, say, seconds, table
from laminar.core.errors import docs
from laminar.experiments.results import Figure, Row, Summary
from laminar.experiments.words import plain

NOISE, FEW = "≈", "?"
WAITING = 20  # variants without a trial that have a line each; of more only the number is told


def show_summary(summary: Summary) -> None:
    if summary.question:
        say(summary.question)
    say(
        f"{summary.title}: layer {summary.layer} of {summary.stack}, {summary.done} of {summary.planned} trials"
        + (f", {stopped} stopped early" if (stopped := sum(row.stopped for row in summary.rows)) else "")
        + (f" in {seconds(summary.seconds)}" if summary.seconds else "")
        + (", quick" if summary.quick else "")
    )
    if summary.measures:
        columns = ["variant", "n"]
        for measure in summary.measures:
            percent = [f"{measure} {_unit(summary, measure)}"] if len(summary.rows) > 1 else []  # one alone is always 100
            columns += [measure, *percent, *([f"{measure} published"] if _published(summary, measure) else [])]
        shown = [row for row in summary.rows if row.counted or row.failed or row.stopped or row.benchmark]
        waiting = len(summary.rows) - len(shown)
        if waiting <= WAITING:
            shown = list(summary.rows)
        rows = [[row.label + (" *" if row.benchmark else ""), _counted(row), *_cells(summary, row)] for row in shown]
        table("", columns, rows, right=columns[1:])
        if waiting > WAITING:
            say(f"and {waiting:,} variants of which no trial has been run yet")
        say(_legend(summary))
    for extra in summary.tables:
        rows = [[plain(row[name]) for name in extra.columns] for row in extra.rows]
        table(extra.title, extra.columns, rows, right=extra.columns[1:])
    for one in summary.statements:
        say(f"{one.verdict}: {one.text}{f' [{one.claim}]' if one.claim else ''} ({one.words})")
    for note in summary.notes:
        say(f"note: {note}")
    if summary.study:
        say(f"published: {summary.study}")
    if any(one.claim[:1].isdigit() for one in summary.statements) and summary.study:
        say(f"claims in brackets: {docs('founding.md')}")
    for failure in summary.failures[:10]:
        remark(f"failed: {failure.label}, repeat {failure.repeat}: {failure.code}: {failure.message}")
    if len(summary.failures) > 10:
        remark(f"and {len(summary.failures) - 10} more")


def _unit(summary: Summary, measure: str) -> str:
    """`%` of the benchmark, or `diff` where there are differences only."""
    figures = [row.figures[measure] for row in summary.rows if measure in row.figures]
    return "%" if any(one.percent is not None for one in figures) or not figures else "diff"


def _published(summary: Summary, measure: str) -> bool:
    return any(row.figures[measure].published is not None for row in summary.rows if measure in row.figures)


def _counted(row: Row) -> str:
    beside = [f"{count} {what}" for count, what in ((row.failed, "failed"), (row.stopped, "stopped")) if count]
    return f"{row.counted}" + (f" ({', '.join(beside)})" if beside else "")


def _cells(summary: Summary, row: Row) -> list[str]:
    cells = []
    for measure in summary.measures:
        figure = row.figures.get(measure)
        alone = len(summary.rows) == 1
        cells += [_median(figure, spread=alone), *([] if alone else [relative(figure)])]
        if _published(summary, measure):
            known = figure is not None and figure.published is not None
            cells.append(f"{number(figure.published)}{' %' if figure.published_percent else ''}" if known and figure else "-")
    return cells


def _median(figure: Figure | None, *, spread: bool) -> str:
    if figure is None:
        return "-"
    return number(figure.median) + (f" ({number(figure.least)} to {number(figure.most)})" if spread and figure.n > 1 else "")


def relative(figure: Figure | None) -> str:
    """`110.3 [104.2, 117.5]`, with a mark where that is no more than noise; a difference where ratios say nothing.

    Of the benchmark its own spread: `100 (98.1 to 103.2)`.
    """
    if figure is None:
        return "-"
    if figure.verdict == "benchmark" and figure.percent is not None:
        least, most = (_percent(100 * end / figure.median) for end in (figure.least, figure.most))
        return "100" + (f" ({least} to {most})" if figure.n > 1 else "")
    if figure.verdict == "benchmark":
        return "0" + (f" ({figure.least - figure.median:+.4f} to {figure.most - figure.median:+.4f})" if figure.n > 1 else "")
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
    said = [f"* the benchmark, 100 %: {summary.benchmark}"] if len(summary.rows) > 1 else []
    said += ["medians"] + (
        ["in parentheses its spread, from the least to the most"] if any(f.n > 1 for f in figures if f.verdict == "benchmark") else []
    )
    if levels:
        low, high = min(levels), max(levels)
        said.append(f"in brackets intervals at {low:.0%}" + (f" to {high:.0%}" if round(high - low, 2) else ""))
    if any(f.verdict == "inside the noise" for f in figures):
        said.append(f"{NOISE} inside the noise")
    if any(f.verdict == "too few repeats" for f in figures):
        said.append(f"{FEW} too few repeats to tell")
    return "; ".join(said)

"""Tables of figures: variants against the benchmark, and what was published beside what was found here. Pure."""

from __future__ import annotations

from laminar.core.figures import number
from laminar.experiments.report.document import Cell, Column, Table, Tone
from laminar.experiments.results import Cell as Value
from laminar.experiments.results import Extra, Figure
from laminar.experiments.view import View
from laminar.experiments.words import amount, interval, is_better, measure_title, percent, plain

FOLD = 60  # rows; a longer table is opened by those who want it


def relative_table(view: View) -> Table:
    """A row for each variant, a column for each measure."""
    columns = (
        Column("variant", wide=1.6),
        *(Column(measure_title(measure), number=True) for measure in view.measures),
        Column("trials", True, 0.5),
    )
    rows = []
    for one in view.summary.rows:
        cells = [_cell(view.figure(one.variant, measure), measure) for measure in view.measures]
        missing = [f"{count} {word}" for count, word in ((one.failed, "failed"), (one.stopped, "stopped")) if count]
        rows.append(
            (
                Cell(one.label, "the benchmark" if one.benchmark else ""),
                *cells,
                Cell(str(one.counted), "\n".join(missing), "bad" if one.failed and not one.counted else ""),
            )
        )
    strong = frozenset(place for place, one in enumerate(view.summary.rows) if one.benchmark)
    return Table(columns, tuple(rows), f"All {len(rows)} variants" if len(rows) > FOLD else "", strong=strong)


def _cell(figure: Figure | None, measure: str) -> Cell:
    if figure is None:
        return Cell("-", tone="mute")
    if figure.verdict == "benchmark":
        within = interval(figure.interval, measure)
        shown = "100 %" if figure.percent is not None else amount(figure.median, measure)
        return Cell(shown, "\n".join(line for line in (amount(figure.median, measure) if shown == "100 %" else "", within) if line))
    if figure.percent is None and figure.difference is None:
        return Cell(
            amount(figure.median, measure),
            "\n".join(line for line in (interval(figure.interval, measure), "the benchmark has none") if line),
            "mute",
        )
    if figure.percent is None:
        shown, within = _difference(figure, measure), interval(figure.difference_interval, measure)
    else:
        shown, within = percent(figure.percent), interval(figure.percent_interval)
    verdict = {"inside the noise": "inside the noise", "too few repeats": "too few repeats"}.get(figure.verdict, "")
    return Cell(shown, "\n".join(line for line in (within, amount(figure.median, measure), verdict) if line), _tone(figure, measure))


def _difference(figure: Figure, measure: str) -> str:
    assert figure.difference is not None
    return ("+" if figure.difference > 0 else "") + amount(figure.difference, measure)


def _tone(figure: Figure, measure: str) -> Tone:
    better = is_better(figure, measure)
    return "mute" if figure.verdict in ("inside the noise", "too few repeats") else "" if better is None else "good" if better else "bad"


def published_table(view: View) -> Table | None:
    """A row for each figure that a paper gives; None where there is none."""
    rows = []
    for paper in view.description.published:
        ours = view.figure(paper.variant, paper.measure)
        value = percent(paper.value) if paper.percent else amount(paper.value, paper.measure)
        if ours is None:
            mine, apart = Cell("-", "not measured", "mute"), Cell("-", tone="mute")
        else:
            shown = ours.percent if paper.percent else ours.median
            within = interval(ours.percent_interval) if paper.percent else interval(ours.interval, paper.measure)
            mine = Cell("-" if shown is None else percent(shown) if paper.percent else amount(shown, paper.measure), within)
            apart = _apart(shown, paper.value, percent=paper.percent)
        rows.append(
            (Cell(view.label(paper.variant)), Cell(measure_title(paper.measure)), Cell(value), mine, apart, Cell(paper.source, tone="mute"))
        )
    if not rows:
        return None
    columns = [
        Column("variant", wide=1.4),
        Column("measure", wide=1.1),
        Column("published", True, 0.8),
        Column("here", True),
        Column("here − published", True, 0.9),
    ]
    sources = {row[-1].text for row in rows}
    if len(sources) == 1:  # said once
        return Table(tuple(columns), tuple(row[:-1] for row in rows), caption=f"Source: {sources.pop()}")
    return Table((*columns, Column("source", wide=1.4)), tuple(rows))


def extra_table(extra: Extra) -> Table:
    """As `show` prints it."""
    numbers = {name for name in extra.columns if any(isinstance(row[name], int | float) for row in extra.rows)}
    rows = tuple(tuple(_plain(row[name]) for name in extra.columns) for row in extra.rows)
    return Table(tuple(Column(name, number=name in numbers) for name in extra.columns), rows, caption=extra.title)


def _plain(value: Value) -> Cell:
    return Cell("-", tone="mute") if value is None else Cell(plain(value))


def _apart(ours: float | None, paper: float, *, percent: bool) -> Cell:
    if ours is None:
        return Cell("-", tone="mute")
    return Cell(f"{ours - paper:+,.1f} points" if percent else f"{'+' if ours > paper else ''}{number(ours - paper)}")

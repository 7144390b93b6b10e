"""Trials in a report: those that do not count, with the reason, before all others. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from laminar.core.figures import many
from laminar.experiments.measures import measure_of
from laminar.experiments.order import WARM_UP, standing
from laminar.experiments.record import Trial
from laminar.experiments.report.document import Block, Cell, Column, Paragraph, Table
from laminar.experiments.view import View
from laminar.experiments.words import amount, measure_title, seconds

MOST = 500  # rows of one table; the CSV file has all of them
ASIDE, WENT_ON, DROPPED = "set aside", "went on", "no longer in the sweep"


def trial_blocks(view: View) -> Iterator[Block]:
    if not view.trials:
        yield Paragraph("None yet.", "mute")
        return
    fates: dict[str, list[Trial]] = {}
    known = standing(view.trials)
    for one in view.trials:
        fates.setdefault(_fate(view, one, known), []).append(one)
    told = [f"{many(len(view.trials), 'trial', 'was')} run; {len(view.done):,} count."]
    for fate, words in (
        (WARM_UP, "to warm up"),
        (ASIDE, "set aside"),
        ("failed", "failed"),
        ("stopped", "stopped early as hopeless"),
        (WENT_ON, "stopped, and went on later"),
        (DROPPED, "of variants that the sweep no longer has"),
    ):
        if fate in fates:
            told.append(f"{len(fates[fate]):,} {words}.")
    reused = sum(one.reused for one in view.trials)
    if reused:
        told.append(f"{reused:,} were found in the store and not trained again.")
    yield Paragraph(" ".join(told))
    odd = [(one, fate) for fate in ("failed", "stopped", ASIDE, DROPPED, WARM_UP) for one in fates.get(fate, ())]
    if odd:
        yield _odd(view, odd)
    yield _all(view)


def _fate(view: View, trial: Trial, known: Mapping[tuple[str, int], Trial]) -> str:
    """What became of it; empty where it counts."""
    if trial.variant not in view.rows:
        return DROPPED
    if trial.why_not.startswith(WARM_UP):
        return WARM_UP
    if trial.outcome == "stopped":
        return "stopped" if known.get((trial.variant, trial.repeat)) is trial else WENT_ON
    return "failed" if trial.outcome == "failed" else "" if trial.counted else ASIDE


def _odd(view: View, trials: list[tuple[Trial, str]]) -> Table:
    columns = (Column("trial", wide=1.3), Column("what became of it", wide=0.8), Column("why", wide=2.4))
    rows = []
    for one, fate in trials[:MOST]:
        why = (
            f"{one.error.get('code', '')} {one.error.get('message', '')}".strip()
            or one.why_not
            or ("others were busy" if one.busy else "-")
        )
        cell = Cell(f"{view.label(one.variant)}", f"repeat {one.repeat + 1}")
        rows.append(
            (
                cell,
                Cell(fate, tone="bad" if fate == "failed" else "mute" if fate in (WARM_UP, DROPPED) else "warn"),
                Cell(why, one.error.get("hint", "")),
            )
        )
    more = f" (the first {MOST} of {len(trials):,})" if len(trials) > MOST else ""
    return Table(
        columns,
        tuple(rows),
        caption=f"Trials that do not count{more}",
        folded=f"{len(trials)} trials that do not count" if len(trials) > 12 else "",
    )


def _all(view: View) -> Table:
    known = [measure for measure in view.measures if measure not in ("seconds", "wall")][:4]
    columns = (
        Column("trial", wide=1.6),
        Column("training", True, 0.8),
        Column("in all", True, 0.8),
        *(Column(measure_title(measure), True, 0.8) for measure in known),
        Column("others took", True, 0.8),
        Column("layer", wide=0.8),
    )
    rows = []
    for one in view.trials[:MOST]:
        values = [measure_of(one, measure, view.description.target) for measure in known]
        state = "" if one.outcome == "done" and one.counted else one.why_not or one.outcome
        rows.append(
            (
                Cell(view.label(one.variant), f"repeat {one.repeat + 1}" + (f", {state}" if state else ""), "" if not state else "mute"),
                Cell(seconds(one.seconds) if one.seconds else "-"),
                Cell(seconds(one.wall)),
                *(Cell(amount(value, measure)) for value, measure in zip(values, known, strict=True)),
                Cell(f"{100 * one.busy:.0f} %" if one.busy else "-"),
                Cell(one.layer[:8] or "-"),
            )
        )
    total = len(view.trials)
    title = (
        f"All {total:,} trials, in the order in which they ended"
        if total <= MOST
        else f"The first {MOST} of {total:,} trials (--csv writes all)"
    )
    return Table(columns, tuple(rows), folded=title)

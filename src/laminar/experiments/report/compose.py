"""Compose: from a view of an experiment to the blocks of its report. Pure: nothing is drawn or written yet."""

from __future__ import annotations

from collections.abc import Sequence

from laminar import __version__
from laminar.core.clock import iso
from laminar.core.figures import many
from laminar.experiments.lineage import Node
from laminar.experiments.pictures.choose import pictures
from laminar.experiments.pictures.timelines import Timeline
from laminar.experiments.report.document import Block, Document, Paragraph, Section
from laminar.experiments.report.findings import findings, statements
from laminar.experiments.report.method import again, asked, machine, method
from laminar.experiments.report.tables import extra_table, published_table, relative_table
from laminar.experiments.report.trials import trial_blocks
from laminar.experiments.view import View
from laminar.experiments.words import seconds


def compose(view: View, roots: Sequence[Node] = (), timelines: Sequence[Timeline] = ()) -> Document:
    description, found = view.description, view.summary
    drawn = pictures(view, roots)
    tables: list[Block] = []
    if view.measures:
        tables.append(
            Paragraph(
                f"Medians in per cent of the benchmark, {view.benchmark.label}, which is 100 %; "
                "below each its interval (of 90 % or more, unless it says less) and the median itself. "
                "“Inside the noise”: repeats of one variant differ as much."
            )
        )
        tables.append(relative_table(view))
    paper = published_table(view)
    sections = [
        Section("In short", (*statements(view), *findings(view))),
        Section("Against the benchmark", tuple(tables)),
        Section("Published figures beside ours", (paper,) if paper else ()),
        Section("More tables", tuple(extra_table(one) for one in found.tables)),
        Section("Pictures", tuple(drawn)),
        Section("Stages over time", _timelines(timelines)),
        Section("Trials", tuple(trial_blocks(view))),
        Section("How it was measured", (*method(view), *asked(view), *machine(view))),
        Section("Run it again", tuple(again(view))),
    ]
    facts = [
        f"{many(len(view.variants), 'variant')} × {many(description.repeats, 'repeat')}",
        f"{len(view.done):,} of {found.planned:,} trials count",
        *([f"{seconds(found.seconds)} in all"] if found.seconds else []),
        f"layer {description.layer} of stack {description.stack}",
        *([iso(description.created).replace("T", " ").replace("Z", " UTC")] if description.created else []),
    ]
    return Document(
        title=description.title or description.name,
        question=description.question,
        facts=tuple(facts),
        warnings=tuple(_warnings(view)),
        sections=tuple(one for one in sections if one.blocks),
        end=f"Laminar {__version__} · experiment {description.name}",
    )


def _timelines(found: Sequence[Timeline]) -> tuple[Block, ...]:
    if not found:
        return ()
    return (Paragraph("What each worker did in one step, as the first trial of the variant has recorded it."), *found)


def _warnings(view: View) -> list[str]:
    found = []
    if not view.trials:
        found.append("No trial has been run yet: this is what was asked, not what was found.")
    elif not view.done:
        found.append("No trial counts: all of them failed, were stopped, or are not to be counted. The list below says why.")
    elif len(view.done) < view.summary.planned:
        missing = view.summary.planned - len(view.done)
        found.append(f"{missing:,} of {many(view.summary.planned, 'trial')} {'is' if missing == 1 else 'are'} missing, failed or stopped.")
    if busy := sum(row.busy for row in view.summary.rows):
        found.append(f"{many(busy, 'trial', 'was')} timed while others used this machine: take times with care.")
    if view.description.quick:
        found.append("A quick look (--quick): less data and fewer repeats than the question deserves. Do not quote these figures.")
    return found

"""Findings in words: what was stated and what became of it, which variant is best at what, and what is only noise. Pure."""

from __future__ import annotations

from typing import Final

from laminar.core.figures import many
from laminar.experiments.measures import MEASURES
from laminar.experiments.record import Variant
from laminar.experiments.report.document import Block, Paragraph, Point, Points, Tone
from laminar.experiments.results import Figure
from laminar.experiments.view import View, sure
from laminar.experiments.words import amount, interval, is_better, measure_title, percent

MARKS: Final[dict[str, tuple[str, Tone]]] = {"confirmed": ("✓", "good"), "refuted": ("✗", "bad"), "not shown": ("?", "warn")}
NAMED: Final = 4  # variants in one sentence


def statements(view: View) -> list[Block]:
    """Each with what the trials say of it."""
    points = []
    for one in view.summary.statements:
        mark, tone = MARKS[one.verdict]
        points.append(Point(mark, one.verdict, f"{one.text} [{one.claim}]" if one.claim else one.text, one.words, tone))
    return [Points(tuple(points))] if points else []


def findings(view: View) -> list[Block]:
    """A sentence for each measure."""
    if len(view.variants) < 2:
        only = view.variants[0] if view.variants else None
        told = [f"{measure_title(m)} {amount(f.median, m)}" for m in view.measures if only and (f := view.figure(only.id, m))]
        return [Paragraph(f"One variant, so there is nothing to compare: {', '.join(told)}.")] if told else []
    points = [point for measure in view.measures if (point := _finding(view, measure)) is not None]
    return [Points(tuple(points))] if points else []


def _finding(view: View, measure: str) -> Point | None:
    others = [
        (one, figure) for one in view.variants if one.id != view.benchmark.id and (figure := view.figure(one.id, measure)) is not None
    ]
    if not others:
        return None
    name = measure_title(measure)
    name = name[0].upper() + name[1:]
    if view.figure(view.benchmark.id, measure) is None:
        return Point("?", "cannot be told", f"{name}: nothing is known of it for the benchmark.", tone="mute")
    clear = [(one, figure) for one, figure in others if sure(figure)]
    unsure = [one for one, figure in others if figure.verdict == "inside the noise"]
    few = sum(figure.verdict == "too few repeats" for _, figure in others)
    if few == len(others):
        return Point("?", "cannot be told", f"{name}: there are too few repeats to tell a difference from noise.", tone="warn")
    if not clear:
        return Point("≈", "no difference", f"{name}: no variant differs from the benchmark by more than noise.", tone="mute")
    less = MEASURES[measure].better == "less" if measure in MEASURES else True
    best, figure = min(clear, key=lambda pair: pair[1].median if less else -pair[1].median)
    rest = f" Inside the noise: {_named(unsure)}." if unsure else ""
    if is_better(figure, measure):
        return Point("▲", "better", f"{name}: best is {best.label}, with {_against(figure, measure)}.{rest}", tone="good")
    return Point(
        "▼",
        "worse",
        f"{name}: nothing beats the benchmark; {many(len(clear), 'variant', 'is')} worse, "
        f"{best.label} least, with {_against(figure, measure)}.{rest}",
        tone="bad",
    )


def _against(figure: Figure, measure: str) -> str:
    if figure.percent is None:
        return f"{amount(figure.median, measure)}"
    within = interval(figure.percent_interval)
    return f"{percent(figure.percent)} of the benchmark" + (f" ({within})" if within else "")


def _named(variants: list[Variant]) -> str:
    shown = ", ".join(one.label for one in variants[:NAMED])
    return shown + (f" and {len(variants) - NAMED} more" if len(variants) > NAMED else "")

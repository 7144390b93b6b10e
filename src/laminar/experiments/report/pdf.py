"""A report on paper: the same blocks as the page has, as PDF, pictures as lines and not as dots. No browser is needed.

fpdf2 writes the file; the letters are DejaVu, which comes with matplotlib and has nearly every script's.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from functools import singledispatch
from typing import TYPE_CHECKING, Final

from laminar.core.errors import LaminarError
from laminar.core.page import LIGHT
from laminar.experiments.pictures.sheet import WIDE, Picture, in_file
from laminar.experiments.pictures.timelines import Timeline
from laminar.experiments.report.document import Block, Code, Document, Facts, Paragraph, Points, Table, Tone

if TYPE_CHECKING:
    from laminar.experiments.report.paper import Paper

LEAST: Final = 40.0  # mm that a heading wants below it
MOST_ROWS: Final = 120  # of a folded table; who wants more reads the CSV


def to_pdf(document: Document) -> bytes:
    try:
        from laminar.experiments.report.paper import Paper
    except ImportError as error:
        raise LaminarError(
            "L011", f"a report as PDF needs a library that is not installed: {error.name}", hint="pip install 'laminar-train[experiments]'"
        ) from None
    with _quiet():
        paper = Paper(document.title, document.end)
        _head(paper, document)
        for section in document.sections:
            first = section.blocks[0]
            paper.room(paper.tall(first.size.wide / WIDE) + LEAST if isinstance(first, Picture) else LEAST)
            paper.heading(section.title)
            for block in section.blocks:
                _draw(block, paper)
        return bytes(paper.output())


@contextmanager
def _quiet() -> Iterator[None]:
    """Letters that no font has are left blank; that is no news to somebody who reads a report."""
    loggers = [logging.getLogger(name) for name in ("fpdf", "fontTools")]
    levels = [one.level for one in loggers]
    for one in loggers:
        one.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        for one, level in zip(loggers, levels, strict=True):
            one.setLevel(level)


def _head(paper: Paper, document: Document) -> None:
    paper.write_text(document.title, size=18, bold=True)
    if document.question:
        paper.write_text(document.question, size=11.5)
    paper.write_text("  ·  ".join(document.facts), size=8.5, colour=LIGHT["dim"])
    for one in document.warnings:
        paper.ln(1.5)
        paper.notice(one)


@singledispatch
def _draw(block: Block, paper: Paper) -> None:
    raise TypeError(type(block), paper)


@_draw.register(Paragraph)
def _(block: Paragraph, paper: Paper) -> None:
    paper.write_text(block.text, colour=_colour(block.tone))
    paper.ln(1)


@_draw.register(Points)
def _(block: Points, paper: Paper) -> None:
    for one in block.points:
        paper.point(one.mark, one.word, one.text, one.note, _colour(one.tone))
    paper.ln(1.5)


@_draw.register(Facts)
def _(block: Facts, paper: Paper) -> None:
    for name, value in block.pairs:
        paper.fact(name, value)
    paper.ln(1.5)


@_draw.register(Code)
def _(block: Code, paper: Paper) -> None:
    paper.code(block.text)


@_draw.register(Table)
def _(block: Table, paper: Paper) -> None:
    from laminar.experiments.report.paper_table import draw_table

    title = block.caption or block.folded
    rows = block.rows[:MOST_ROWS] if block.folded else block.rows
    if title:
        left_out = f" (the first {MOST_ROWS}; --csv writes all)" if len(rows) < len(block.rows) else ""
        paper.room(LEAST * 0.75)
        paper.write_text(title + left_out, bold=True)
    draw_table(paper, block.columns, rows, block.strong)


@_draw.register(Picture)
def _(block: Picture, paper: Paper) -> None:
    paper.picture(block.title, block.caption, in_file(block, "svg"), block.size.wide / WIDE)


@_draw.register(Timeline)
def _(block: Timeline, paper: Paper) -> None:
    paper.picture(block.label, "", block.svg.encode(), None)


def _colour(tone: Tone | str) -> str:
    return {"good": LIGHT["good"], "bad": LIGHT["bad"], "warn": LIGHT["warn"], "mute": LIGHT["dim"]}.get(tone, LIGHT["text"])

"""Tables on paper: cells with a note below, rows that stay whole, the head again on every page."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

from laminar.core.page import LIGHT, printable
from laminar.experiments.report.document import Cell, Column
from laminar.experiments.report.paper import Paper, wrap

SIZE, SMALL = 8.5, 7.0  # points
LINE, LESS = 4.2, 3.4  # mm
PAD: Final = 1.3
TOO_MANY: Final = 5  # columns: from there on letters are smaller
TONES: Final = {"good": LIGHT["good"], "bad": LIGHT["bad"], "warn": LIGHT["warn"], "mute": LIGHT["dim"]}
LONGEST: Final = 600  # letters of a cell, so that a row fits a page


def draw_table(paper: Paper, columns: Sequence[Column], rows: Sequence[Sequence[Cell]], strong: Collection[int]) -> None:
    widths = [paper.epw * column.wide / sum(one.wide for one in columns) for column in columns]
    scale = 1.0 if len(columns) < TOO_MANY else 0.92 if len(columns) < TOO_MANY + 2 else 0.82
    _head(paper, columns, widths, scale)
    for place, row in enumerate(rows):
        height = max(_height(paper, cell, width, scale) for cell, width in zip(row, widths, strict=True)) + 2 * PAD
        if paper.get_y() + height > paper.page_break_trigger:
            paper.add_page()
            _head(paper, columns, widths, scale)
        top = paper.get_y()
        if place in strong:
            paper.set_fill_color(LIGHT["soft"])
            paper.rect(paper.l_margin, top, paper.epw, height, style="F")
        left = paper.l_margin
        for number, (cell, column, width) in enumerate(zip(row, columns, widths, strict=True)):
            _cell(paper, cell, column, (left, top + PAD, width), scale, bold=number == 0 or column.number)
            left += width
        _rule(paper, top + height)
        paper.set_xy(paper.l_margin, top + height)
    paper.ln(3)


def _head(paper: Paper, columns: Sequence[Column], widths: Sequence[float], scale: float) -> None:
    paper.letters(SMALL * scale + 0.5, bold=True, colour=LIGHT["dim"])
    lines = [paper.lines(_text(column.name), width - 2 * PAD) for column, width in zip(columns, widths, strict=True)]
    height = max(lines) * LESS + 2 * PAD
    paper.room(height + 14)
    top, left = paper.get_y(), paper.l_margin
    for column, width in zip(columns, widths, strict=True):
        paper.set_xy(left + PAD, top + PAD)
        paper.multi_cell(width - 2 * PAD, LESS, _text(column.name), align="R" if column.number else "L")
        left += width
    _rule(paper, top + height)
    paper.set_xy(paper.l_margin, top + height)


def _height(paper: Paper, cell: Cell, width: float, scale: float) -> float:
    paper.letters(SIZE * scale, bold=True)
    found = paper.lines(_text(cell.text), width - 2 * PAD) * LINE * scale
    if cell.note:
        paper.letters(SMALL * scale)
        found += paper.lines(_text(cell.note), width - 2 * PAD) * LESS * scale
    return found


def _cell(paper: Paper, cell: Cell, column: Column, place: tuple[float, float, float], scale: float, *, bold: bool) -> None:
    left, top, width = place
    side = "R" if column.number else "L"
    paper.letters(SIZE * scale, bold=bold and cell.tone != "mute", colour=TONES.get(cell.tone, LIGHT["text"]))
    paper.set_xy(left + PAD, top)
    paper.multi_cell(width - 2 * PAD, LINE * scale, _text(cell.text), align=side, wrapmode=wrap(cell.text, 16), new_x="LEFT", new_y="NEXT")
    if cell.note:
        paper.letters(SMALL * scale, colour=LIGHT["dim"])
        paper.set_x(left + PAD)
        paper.multi_cell(width - 2 * PAD, LESS * scale, _text(cell.note), align=side, wrapmode=wrap(cell.note, 16))


def _text(text: str) -> str:
    return printable(text if len(text) <= LONGEST else text[: LONGEST - 1] + "…")


def _rule(paper: Paper, y: float) -> None:
    paper.set_draw_color(LIGHT["line"])
    paper.set_line_width(0.2)
    paper.line(paper.l_margin, y, paper.l_margin + paper.epw, y)

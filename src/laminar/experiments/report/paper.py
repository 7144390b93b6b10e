"""Sheets of paper: text, headings, notes and pictures on A4, with page numbers. By fpdf2, so imported when paper is asked for."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Final

import matplotlib
from fpdf import FPDF
from fpdf.enums import MethodReturnValue, WrapMode
from fpdf.svg import SVGObject

from laminar.core.page import LIGHT, printable

MARGIN: Final = 17.0  # mm
SIZE: Final = 9.5  # points
TALL: Final = 1.45  # a line, in heights of its letters
MM: Final = 25.4 / 72  # of a point
_LETTERS: Final = "Letters"
_CODE: Final = "Code"


class Paper(FPDF):
    def __init__(self, title: str, foot: str) -> None:
        super().__init__(format="A4")
        fonts = Path(matplotlib.get_data_path()) / "fonts" / "ttf"
        self.add_font(_LETTERS, "", fonts / "DejaVuSans.ttf")
        self.add_font(_LETTERS, "B", fonts / "DejaVuSans-Bold.ttf")
        self.add_font(_CODE, "", fonts / "DejaVuSansMono.ttf")
        self.set_margins(MARGIN, MARGIN)
        self.set_auto_page_break(True, MARGIN + 3)
        self.set_title(printable(title))
        self.set_creator("Laminar")
        self._foot = printable(foot)
        self.add_page()

    def footer(self) -> None:
        self.set_y(-MARGIN + 3)
        self.letters(7.5, colour=LIGHT["dim"])
        self.cell(self.epw / 2, 4, self._foot[:90])
        self.cell(self.epw / 2, 4, f"{self.page_no()} / {{nb}}", align="R")

    def letters(self, size: float = SIZE, *, bold: bool = False, colour: str = LIGHT["text"]) -> None:
        self.set_font(_LETTERS, "B" if bold else "", size)
        self.set_text_color(colour)

    def room(self, height: float) -> None:
        """A new page unless there is so much of this one left."""
        if self.get_y() + height > self.page_break_trigger:
            self.add_page()

    def write_text(self, text: str, *, size: float = SIZE, bold: bool = False, colour: str = LIGHT["text"], left: float = 0.0) -> None:
        self.letters(size, bold=bold, colour=colour)
        self.set_x(MARGIN + left)
        self.multi_cell(self.epw - left, size * MM * TALL, printable(text), align="L", new_x="LMARGIN", new_y="NEXT", wrapmode=wrap(text))

    def heading(self, text: str) -> None:
        self.ln(5)
        self.start_section(printable(text))
        self.write_text(text, size=13, bold=True)
        self.ln(1)

    def notice(self, text: str) -> None:
        top = self.get_y()
        page = self.page_no()
        self.write_text(text, size=9, left=4)
        if self.page_no() == page:
            self.set_fill_color(LIGHT["warn"])
            self.rect(MARGIN, top, 1, self.get_y() - top, style="F")

    def point(self, mark: str, word: str, text: str, note: str, colour: str) -> None:
        self.room(10)
        self.letters(bold=True, colour=colour)
        self.cell(6, SIZE * MM * TALL, printable(mark))
        begin = self.get_x() - MARGIN
        self.set_left_margin(MARGIN + begin)
        self.write(SIZE * MM * TALL, printable(word) + "  ")
        self.letters()
        self.write(SIZE * MM * TALL, printable(text))
        self.set_left_margin(MARGIN)
        self.ln()
        if note:
            self.write_text(note, size=8.5, colour=LIGHT["dim"], left=begin)
        self.ln(1.2)

    def fact(self, name: str, value: str) -> None:
        self.room(6)
        self.letters(8.5, colour=LIGHT["dim"])
        self.cell(38, 4.6, printable(name)[:24])
        self.write_text(value, size=8.5, left=38)

    def code(self, text: str) -> None:
        self.set_font(_CODE, "", 8.5)
        self.set_text_color(LIGHT["text"])
        self.set_fill_color(LIGHT["soft"])
        self.multi_cell(
            self.epw, 4.6, printable(text), align="L", fill=True, padding=2, new_x="LMARGIN", new_y="NEXT", wrapmode=WrapMode.CHAR
        )

    def lines(self, text: str, width: float) -> int:
        """How many the text takes in these letters."""
        if "\n" not in text and self.get_string_width(text) < width - 2.2:  # a cell has margins of 1 mm itself
            return 1  # which is most of them, and saves most of the time
        found = self.multi_cell(width, text=text, dry_run=True, output=MethodReturnValue.LINES, wrapmode=wrap(text, 16))
        assert isinstance(found, list)
        return len(found)

    def tall(self, shape: float) -> float:
        """How tall a picture becomes: as wide as the page, unless it would then be taller than one."""
        return min(self.epw * shape, self.page_break_trigger - MARGIN - 36)

    def picture(self, title: str, caption: str, svg: bytes, shape: float | None) -> None:
        """As wide as the page, unless it would then be too tall for it. `shape`: height by width, where the file does not say."""
        if shape is None:
            drawn = SVGObject(svg)
            box = drawn.viewbox
            shape = box[3] / box[2] if box and box[2] else 0.5
        height = self.tall(shape)
        width = height / shape
        self.room(height + 22)
        self.ln(2)
        self.write_text(title, size=10, bold=True)
        self.image(io.BytesIO(svg), x=MARGIN, w=width, h=height)
        if caption:
            self.write_text(caption, size=8.5, colour=LIGHT["dim"])
        self.ln(3)


def wrap(text: str, longest: int = 60) -> WrapMode:
    """Between letters where a word would not fit any line."""
    return WrapMode.CHAR if any(len(word) > longest for word in text.split()) else WrapMode.WORD

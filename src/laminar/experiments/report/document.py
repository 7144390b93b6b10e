"""A report as blocks, before it is a page or paper: html.py and pdf.py write the same ones. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from laminar.experiments.pictures.sheet import Picture
from laminar.experiments.pictures.timelines import Timeline

Tone = Literal["", "good", "bad", "warn", "mute"]


@dataclass(frozen=True)
class Cell:
    text: str
    note: str = ""  # below it, smaller
    tone: Tone = ""


@dataclass(frozen=True)
class Column:
    name: str
    number: bool = False
    wide: float = 1.0  # how much of a line, against the others


@dataclass(frozen=True)
class Table:
    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...]
    folded: str = ""  # not empty: it is opened by those who want it, under this title
    caption: str = ""
    strong: frozenset[int] = frozenset()  # rows that stand out


@dataclass(frozen=True)
class Paragraph:
    text: str
    tone: Tone = ""


@dataclass(frozen=True)
class Point:
    mark: str  # "✓"
    word: str  # "confirmed": a mark alone says nothing to many
    text: str
    note: str = ""
    tone: Tone = ""


@dataclass(frozen=True)
class Points:
    points: tuple[Point, ...]


@dataclass(frozen=True)
class Facts:
    pairs: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Code:
    text: str


Block = Table | Paragraph | Points | Facts | Code | Picture | Timeline


@dataclass(frozen=True)
class Section:
    title: str
    blocks: tuple[Block, ...]


@dataclass(frozen=True)
class Document:
    title: str
    question: str
    facts: tuple[str, ...]  # a line of them under the title
    warnings: tuple[str, ...]  # what to know before anything is believed
    sections: tuple[Section, ...]
    end: str

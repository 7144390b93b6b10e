"""A report as one HTML file that asks nothing of any network: pictures are in it as SVG, drawn twice, for a screen and for a phone.

Not by plotly: its script alone is 4.8 MB. A page of these pictures with their own script (page.js: pointing, enlarging, sorting) has some
300 kB and opens at once. Everything that a user has written is escaped here, and only here.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from functools import singledispatch
from importlib.resources import files

from laminar.core.page import colours, page, safe
from laminar.experiments.pictures.palette import TOKENS, TOKENS_DARK
from laminar.experiments.pictures.sheet import Hint, Picture, on_page
from laminar.experiments.pictures.timelines import Timeline
from laminar.experiments.report.document import Block, Cell, Code, Document, Facts, Paragraph, Points, Section, Table


def to_html(document: Document) -> str:
    here = files("laminar.experiments.report")
    style = colours(TOKENS, TOKENS_DARK) + (here / "page.css").read_text(encoding="utf-8")
    script = (here / "page.js").read_text(encoding="utf-8")
    parts = [_head(document), *(_section(one) for one in document.sections), f"<footer>{safe(document.end)}</footer>"]
    return page(f"{document.title} - Laminar", "\n".join(parts), style=style, script=script)


def _head(document: Document) -> str:
    question = f"<p>{safe(document.question)}</p>" if document.question else ""
    chips = "".join(f"<li>{safe(fact)}</li>" for fact in document.facts)
    notices = "".join(f'<p class="notice">{safe(one)}</p>' for one in document.warnings)
    return f'<header>\n<h1>{safe(document.title)}</h1>\n{question}<ul class="chips">{chips}</ul>\n{notices}</header>'


def _section(section: Section) -> str:
    return "\n".join(["<section>", f"<h2>{safe(section.title)}</h2>", *(_block(one) for one in section.blocks), "</section>"])


@singledispatch
def _block(block: Block) -> str:
    raise TypeError(type(block))


@_block.register
def _(block: Paragraph) -> str:
    return f"<p{_class(block.tone)}>{_words(block.text)}</p>"


@_block.register
def _(block: Points) -> str:
    items = []
    for one in block.points:
        note = f'<span class="note">{_words(one.note)}</span>' if one.note else ""
        items.append(
            f'<li><span class="mark {one.tone}" aria-hidden="true">{safe(one.mark)}</span>'
            f'<span><span class="word {one.tone}">{safe(one.word)}</span>{_words(one.text)}</span>{note}</li>'
        )
    return f'<ul class="points">{"".join(items)}</ul>'


@_block.register
def _(block: Facts) -> str:
    return "<dl>" + "".join(f"<dt>{safe(name)}</dt><dd>{safe(value)}</dd>" for name, value in block.pairs) + "</dl>"


@_block.register
def _(block: Code) -> str:
    return f"<pre>{safe(block.text)}</pre>"


@_block.register
def _(block: Table) -> str:
    caption = f"<caption>{safe(block.caption)}</caption>" if block.caption else ""
    head = "".join(f'<th scope="col"{_class("n" if column.number else "")}>{safe(column.name)}</th>' for column in block.columns)
    rows = []
    for place, row in enumerate(block.rows):
        cells = (_cell(cell, column.name, column.number) for cell, column in zip(row, block.columns, strict=True))
        rows.append(f"<tr{_class('strong' if place in block.strong else '')}>{''.join(cells)}</tr>")
    body = "\n".join(rows)
    table = f'<div class="card table"><table class="stack">{caption}<thead><tr>{head}</tr></thead>\n<tbody>{body}</tbody></table></div>'
    return f'<details class="card"><summary>{safe(block.folded)}</summary>{table}</details>' if block.folded else table


def _cell(cell: Cell, label: str, number: bool) -> str:
    note = f"<small>{safe(cell.note)}</small>" if cell.note else ""
    kind = " ".join(one for one in ("n" if number else "", cell.tone) if one)
    return f'<td{_class(kind)} data-label="{safe(label)}"><div><b>{safe(cell.text)}</b>{note}</div></td>'


@_block.register
def _(block: Picture) -> str:
    wide, narrow = (_svg(*on_page(block, narrow=narrow), "narrow" if narrow else "wide") for narrow in (False, True))
    return (
        f'<figure class="card picture" id="{safe(block.name)}"><h3>{safe(block.title)}</h3>\n{wide}\n{narrow}\n'
        f"<figcaption>{_words(block.caption)}</figcaption></figure>"
    )


def _svg(text: str, hints: Sequence[Hint], kind: str) -> str:
    points = json.dumps([[one.x, one.y, one.text] for one in hints], ensure_ascii=False, separators=(",", ":"))
    return text.replace("<svg ", f'<svg class="{kind}" data-hints="{safe(points)}" ', 1)


@_block.register
def _(block: Timeline) -> str:
    """As an image, so that whatever is in the file stays in it."""
    data = base64.b64encode(block.svg.encode()).decode()
    label = safe(block.label)
    return (
        f'<figure class="card timeline"><h3>{label}</h3>'
        f'<div tabindex="0"><img alt="Stages over time: {label}" src="data:image/svg+xml;base64,{data}"></div>'
        "<figcaption>Rows are workers, bars what they did; gaps are time in which one waited for another.</figcaption></figure>"
    )


def _words(text: str) -> str:
    """A sentence: no line of it begins with a per cent sign."""
    return safe(text.replace(" %", "\N{NO-BREAK SPACE}%"))


def _class(name: str) -> str:
    return f' class="{name}"' if name else ""

"""How it was measured: what was asked, on which machine, by which statistics, and how to do it again. Pure."""

from __future__ import annotations

import shlex
from typing import Any

import msgspec

from laminar.core.figures import many
from laminar.experiments.order import WARM_UP
from laminar.experiments.report.document import Block, Cell, Code, Column, Facts, Paragraph, Table
from laminar.experiments.view import View

MANY = 10  # variants; among so many some differ by chance
LONGEST = 120  # letters of a list of values
FACTS = {"gib": "memory, GiB"}


def method(view: View) -> list[Block]:
    description = view.description
    how = (
        "Trials ran one after the other, variants in turn, so that a machine that gets slower slows all of them alike."
        if description.timed
        else "Time was not measured: trials may have run beside each other."
    )
    warm_ups = sum(one.why_not.startswith(WARM_UP) for one in view.trials)
    warm = f" {many(warm_ups, 'trial')} came first to warm up, and {'is' if warm_ups == 1 else 'are'} not counted." if warm_ups else ""
    others = len(view.variants) - 1
    chance = (
        f" {others} variants are held against one benchmark: with intervals at 95 %, "
        f"about {max(1, round(0.05 * others))} would seem to differ by chance alone."
        if others >= MANY
        else ""
    )
    said = view.summary.method.strip()
    statistics = said[:1].upper() + said[1:].rstrip(".") + "." + chance
    return [Paragraph(how + warm), Paragraph(statistics), *(Paragraph(note[:1].upper() + note[1:], "warn") for note in view.summary.notes)]


def asked(view: View) -> list[Block]:
    columns = (Column("axis", wide=0.7), Column("values", wide=2.2), Column("where in the stack", wide=1.3))
    rows = tuple(
        (Cell(axis.name, axis.unit), Cell(_short(", ".join(_value(one) for one in axis.values)) or "-"), Cell(axis.path or "-"))
        for axis in view.description.axes
    )
    return [Table(columns, rows, caption="What was varied")] if rows else []


def machine(view: View) -> list[Block]:
    pairs = tuple((FACTS.get(name, name.replace("_", " ")), _short(_value(value))) for name, value in view.description.machine.items())
    return [Facts(pairs)] if pairs else []


def again(view: View) -> list[Block]:
    name = shlex.quote(view.description.name)
    command = view.description.command
    where = "In the same folder." if command else "From Python, as it was run the first time: `laminar.experiments.run.run`."
    return [
        Paragraph(f"{where} What was run is kept, and is not run again: only what is missing is, and --repeats adds rounds."),
        Code(
            (f"{command}\n" if command else "")
            + f"laminar experiment show {name}\nlaminar experiment report {name} --html report.html --pdf --csv"
        ),
    ]


def _value(value: Any) -> str:
    return value if isinstance(value, str) else f"{value:g}" if isinstance(value, float) else msgspec.json.encode(value).decode()


def _short(text: str) -> str:
    return text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"

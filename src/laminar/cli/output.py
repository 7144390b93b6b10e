"""Output: JSON for programs, tables for people. Results go to stdout, progress and remarks to stderr.

All text passes through printable.py: names and notes come with layers from strangers, and a terminal obeys control characters.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Annotated, Any

import typer

from laminar.core import printable
from laminar.core.figures import number

__all__ = ["Json", "local_time", "number", "print_json", "remark", "say", "say_line", "seconds", "size", "table"]

Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def print_json(value: Any) -> None:
    sys.stdout.write(printable.json(json.dumps(value, indent=2, ensure_ascii=False)) + "\n")


def say(text: str) -> None:
    typer.echo(printable.lines(text))


def say_line(text: str) -> None:
    """One line, also where somebody else's text in it has several."""
    typer.echo(printable.line(text))


def remark(text: str) -> None:
    """Something beside the result: to stderr, so that a pipe gets the result only."""
    typer.echo(printable.lines(text), err=True)


def table(title: str, columns: Sequence[str], rows: Iterable[Sequence[str]], *, right: Iterable[str] = ()) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    shown = Table(header_style="bold", box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for column in columns:
        shown.add_column(column, justify="right" if column in right else "left", overflow="fold")
    for row in rows:
        shown.add_row(*[Text(printable.line(cell)) for cell in row])
    wide = Console(highlight=False)
    if not wide.is_terminal:  # a file or pipe has no width to fold at
        wide = Console(highlight=False, width=200)
    if title:
        wide.print(Text(printable.line(title)), style="italic")
    wide.print(shown)


def seconds(value: float) -> str:
    if value < 1:
        return f"{value * 1000:.0f} ms"
    return f"{value:.1f} s" if value < 120 else f"{value / 60:.1f} min"


def size(value: float) -> str:
    for unit in ("B", "kB", "MB", "GB"):
        if value < 1000 or unit == "GB":
            return f"{value:.0f} B" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1000
    raise AssertionError


def local_time(value: float) -> str:
    return datetime.fromtimestamp(value).strftime("%Y-%m-%d %H:%M:%S")

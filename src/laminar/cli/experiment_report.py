"""A report of an experiment: tables against the benchmark, pictures, every trial. As a page that needs no network, as PDF, as CSV.

Without any of --html, --pdf, --csv, --png and --svg, the page is written, to NAME.html. Tables and pictures as files go to a folder
beside it, which is called like it.

laminar experiment report cores
laminar experiment report cores --html report.html --pdf --csv      # report.html, report.pdf, report/summary.csv …
laminar experiment report cores --png --svg                         # cores/accuracy-against-time.png …
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from laminar.cli.output import Json, print_json, say
from laminar.core.errors import LaminarError
from laminar.stack.project import open_project


def run(
    name: Annotated[str, typer.Argument(help="Of the experiment; laminar experiment list has them.")],
    html: Annotated[Path | None, typer.Option("--html", metavar="FILE", help="Write the page to this file.")] = None,
    pdf: Annotated[bool, typer.Option("--pdf", help="The same on paper, beside the page.")] = False,
    csv: Annotated[bool, typer.Option("--csv", help="Every number: trials.csv, summary.csv, curves.csv.")] = False,
    png: Annotated[bool, typer.Option("--png", help="The pictures as PNG files.")] = False,
    svg: Annotated[bool, typer.Option("--svg", help="The pictures as SVG files.")] = False,
    json: Json = False,
) -> None:
    from laminar.experiments.report import write_report
    from laminar.experiments.report.numbers import plain

    store = open_project().look_at_store()
    page = html or Path(f"{name}.html")
    if not page.name:  # "." and "/" have no name that others could be called like
        raise LaminarError("L008", f"--html {page} is a folder, but must be a file", hint=f"--html {page / name}.html")
    folder = page.with_suffix("") if page.suffix else page.with_name(f"{page.name}-files")
    others = pdf or csv or png or svg
    written = write_report(
        store,
        name,
        html=None if others and html is None else page,
        pdf=page.with_suffix(".pdf") if pdf else None,
        csv=folder if csv else None,
        png=folder if png else None,
        svg=folder if svg else None,
    )
    if json:
        print_json({"files": [str(path) for path in written.files], **plain(written.view)})
        return
    for path in written.files:
        say(f"wrote {path}")

"""Build the example stack, change its top layer, build again, and say what was reused and how much time that saved."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Annotated, Any

import tomlkit
import typer

from laminar.cli.build import show_report
from laminar.cli.output import remark, say, seconds
from laminar.cli.progress import progress
from laminar.core.errors import LaminarError
from laminar.stack.build import BuildReport, build
from laminar.stack.init import init
from laminar.stack.project import open_project

MARK = ".laminar-demo"


def run(
    folder: Annotated[Path, typer.Argument(help="Where; made anew each time.")] = Path("laminar-demo"),
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress.")] = False,
) -> None:
    if folder.exists():
        if not (folder / MARK).exists():
            raise LaminarError("L009", f"{folder} is there and is no demo of ours", hint="name another folder: laminar demo elsewhere")
        shutil.rmtree(folder)
    init(folder, "digits")
    (folder / MARK).touch()
    say(f"$ laminar init {folder} && cd {folder} && laminar build")
    first = _build(folder, quiet)
    _change(folder / "laminar.toml", "head", "lr", 0.02)
    say("\nThe top layer gets another learning rate: lr = 0.01 becomes 0.02 in laminar.toml.\n$ laminar build")
    second = _build(folder, quiet)
    whole, again = (sum(layer.seconds for layer in report.layers) for report in (first, second))
    reused = ", ".join(layer.name for layer in second.reused)
    say(
        f"\nReused: {reused}. "
        f"The first build took {seconds(whole)}, the second {seconds(again)}: {seconds(whole - again)} saved ({1 - again / whole:.0%})."
    )
    page = folder / "report.html"
    try:
        from laminar.stack.report import write_report

        project = open_project(folder)
        write_report(project.need_file(), project.open_store(), page)
        say(f"Curves and layers: {page}")
    except LaminarError as error:
        remark(f"no report: {error}")
    say(f"Go on: cd {folder}; laminar status; laminar explain head; laminar rollback head --write")


def _build(folder: Path, quiet: bool) -> BuildReport:
    project = open_project(folder)
    with progress(quiet=quiet) as emit:
        report = build(project.need_file(), project.open_store(), emit=emit)
    show_report(report)
    return report


def _change(path: Path, layer: str, key: str, value: float) -> None:
    document = tomlkit.parse(path.read_text(encoding="utf-8"))
    layers: Any = document["layer"]
    table = next(t for t in layers if t["name"] == layer)
    table["train"][key] = value
    path.write_text(tomlkit.dumps(document), encoding="utf-8")

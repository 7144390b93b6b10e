"""A kernel's circuit: the functions it is split into, what each takes and gives, who waits for whom, and which are proved independent.

laminar kernel graph leaky.c
laminar kernel graph leaky.c --svg circuit.svg
laminar kernel graph leaky.c --coarse        # as it is run
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from laminar.cli.kernel_params import File
from laminar.cli.output import Json, print_json, say


def run(
    file: File,
    svg: Annotated[Path | None, typer.Option("--svg", metavar="FILE", help="Draw the circuit there.")] = None,
    coarse: Annotated[bool, typer.Option("--coarse", help="As it is run: what is short stays together.")] = False,
    json: Json = False,
) -> None:
    from laminar.core.atomic import write_text
    from laminar.kernels.circuit.report import report
    from laminar.kernels.open_file import open_kernel

    kernel = open_kernel(file)
    found = report(kernel, None if coarse else 0.0, file.name)
    if svg is not None:
        write_text(svg, found.svg(file.name))
    if json:
        print_json(found.to_json())
        return
    say(found.text())
    if svg is not None:
        say(f"drawn to {svg}")

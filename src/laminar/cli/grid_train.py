"""Train layers on the grid that is served from this folder, or on another with --on; what they stand on is built here first.

The same as  laminar build --on grid://…  with `strategy = { kind = "grid" }` for the named layers. Ctrl-C leaves the training to go on;
the same command watches it again.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any

import msgspec
import typer

from laminar.cli.build import run_build
from laminar.cli.output import Json
from laminar.core.errors import LaminarError
from laminar.stack.choose_strategy import split_words
from laminar.stack.project import open_project
from laminar.stack.read import StackFile, bottom_up
from laminar.train.on_grid import Grid


def run(
    layers: Annotated[list[str], typer.Argument(metavar="LAYER", help="Layers to train on the grid.")],
    rounds: Annotated[int | None, typer.Option("--rounds", min=1, help="Versions to make; as many as the recipe's epochs are.")] = None,
    workers: Annotated[int | None, typer.Option("--workers", min=1, help="Tasks of a round.")] = None,
    quorum: Annotated[float | None, typer.Option("--quorum", help="Share of them that closes a round.")] = None,
    local_steps: Annotated[int | None, typer.Option("--local-steps", min=1, help="Steps of a task.")] = None,
    deadline: Annotated[float | None, typer.Option("--deadline", metavar="SECONDS", help="That a round waits at most.")] = None,
    mode: Annotated[str | None, typer.Option("--mode", metavar="MODE", help="rounds, or async.")] = None,
    buffer: Annotated[int | None, typer.Option("--buffer", min=1, help="async: answers that make a step.")] = None,
    compress: Annotated[
        str | None, typer.Option("--compress", metavar="KIND", help="none, fp16, int8, topk or dgc; settings after a colon.")
    ] = None,
    robust: Annotated[str | None, typer.Option("--robust", metavar="RULE", help="mean, clip, trimmed or median.")] = None,
    replicate: Annotated[str | None, typer.Option("--replicate", metavar="WHEN", help="adaptive, always or never.")] = None,
    on: Annotated[str | None, typer.Option("--on", metavar="WHERE", help="grid://HOST:PORT; else the grid of this folder.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Train them even when nothing changed.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress.")] = False,
    json: Json = False,
) -> None:
    given: dict[str, Any] = {
        "rounds": rounds,
        "workers": workers,
        "quorum": quorum,
        "local_steps": local_steps,
        "deadline": deadline,
        "mode": mode,
        "buffer": buffer,
        "robust": robust,
        "replicate": replicate,
    }
    given = {name: value for name, value in given.items() if value is not None}
    if compress is not None:
        kind, more = split_words("--compress", compress, ["none", "fp16", "int8", "topk", "dgc"])
        given["compress"] = {"kind": kind, **more} if more else kind
    project = open_project()
    file = with_grid(project.need_file(), layers, given)
    run_build(file, project.open_store(), layers, on=on or "grid", force=force, quiet=quiet, json=json)


def with_grid(file: StackFile, names: list[str], given: dict[str, Any]) -> StackFile:
    """The stack with these layers trained on a grid, as the file says and `given` changes it."""
    layers = []
    bottom_up(file, names)  # L006 for a name that there is not
    for layer in file.spec.layer:
        if layer.name in names:
            written = layer.train.strategy
            said = (msgspec.to_builtins(written) if isinstance(written, Grid) else {"kind": "grid"}) | given
            try:
                chosen = msgspec.convert(said, Grid)
                layer = msgspec.structs.replace(layer, train=msgspec.structs.replace(layer.train, strategy=chosen))
            except (msgspec.ValidationError, ValueError) as error:
                raise LaminarError("L008", f"layer {layer.name}: {error}", hint="laminar grid train --help") from None
        layers.append(layer)
    return replace(file, spec=msgspec.structs.replace(file.spec, layer=layers))

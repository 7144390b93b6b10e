"""Check every byte of the store. --repair fetches what is damaged from the remotes it knows, and trains again what they do not have."""

from __future__ import annotations

from typing import Annotated

import typer

from laminar.cli.output import Json, print_json, say, table
from laminar.cli.progress import counting, progress
from laminar.stack.mend import check, mend
from laminar.stack.project import open_project


def run(
    repair: Annotated[bool, typer.Option("--repair", help="Mend what can be mended.")] = False,
    json: Json = False,
) -> None:
    project = open_project()
    store = project.open_store(create=False)
    if repair:
        with progress(quiet=json) as emit:
            found = mend(project, store, emit)
    else:
        with counting("verifying", quiet=json) as count:
            found = check(store, count)
    if json:
        print_json(found.to_json())
    else:
        if found.findings:
            table("", ["what", "problem", "file", "detail"], [[f.kind, f.problem, f.path, f.detail] for f in found.findings])
        for finding, how in found.mended:
            say(f"mended {finding.path}: {how}")
        for name in found.rebuilt:
            say(f"trained again: {name}")
        for url, why in found.unreachable.items():
            say(f"remote {url} could not help: {why}")
        layers = len(store.layers())
        if not found.findings:
            say(f"{layers} layers, every byte is as it was written")
        elif found.left:
            hint = "what is left is not in this stack, or no remote has it" if repair else "laminar verify --repair"
            say(f"{len(found.left)} of {len(found.findings)} left: {hint}")
        else:
            say("all mended")
    if found.left:
        raise typer.Exit(3)

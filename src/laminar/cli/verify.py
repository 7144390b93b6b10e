"""Check that the store is as it was written: objects, layers, build records, refs and their logs, runs that are done, checkpoints, kept
features, and all small records. --repair fetches what is damaged from the remotes it knows, and trains again what they do not have.

Not checked, because nobody knows what they should hold: events.jsonl and TensorBoard files of a run that is not done, lock files, and what
lies in tmp and lost. Not missed: a run's folder, a rollback's or a project's record that was deleted as a whole.
"""

from __future__ import annotations

from typing import Annotated

import typer

from laminar.cli.output import Json, print_json, say, table
from laminar.cli.progress import counting, progress
from laminar.core.figures import many
from laminar.stack.mend import check, mend
from laminar.stack.project import open_project


def run(
    repair: Annotated[bool, typer.Option("--repair", help="Mend what can be mended.")] = False,
    json: Json = False,
) -> None:
    project = open_project()
    store = project.open_store(create=False, damaged=True)
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
            say(f"{many(layers, 'layer')}, all as it was written")
        elif found.left:
            hint = "what is left is not in this stack, or no remote has it" if repair else "laminar verify --repair"
            say(f"{len(found.left)} of {len(found.findings)} left: {hint}")
        else:
            say("all mended")
    if found.left:
        raise typer.Exit(3)

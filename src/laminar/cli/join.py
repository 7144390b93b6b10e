"""Take part in a training under way, as one more worker.

Without RUN, in the newest one of this project's store. It must be a training by averaging, downpour or quorum, on this machine or with a
`host` and `port` that can be reached and a store that both see. The worker trains until the training is over; Ctrl-C hands in what it
has and leaves the others to go on.
"""

from __future__ import annotations

from typing import Annotated

import typer

from laminar.cli.output import remark, say
from laminar.stack.project import open_project


def run(
    training: Annotated[str | None, typer.Argument(metavar="RUN", help="The run, as its folder in .laminar/runs is called.")] = None,
) -> None:
    from laminar.parallel.apart.invitation import find

    name, told = find(open_project().open_store(create=False), training)
    from laminar.parallel.apart.join import join

    did, left = join(told, named=lambda worker: remark(f"worker {worker} of run {name}"))
    say(f"worker {did.worker} of run {name}: {did.batches} batches, {did.pushes} pushes; {did.why}")
    if left:
        raise typer.Exit(130)

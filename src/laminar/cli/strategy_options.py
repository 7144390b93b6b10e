"""Options that choose a strategy, the same for every verb that builds or says what a build would do."""

from __future__ import annotations

from typing import Annotated

import typer

from laminar.stack.choose_strategy import with_strategy
from laminar.stack.read import StackFile

Strategy = Annotated[
    str | None,
    typer.Option(
        "--strategy",
        metavar="NAME[:KEY=VALUE,...]",
        help="How the layers are trained, with settings as in laminar.toml: solo, sync, averaging, downpour or quorum.",
    ),
]
Workers = Annotated[int | None, typer.Option("--workers", min=1, help="Processes that share the training; alone it means sync.")]
Elastic = Annotated[bool, typer.Option("--elastic", help="Start a worker that died again, instead of going on without it.")]
Compress = Annotated[
    str | None,
    typer.Option("--compress", metavar="NAME[:KEY=VALUE,...]", help="Gradients on their way: none, fp16, int8, topk, dgc or powersgd."),
]


def choose(file: StackFile, strategy: str | None, workers: int | None, elastic: bool, compress: str | None) -> StackFile:
    """The stack as these options have it."""
    if strategy is None and workers is None and not elastic and compress is None:
        return file
    return with_strategy(file, strategy, workers, elastic=elastic, compress=compress)

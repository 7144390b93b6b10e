"""Options that choose a strategy, the same for every verb that builds or says what a build would do."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated

import typer

from laminar.cli.plain import ALONE
from laminar.core.errors import LaminarError
from laminar.stack.choose_strategy import AUTO, split_words, with_strategy
from laminar.stack.read import StackFile

if TYPE_CHECKING:
    from laminar.plan.trials.auto import Auto

Strategy = Annotated[
    str | None,
    typer.Option(
        "--strategy",
        metavar="NAME[:KEY=VALUE,...]",
        help="How the layers are trained, with settings as in laminar.toml: solo, sync, averaging, downpour, quorum, mesh, pipeline, "
        "branches or, with --on grid://…, grid; auto: whichever is fastest here and learns what one process learns.",
    ),
]
Workers = Annotated[int | None, typer.Option("--workers", min=1, help="Processes that share the training; alone it means sync.")]
Elastic = Annotated[
    str | None,
    typer.Option(
        "--elastic",
        metavar="[FEWEST:WORKERS]",
        help="Start a worker that died again, instead of going on without it; with fewer than FEWEST the training ends.",
    ),
]
Compress = Annotated[
    str | None,
    typer.Option("--compress", metavar="NAME[:KEY=VALUE,...]", help="Gradients on their way: none, fp16, int8, topk, dgc or powersgd."),
]
Evaluator = Annotated[
    bool, typer.Option("--evaluator", help="One more process tests every epoch, while the workers train on. Changes nothing of a layer.")
]


def choose(
    file: StackFile,
    strategy: str | None,
    workers: int | None,
    elastic: str | None,
    compress: str | None,
    evaluator: bool = False,
    targets: list[str] | None = None,
) -> StackFile:
    """The stack as these options have it. `targets`: the layers that are asked for; none: all."""
    if strategy is not None and strategy.partition(":")[0] == AUTO:
        return with_strategy(file, "solo", None)  # what is chosen when a layer is trained learns the same
    if strategy is None and workers is None and elastic is None and compress is None and not evaluator:
        return file
    fewest = None
    if elastic is not None and elastic != ALONE:
        fewest, most = (int(number) for number in elastic.split(":"))
        if workers not in (None, most) or fewest > most:
            raise LaminarError(
                "L008",
                f"--elastic {elastic} is for {fewest} to {most} workers" + (f", but --workers is {workers}" if workers is not None else ""),
                hint=f"--elastic {min(fewest, most)}:{max(fewest, most)}, without --workers",
            )
        workers = most
    return with_strategy(
        file, strategy, workers, elastic=elastic is not None, fewest=fewest, compress=compress, evaluator=evaluator, targets=targets
    )


def automatic(strategy: str | None, workers: int | None, **others: object) -> Auto | None:
    """What chooses the strategy of each layer, if that is what was asked for. `others`: options that leave nothing to choose."""
    if strategy is None or strategy.partition(":")[0] != AUTO:
        return None
    for option, value in others.items():
        if value is not None:
            raise LaminarError(
                "L008", f"--{option} with --strategy auto, which chooses for this machine by itself", hint=f"leave --{option} out"
            )
    _, settings = split_words("--strategy", strategy, [AUTO])
    verify, budget = settings.pop("verify", None), settings.pop("budget", None)
    good = {"verify": verify is None or isinstance(verify, bool), "budget": budget is None or _seconds(budget)}
    if wrong := [*settings, *(name for name, right in good.items() if not right)]:
        raise LaminarError(
            "L008",
            f"--strategy {strategy}: auto has no setting '{wrong[0]}' of that kind",
            hint="--strategy auto, auto:verify=true or verify=false, auto:budget=60 for so many seconds of planning",
        )
    from laminar.plan.trials.auto import Auto

    return Auto(workers=workers, verify=verify, budget=float(budget) if budget is not None else None)


def _seconds(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < math.inf

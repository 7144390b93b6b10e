"""Ready experiments: one verb each, with the options that make sense for it (experiments/ready/catalogue.py says which)."""

from __future__ import annotations

import inspect
import shlex
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from laminar.cli.experiment_run import EvenIfBusy, Hours, Quiet, Repeats, Trials
from laminar.cli.output import Json
from laminar.experiments.ready.catalogue import READY

OPTIONS: Final[dict[str, Any]] = {
    "quick": Annotated[bool, typer.Option("--quick", help="A smaller question, repeated until a minute is over. Kept as NAME-quick.")],
    "repeats": Repeats,
    "epochs": Annotated[int | None, typer.Option("--epochs", min=1, metavar="N", help="Epochs of every trial.")],
    "batch": Annotated[int | None, typer.Option("--batch", min=1, metavar="N", help="Samples per step.")],
    "samples": Annotated[int | None, typer.Option("--samples", min=1, metavar="N", help="Training samples at most; fewer are quicker.")],
    "target": Annotated[float | None, typer.Option("--target", metavar="A", help="Accuracy that is waited for, above 0 and below 1.")],
    "layer": Annotated[str | None, typer.Option("--layer", metavar="NAME", help="Layer of the stack at hand that varies; else its last.")],
    "data": Annotated[
        str | None, typer.Option("--data", metavar="NAME", help="Data set of the built-in stack, which is then taken whatever is at hand.")
    ],
    "checkpoint_steps": Annotated[
        int | None, typer.Option("--checkpoint-steps", min=1, metavar="N", help="Of the slow store: a checkpoint after every N steps.")
    ],
    "write_seconds": Annotated[
        float | None,
        typer.Option("--write-seconds", min=0, metavar="S", help="Of the slow store: seconds that one takes to write."),
    ],
    "single": Annotated[
        str | None,
        typer.Option("--single", metavar="WHERE", help="Where the single node is: local, ray, spark://HOST:7077, …"),
    ],
    "cluster": Annotated[str | None, typer.Option("--cluster", metavar="WHERE", help="Where master and workers are; servers stay here.")],
    "nodes": Annotated[int | None, typer.Option("--nodes", min=1, max=64, metavar="N", help="Nodes of the grid; else as published.")],
    "workers": Annotated[int | None, typer.Option("--workers", min=1, metavar="N", help="Processes that share the training.")],
    "on": Annotated[str | None, typer.Option("--on", metavar="WHERE", help="Where workers run: local, ray, spark, spark://HOST:7077, …")],
    "name": Annotated[str | None, typer.Option("--name", metavar="NAME", help="What the experiment is called; else as the verb is.")],
    "hours": Hours,
    "trials": Trials,
    "even_if_busy": EvenIfBusy,
    "report": Annotated[
        Path | None, typer.Option("--report", metavar="FILE", help="Write a page with tables and pictures to this file, as report --html.")
    ],
    "quiet": Quiet,
    "json": Json,
}
ALWAYS: Final = ("quick", "repeats", "name", "report", "quiet", "json")
PASSING: Final = ("hours", "trials", "report", "quiet", "json")
SWITCHES: Final = ("quick", "even_if_busy", "quiet", "json")


def command_of(verb: str, given: Mapping[str, Any]) -> str:
    """With which the same is asked again, of all that was said: not how much of it in one go, nor how it is shown."""
    words = ["laminar", "experiment", verb]
    for option, value in given.items():
        if value not in (None, False) and option not in PASSING:
            info = OPTIONS[option].__metadata__[0]
            flag = next(one for one in (info.default, *(info.param_decls or ())) if str(one).startswith("--"))
            words += [flag] if value is True else [flag, f"{value:g}" if isinstance(value, float) else str(value)]
    return shlex.join(words)


def verb_of(name: str) -> Callable[..., None]:
    """What typer makes a command of: a function whose parameters are the options of this experiment."""
    shown = [option for option in OPTIONS if option in ALWAYS or option in READY[name].takes]

    def run(**given: Any) -> None:
        from laminar.cli.experiment_ask import ask

        ask(name, **given, command=command_of(name, given))

    run.__annotations__ = {option: OPTIONS[option] for option in shown}
    parameters = [
        inspect.Parameter(option, inspect.Parameter.KEYWORD_ONLY, default=False if option in SWITCHES else None, annotation=OPTIONS[option])
        for option in shown
    ]
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return run

"""What an experiment has shown so far: every variant in per cent of the benchmark, with intervals; failures; statements."""

from __future__ import annotations

from typing import Annotated

import msgspec
import typer

from laminar.cli.experiment_tables import show_summary
from laminar.cli.output import Json, print_json
from laminar.experiments.files import read_description, read_trials
from laminar.experiments.statistics import summary
from laminar.stack.project import open_project


def run(
    name: Annotated[str, typer.Argument(metavar="NAME", help="An experiment; `laminar experiment list` has them.")],
    trials: Annotated[bool, typer.Option("--trials", help="With --json: every trial too, with its curve.")] = False,
    json: Json = False,
) -> None:
    store = open_project().look_at_store()
    described, known = read_description(store, name), read_trials(store, name)
    found = summary(described, known)
    if json:
        print_json(msgspec.to_builtins(found) | ({"trials": msgspec.to_builtins(known)} if trials else {}))
    else:
        show_summary(found)

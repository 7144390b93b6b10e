"""Two experiments: the variants that both have, the second in per cent of the first, with intervals.

For the same question asked twice: before and after a change of code, data or machine.
"""

from __future__ import annotations

from typing import Annotated

import msgspec
import typer

from laminar.cli.experiment_tables import relative
from laminar.cli.output import Json, number, print_json, say, table
from laminar.experiments.compare import compare_experiments
from laminar.experiments.files import read_description, read_trials
from laminar.stack.project import open_project


def run(
    first: Annotated[str, typer.Argument(metavar="A", help="An experiment: 100 %.")],
    second: Annotated[str, typer.Argument(metavar="B", help="Another one.")],
    json: Json = False,
) -> None:
    store = open_project().look_at_store()
    found = compare_experiments(
        (read_description(store, first), read_trials(store, first)), (read_description(store, second), read_trials(store, second))
    )
    if json:
        print_json(msgspec.to_builtins(found))
        return
    rows = [
        [one.label, one.measure, number(one.first), number(one.second.median), relative(one.second), one.second.verdict]
        for one in found.rows
    ]
    table("", ["variant", "measure", first, second, f"% of {first}", ""], rows, right=[first, second, f"% of {first}"])
    for label in found.only_first:
        say(f"only in {first}: {label}")
    for label in found.only_second:
        say(f"only in {second}: {label}")

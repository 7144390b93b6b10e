"""Look at the machine, the libraries, the store and the stack, and say what to do about what is not as it should be."""

from __future__ import annotations

import typer

from laminar.cli.output import Json, print_json, say, table
from laminar.core.errors import LaminarError
from laminar.stack.doctor import Check, examine
from laminar.stack.project import open_project


def run(json: Json = False) -> None:
    checks: list[Check] = []
    try:
        project = open_project()
        checks = examine(project)
    except LaminarError as error:  # a stack file that cannot be read is a finding too
        checks.append(Check("stack", "bad", error.message, error.hint))
    bad = [check for check in checks if check.state == "bad"]
    if json:
        print_json({"healthy": not bad, "checks": [check.to_json() for check in checks]})
    else:
        table("", ["", "what", "found", "to do"], [[check.state, check.name, check.said, check.fix] for check in checks])
        say("all is well" if not bad else f"{len(bad)} to mend")
    if bad:
        raise typer.Exit(2)

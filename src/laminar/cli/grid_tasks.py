"""The newest tasks: who has them, in which state they are, and why."""

from __future__ import annotations

from laminar.cli.grid_look import On, ago, ask
from laminar.cli.output import Json, print_json, say, size, table


def run(on: On = None, json: Json = False) -> None:
    told = ask(on, "/v1/tasks")
    if json:
        print_json(told)
        return
    if not told:
        say("no task yet: laminar grid train LAYER")
        return
    table(
        "",
        ["result", "task", "run", "round", "version", "node", "state", "used", "bytes", "sent", "why"],
        [
            [
                str(one["id"]),
                str(one["task"]),
                one["run"],
                str(one["round"]),
                "-" if one["version"] is None else str(one["version"]),
                one["node"] or "-",
                one["state"],
                one["used"] or "-",
                size(one["bytes"]),
                ago(one["sent"]),
                one["verdict"],
            ]
            for one in told
        ],
        right=["result", "task", "run", "round", "version", "bytes"],
    )

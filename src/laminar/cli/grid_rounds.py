"""The newest rounds: how many answered, how long it took, what closed them, and where the time of nodes went."""

from __future__ import annotations

from laminar.cli.grid_look import PARTS, On, ask, parts
from laminar.cli.output import Json, print_json, say, seconds, table


def run(on: On = None, json: Json = False) -> None:
    told = ask(on, "/v1/rounds")
    if json:
        print_json(told)
        return
    if not told:
        say('no round yet: laminar grid train LAYER (a run with mode = "async" has none)')
        return
    table(
        "",
        ["run", "round", "version", "tasks", "wanted", "answers", "took", "closed by", *PARTS],
        [
            [
                one["name"],
                str(one["round"]),
                str(one["version"]),
                str(one["tasks"]),
                f"{one['wanted']} (all)" if one["wanted"] == one["tasks"] > 1 else str(one["wanted"]),
                str(one["answers"]),
                seconds(one["closed"] - one["opened"]) if one["closed"] else "-",
                one["why"] if one["closed"] else "open",
                *parts(one["utilization"]),
            ]
            for one in told
        ],
        right=["round", "version", "tasks", "wanted", "answers", "took", *PARTS],
    )

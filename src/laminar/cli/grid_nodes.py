"""The machines of the grid: how fast they are, how far they are trusted, what they have done, and where their time went."""

from __future__ import annotations

from laminar.cli.grid_look import PARTS, On, ago, ask, parts
from laminar.cli.output import Json, number, print_json, say, seconds, size, table


def run(on: On = None, json: Json = False) -> None:
    told = ask(on, "/v1/nodes")
    if json:
        print_json(told)
        return
    if not told:
        say("no node has joined yet; `laminar grid serve` prints the command that does")
        return
    right = ["samples/s", "streak", "valid", "invalid", "lost", "down", "up", "credit"]
    table(
        "",
        ["no", "name", "owner", "state", "seen", *right],
        [
            [
                str(one["number"]),
                one["name"],
                one["owner"] or "-",
                f"banned: {one['banned']}" if one["banned"] else "trusted" if one["trusted"] else "active" if one["active"] else "away",
                ago(one["seen"]),
                number(one["speed"]),
                str(one["streak"]),
                str(one["valid"]),
                str(one["invalid"]),
                str(one["lost"]),
                size(one["bytes_down"]),
                size(one["bytes_up"]),
                number(one["credit"]),
            ]
            for one in told
        ],
        right=right,
    )
    if any(one["utilization"]["seconds"] for one in told):
        table(
            "where their time went, as they say",
            ["no", "name", "time", *PARTS],
            [[str(one["number"]), one["name"], seconds(one["utilization"]["seconds"]), *parts(one["utilization"])] for one in told],
            right=["time", *PARTS],
        )

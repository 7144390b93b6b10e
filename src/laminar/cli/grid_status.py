"""The grid in figures: nodes, runs, answers, bytes, what trust costs, where the time of nodes went, and what was refused."""

from __future__ import annotations

from laminar.cli.grid_look import PARTS, On, ask, parts
from laminar.cli.output import Json, number, print_json, say, size, table


def run(on: On = None, json: Json = False) -> None:
    told = ask(on, "/v1/status")
    if json:
        print_json(told)
        return
    say("nodes: " + ", ".join(f"{count} {what}" for what, count in told["nodes"].items()))
    say("results: " + (", ".join(f"{count} {what}" for what, count in sorted(told["tasks"].items())) or "none"))
    if not told["runs"]:
        say("no run yet: laminar grid train LAYER")
        return
    table(
        "",
        ["run", "state", "version", "answers", "up", "twice", "refused", "late", "lost", "newest test"],
        [
            [
                one["name"],
                one["state"] + (f" ({one['why']})" if one["why"] and one["state"] != "done" else ""),
                f"{one['version']} of {one['rounds']}",
                str(one["answers"]),
                size(one["bytes"]["up"]),
                f"{one['trust']['overhead']:.0%}",
                str(sum(one["refused"].values())),
                str(one["late"]),
                str(one["lost"]),
                _test(one["curve"]),
            ]
            for one in told["runs"]
        ],
        right=["version", "answers", "up", "twice", "refused", "late", "lost"],
    )
    for one in told["runs"]:
        spent = one["utilization"]
        if spent["seconds"]:
            shares = ", ".join(f"{part} {share}" for part, share in zip(PARTS, parts(spent), strict=True))
            say(f"{one['name']}: time of nodes, mean of {spent['nodes']:.0f}, as they say: {shares}")
        if one["refused"]:
            say(f"{one['name']}: refused " + ", ".join(f"{what} {count}" for what, count in sorted(one["refused"].items())))


def _test(curve: list[dict[str, float]]) -> str:
    if not curve:
        return "-"
    last = curve[-1]
    return ", ".join(f"{key} {number(last[key])}" for key in ("accuracy", "loss", "r2") if key in last) + f" at {last['version']}"

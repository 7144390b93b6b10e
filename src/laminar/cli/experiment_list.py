"""The experiments of this store, the newest last. One that is damaged is named, with what is wrong with it, and the others are listed."""

from __future__ import annotations

import msgspec

from laminar.cli.output import Json, local_time, print_json, remark, say, table
from laminar.core.figures import many
from laminar.experiments.files import names
from laminar.experiments.listing import Listed, listed, read_view
from laminar.stack.project import open_project


def run(json: Json = False) -> None:
    store = open_project().look_at_store()
    found = [listed(name, lambda name: read_view(store, name)) for name in names(store)]
    if json:
        print_json([msgspec.to_builtins(one) for one in found])
    elif not found:
        say("no experiments yet: laminar experiment run sweep.toml")
    else:
        table("", ["name", "stack", "layer", "axes", "trials", "since"], [_row(one) for one in found])
    for one in found:
        if one.error:
            remark(f"warning: {one.error}; {one.hint}")


def _row(one: Listed) -> list[str]:
    if one.error:
        return [one.name, "-", "-", "-", "damaged", "-"]
    trials = f"{one.done}/{one.planned}" + (f", {one.stopped} stopped early" if one.stopped else "")
    trials += f", {many(one.failed, 'failure')}" if one.failed else ""
    return [one.name, one.stack, one.layer, ", ".join(one.axes), trials, local_time(one.created)]

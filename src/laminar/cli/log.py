"""What each layer has been, newest first: every build, rollback, pull and tag the store remembers."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from laminar.cli.output import Json, local_time, number, print_json, say, table
from laminar.core import digest
from laminar.core.errors import LaminarError
from laminar.core.nearest import did_you_mean
from laminar.stack.project import open_project


def run(
    ref: Annotated[str | None, typer.Argument(help="Only this layer, such as head or digits/head.")] = None,
    all_stacks: Annotated[bool, typer.Option("--all", help="Layers of every stack that shares the store.")] = False,
    limit: Annotated[int, typer.Option("-n", help="At most so many lines.")] = 50,
    json: Json = False,
) -> None:
    project = open_project()
    store = project.open_store(create=False)
    names = store.refs.names()
    if ref is not None:
        wanted = ref if "/" in ref else f"{project.stack}/{ref}"
        if wanted not in names:
            raise LaminarError("L006", f"no layer '{ref}' has been built here; {did_you_mean(wanted, names)}", hint="laminar log --all")
        names = [wanted]
    elif project.stack and not all_stacks:
        names = [n for n in names if n.startswith(project.stack + "/")]
    entries = sorted(((e, name) for name in names for e in store.refs.log(name)), key=lambda pair: -pair[0].time)[:limit]
    rows: list[dict[str, Any]] = []
    for entry, name in entries:
        manifest = store.layer(entry.id) if store.has_layer(entry.id) else None
        rows.append(
            {
                "ref": name,
                "id": entry.id,
                "op": entry.op,
                "why": entry.why,
                "time": entry.time,
                "current": store.refs.get(name) == entry.id,
                "metrics": manifest.metrics if manifest else {},
                "present": manifest is not None,
            }
        )
    if json:
        print_json({"entries": rows})
    elif not rows:
        say("nothing has been built here yet: laminar build")
    else:
        table(
            "",
            ["", "when", "ref", "id", "what", "accuracy", "loss"],
            [
                [
                    "*" if r["current"] else "",
                    local_time(r["time"]),
                    r["ref"],
                    digest.short(r["id"]),
                    r["op"] + (f" ({r['why']})" if r["why"] and r["why"] != r["op"] else "") + ("" if r["present"] else "; no longer here"),
                    number(r["metrics"].get("accuracy")),
                    number(r["metrics"].get("loss")),
                ]
                for r in rows
            ],
            right=["accuracy", "loss"],
        )

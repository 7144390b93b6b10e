"""One layer: what it stands on, its tensors and which of them are its own, its metrics, recipe, and where it was trained."""

from __future__ import annotations

from typing import Annotated

import typer

from laminar.cli.output import Json, local_time, number, print_json, say, say_line, seconds, table
from laminar.cli.strategy_options import Strategy, Workers
from laminar.core import digest
from laminar.core.errors import LaminarError
from laminar.stack.project import open_project
from laminar.stack.show import describe

CLASSES = 40  # that are listed


def run(
    ref: Annotated[str, typer.Argument(help="head, digits/head, head~1, a tag or an id.")],
    split: Annotated[bool, typer.Option("--split", help="How its strategy splits the model over workers.")] = False,
    strategy: Strategy = None,
    workers: Workers = None,
    json: Json = False,
) -> None:
    if split:
        from laminar.cli.show_split import show_split

        show_split(ref, strategy, workers, as_json=json)
        return
    if strategy is not None or workers is not None:
        raise LaminarError(
            "L008", "--strategy and --workers say how a model would be split, so they need --split", hint=f"laminar show {ref} --split"
        )
    project = open_project()
    store = project.open_store(create=False)
    found = describe(store, ref, project.stack)
    if json:
        print_json(found)
        return
    say_line(f"{found['stack']}/{found['name']}  {found['id']}")
    say_line(f"built {local_time(found['created'])} in {seconds(found['seconds'])}; key {digest.short(found['key'])}; run {found['run']}")
    chain = " <- ".join(f"{a['name']} {digest.short(a['id'])}" for a in found["ancestors"])
    say_line(f"stands on {chain}" if chain else "stands on nothing: a bottom layer")
    classes = found["classes"] or []
    more = f", … ({len(classes):,} in all; --json lists them)" if len(classes) > CLASSES else ""
    say_line(f"classes {', '.join(classes[:CLASSES])}{more}" if classes else f"task {found['task']}")
    say_line(f"input {found['input']['shape']} {found['input'].get('dtype', '')}; frozen {', '.join(found['frozen']) or 'nothing'}")
    forms = "training and eval" if found["graph"]["train"] else "eval only" if found["graph"]["eval"] else "none"
    say_line("metrics " + ", ".join(f"{k} {number(v)}" for k, v in found["metrics"].items()))
    say_line(f"graph {forms} {found['graph']['note']}".rstrip())
    for note in found["notes"]:
        say(f"note {note}".replace("\n", "\n     "))
    say("")
    table(
        "tensors",
        ["name", "shape", "dtype", "digest", "kept"],
        [
            [
                t["name"],
                "x".join(map(str, t["shape"])) or "scalar",
                t["dtype"],
                digest.short(t["digest"]),
                "own" if t["own"] else "of the parent",
            ]
            for t in found["tensors"]
        ],
    )

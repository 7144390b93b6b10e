"""Every input of a layer's key, and when a build would train it, which input changed from what to what."""

from __future__ import annotations

from typing import Annotated

import typer

from laminar.cli.output import Json, print_json, say, table
from laminar.cli.strategy_options import Compress, Elastic, Evaluator, Strategy, Workers, choose
from laminar.core import digest
from laminar.stack.explain import explain, other_strategy
from laminar.stack.project import open_project

SHOWN = 10  # files


def run(
    layer: Annotated[str, typer.Argument(help="A layer of the stack.")],
    strategy: Strategy = None,
    workers: Workers = None,
    elastic: Elastic = None,
    compress: Compress = None,
    evaluator: Evaluator = False,
    json: Json = False,
) -> None:
    project = open_project()
    file = choose(project.need_file(), strategy, workers, elastic, compress, evaluator, [layer])
    found = explain(file, project.look_at_store(), layer)
    if json:
        print_json(found.to_json())
        return
    say(f"{layer}: {'a build would reuse it' if found.step.action == 'cached' else 'a build would train it'}: {found.step.why}")
    if said := other_strategy(found.step):
        say(said)
    if found.step.key:
        say(f"key {found.step.key}")
    changed = {f for f, _, _ in found.differences}
    if changed:
        say("")
        table(
            f"changed since the build with key {digest.short(found.compared_with or '')}",
            ["input", "from", "to"],
            [[f, _text(old), _text(new)] for f, old, new in found.differences],
        )
    if found.files:
        more = f" and {len(found.files) - SHOWN} more" if len(found.files) > SHOWN else ""
        say(f"files of the data that changed since that build: {', '.join(found.files[:SHOWN])}{more}")
    if found.left_out:
        say(
            f"written since that build, without a change that counts: {', '.join(found.left_out)} (left out: what is not reached, "
            "comments, annotations, names of locals, spelling of imports, and asserts, prints and logging without effects)"
        )
    say("")
    table("inputs of the key", ["", "input", "value"], [["*" if f in changed else "", f, _text(v)] for f, v in found.inputs.items()])


def _text(value: object) -> str:
    return "-" if value is None else str(value)

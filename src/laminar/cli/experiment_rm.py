"""Remove an experiment: its description and its trials. Their layers go with the next `laminar gc`, unless something else needs them."""

from __future__ import annotations

from typing import Annotated

import typer

from laminar.cli.output import Json, print_json, say
from laminar.core.figures import many
from laminar.experiments.files import remove
from laminar.stack.project import open_project


def run(
    names: Annotated[list[str], typer.Argument(metavar="NAME", help="Experiments to remove.")],
    json: Json = False,
) -> None:
    store = open_project().open_store(create=False)
    freed = {name: remove(store, name) for name in dict.fromkeys(names)}
    if json:
        print_json({"removed": [{"name": name, "layers": layers} for name, layers in freed.items()]})
        return
    for name, layers in freed.items():
        say(f"{name} is removed; laminar gc may now take its {many(layers, 'layer')}")

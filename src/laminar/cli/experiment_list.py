"""The experiments of this store, the newest last."""

from __future__ import annotations

from laminar.cli.experiment_tables import outcome
from laminar.cli.output import Json, local_time, print_json, say, table
from laminar.experiments.files import names, read_description, read_trials
from laminar.experiments.statistics import summary
from laminar.stack.project import open_project


def run(json: Json = False) -> None:
    store = open_project().look_at_store()
    found = []
    for name in names(store):
        described = read_description(store, name)
        found.append((described, summary(described, read_trials(store, name))))
    if json:
        print_json(
            [
                {
                    "name": described.name,
                    "title": described.title,
                    "question": described.question,
                    "stack": described.stack,
                    "layer": described.layer,
                    "variants": len(described.variants),
                    "done": told.done,
                    "planned": told.planned,
                    "failed": len(told.failures),
                    "quick": described.quick,
                    "created": described.created,
                }
                for described, told in found
            ]
        )
    elif not found:
        say("no experiments yet: laminar experiment run sweep.toml")
    else:
        rows = [[d.name, d.stack, d.layer, ", ".join(a.name for a in d.axes), outcome(s), local_time(d.created)] for d, s in found]
        table("", ["name", "stack", "layer", "axes", "trials", "since"], rows)

"""What a build would do, and why, layer by layer. Trains nothing, changes nothing."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from laminar.cli.output import Json, print_json, say, size, table
from laminar.cli.strategy_options import Compress, Elastic, Evaluator, Strategy, Workers, choose
from laminar.core import digest
from laminar.stack.choose_data import skipping_bad
from laminar.stack.explain import other_strategy
from laminar.stack.parents import asks
from laminar.stack.plan import Step, plan
from laminar.stack.project import open_project
from laminar.stack.read import StackFile, parent_of
from laminar.stack.whole_batch import batch_notes
from laminar.train.kept import describe_features


def run(
    strategy: Strategy = None,
    workers: Workers = None,
    elastic: Elastic = None,
    compress: Compress = None,
    evaluator: Evaluator = False,
    skip_bad: Annotated[bool, typer.Option("--skip-bad", help="As a build with --skip-bad would see it.")] = False,
    json: Json = False,
) -> None:
    project = open_project()
    file = skipping_bad(project.need_file()) if skip_bad else project.need_file()
    file = choose(file, strategy, workers, elastic, compress, evaluator)
    store = project.look_at_store()
    steps = plan(file, store)
    shown = {s.layer.name: store.refs.get(f"{file.spec.stack.name}/{s.layer.name}") for s in steps}
    notes = batch_notes(file, store, steps)
    if json:
        print_json({**plan_json(file, steps, shown, notes), "features": [f.to_json() for f in describe_features(store)]})
        return
    show_plan(file, steps, notes, as_json=False)
    for step in steps:
        current = shown[step.layer.name]
        if step.id and current and current != step.id:
            say(f"{step.layer.name}: its ref shows {digest.short(current)} (rolled back?); a build moves it to {digest.short(step.id)}")
    for step in steps:
        asked = asks(parent_of(file.spec, step.layer))
        if asked:
            say(f"{step.layer.name}: {asked} was asked which layer that is; nothing was pulled (write @sha256:ID to ask nobody)")
    kept = describe_features(store)
    if kept:
        say("")
        table("kept features of frozen prefixes", ["key", "samples", "size"], [[k.fkey[:12], str(k.rows), size(k.bytes)] for k in kept])


def show_plan(file: StackFile, steps: list[Step], notes: dict[str, str], *, as_json: bool) -> None:
    """`notes`: by layer."""
    if as_json:
        print_json(plan_json(file, steps, {}, notes))
        return
    table("", ["layer", "", "id", "why"], [[s.layer.name, s.action, digest.short(s.id) if s.id else "-", s.why] for s in steps])
    for name, note in notes.items():
        say(f"{name}: {note}")
    todo = sum(s.action == "build" for s in steps)
    for step in steps:
        if said := other_strategy(step):
            say(f"{step.layer.name}: {said}")
    say("nothing to build" if not todo else f"laminar build would train {todo} of {len(steps)} layers")


def plan_json(file: StackFile, steps: list[Step], shown: dict[str, str | None], notes: dict[str, str]) -> dict[str, Any]:
    return {
        "stack": file.spec.stack.name,
        "layers": [
            {
                "name": s.layer.name,
                "id": s.id,
                "key": s.key,
                "action": s.action,
                "why": s.why,
                "seconds": 0.0 if s.action == "cached" else None,
                "metrics": s.record.metrics if s.action == "cached" and s.record else {},
                "ref": shown.get(s.layer.name),
                "notes": [notes[s.layer.name]] if s.layer.name in notes else [],
                "changes": [{"input": f, "from": old, "to": new} for f, old, new in s.differences],
            }
            for s in steps
        ],
    }

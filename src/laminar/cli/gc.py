"""Remove what no ref, tag, running build or other project that shares the store needs.

Everything a layer has ever been stays, so that rollback works; --keep N lets go of what is older than the last N of each layer.
"""

from __future__ import annotations

from typing import Annotated

import msgspec
import typer

from laminar.cli.output import Json, print_json, say, size, table
from laminar.stack.project import open_project
from laminar.store.gc import FEATURE_BUDGET, plan_gc, sweep
from laminar.store.objects import GRACE
from laminar.store.retention import PARTS


def run(
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would go, and remove nothing.")] = False,
    keep: Annotated[int | None, typer.Option("--keep", min=1, help="Of each layer's history, keep only the last N.")] = None,
    features: Annotated[
        int, typer.Option("--features", metavar="BYTES", help="Keep at most so many bytes of features, last used first.")
    ] = FEATURE_BUDGET,
    now: Annotated[
        bool, typer.Option("--now", help="Also what is younger than an hour; waits for no one, but spares running builds.")
    ] = False,
    json: Json = False,
) -> None:
    store = open_project().open_store(create=False)
    plan = plan_gc(store, keep=keep, feature_budget=features, grace=0.0 if now else GRACE)
    if not dry_run:
        plan = sweep(store, plan)
    if json:
        print_json({"removed": not dry_run, "bytes": plan.bytes, **msgspec.to_builtins(plan)})
        return
    rows = [[kind, str(len(items)), size(sum(items.values()))] for kind in PARTS if (items := getattr(plan, kind))]
    if rows:
        table("", ["would go" if dry_run else "removed", "number", "size"], rows, right=["number", "size"])
    verb = "would be freed" if dry_run else "freed"
    say(f"{size(plan.bytes)} {verb}; {plan.kept_layers} layers stay, {size(plan.kept_bytes)}")

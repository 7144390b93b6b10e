"""How a layer's model is split over workers: a tree of its modules, what each sends in a step, and why."""

from __future__ import annotations

from typing import Any

from laminar.cli.output import print_json, say, size, table
from laminar.cli.strategy_options import choose
from laminar.stack.project import open_project


def show_split(layer: str, strategy: str | None, workers: int | None, *, as_json: bool) -> None:
    from laminar.parallel.split.describe import describe_split

    project = open_project()
    file = choose(project.need_file(), strategy, workers, None, None, targets=[layer])
    found = describe_split(file, project.open_store(), layer)
    if as_json:
        print_json(found)
        return
    axes = " x ".join(f"{axis} {count}" for axis, count in found["mesh"].items())
    staged = bool(found["stages"])
    what = f"{found['kind']}{f' of meshes {axes}' if axes else ''}" if staged else axes
    say(f"{found['layer']}: {found['workers']} workers ({what}), batch {found['batch']}")
    if staged:
        _stages(found)
    table(
        "",
        ["module", "kind", *(["stage"] if staged else []), "tensors", "output", "forward", "backward", "gradients", "why"],
        [_row(module, staged=staged) for module in found["modules"] if module["output"] or module["tensors"] or module["path"]],
        right=["forward", "backward", "gradients"],
    )
    keeps = f"keeps {'at most ' if staged else ''}{found['kept']:.0%} of the model's numbers"
    say(f"each worker {keeps}, and sends at most {size(found['sent_per_step'])} in a step")


def _stages(found: dict[str, Any]) -> None:
    rows = []
    for stage in found["stages"]:
        workers = ", ".join(map(str, stage["workers"]))
        modules = stage["modules"]
        named = modules[0] if len(modules) == 1 else f"{modules[0]} .. {modules[-1]}" if modules else "-"
        times = [f"{stage[key]:.2f} ms" for key in ("forward_ms", "backward_ms")]
        sent = [size(stage[key]) if stage[key] else "-" for key in ("values", "gradients", "inside")]
        rows.append([str(stage["stage"]), workers, named, str(stage["operators"]), f"{stage['numbers']:,}", *times, *sent])
    headings = ["stage", "workers", "modules", "operators", "numbers", "forward", "backward", "values", "gradients", "inside"]
    table("", headings, rows, right=headings[3:])
    often = f"{found['schedule']} with {found['microbatches']} micro-batches: " if found["schedule"] else ""
    say(f"{often}workers would be idle {100 * found['idle']:.0f} % of a step, by the measured times of operators")


def _row(module: dict[str, Any], *, staged: bool) -> list[str]:
    depth = module["path"].count(".")
    name = "  " * depth + module["path"].rpartition(".")[2] if module["path"] else "(the model)"
    tensors = ", ".join(f"{tensor} {dims}" for tensor, dims in module["tensors"].items())
    sent = [size(module[key]) if module[key] else "-" for key in ("forward", "backward", "gradients")]
    stages = [", ".join(map(str, module["stages"]))] if staged else []
    return [name, module["kind"], *stages, tensors, module["output"], *sent, module["why"]]

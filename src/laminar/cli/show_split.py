"""How a layer's model is split over workers: a tree of its modules, what each sends in a step, and why."""

from __future__ import annotations

from typing import Any

from laminar.cli.output import print_json, say, size, table
from laminar.stack.project import open_project


def show_split(layer: str, *, as_json: bool) -> None:
    from laminar.parallel.split.describe import describe_split

    project = open_project()
    found = describe_split(project.need_file(), project.open_store(), layer)
    if as_json:
        print_json(found)
        return
    axes = " x ".join(f"{axis} {count}" for axis, count in found["mesh"].items())
    say(f"{found['layer']}: {found['workers']} workers ({axes}), batch {found['batch']}")
    table(
        "",
        ["module", "kind", "tensors", "output", "forward", "backward", "gradients", "why"],
        [_row(module) for module in found["modules"] if module["output"] or module["tensors"] or module["path"]],
        right=["forward", "backward", "gradients"],
    )
    share = found["kept"]
    say(f"each worker keeps {share:.0%} of the model's numbers, and sends at most {size(found['sent_per_step'])} in a step")


def _row(module: dict[str, Any]) -> list[str]:
    depth = module["path"].count(".")
    name = "  " * depth + module["path"].rpartition(".")[2] if module["path"] else "(the model)"
    tensors = ", ".join(f"{tensor} {dims}" for tensor, dims in module["tensors"].items())
    sent = [size(module[key]) if module[key] else "-" for key in ("forward", "backward", "gradients")]
    return [name, module["kind"], tensors, module["output"], *sent, module["why"]]

"""Describe: how a layer's model would be split by its strategy, module by module, as plain data for `laminar show --split`."""

from __future__ import annotations

from typing import Any

from torch import nn

from laminar.core.errors import LaminarError
from laminar.core.nearest import did_you_mean
from laminar.data.open import open_data
from laminar.parallel.split.dims import Dim, Dims, size_of, with_rows
from laminar.parallel.split.grid import Grid
from laminar.parallel.split.place import Placed
from laminar.parallel.split.prepare import place_job, rules_of
from laminar.parallel.split.traffic import Traffic, traffic
from laminar.stack.foreign import stands_on_foreign
from laminar.stack.key import located
from laminar.stack.make import make
from laminar.stack.open_job import prepare_job
from laminar.stack.parents import resolve
from laminar.stack.plan import fingerprint_folder
from laminar.stack.read import StackFile, parent_of
from laminar.store.store import Store
from laminar.train.job import Job
from laminar.train.snapshot import trainable
from laminar.train.splitting import Branches, Mesh, OnMesh, Pipeline
from laminar.train.strategies import strategy


def describe_split(file: StackFile, store: Store, name: str) -> dict[str, Any]:
    """Nothing is built: the layer's model is made, and placed. Its parent must be there."""
    layer = next((one for one in file.spec.layer if one.name == name), None)
    if layer is None:
        names = [one.name for one in file.spec.layer]
        raise LaminarError("L006", f"{file.path.name} has no layer '{name}'; {did_you_mean(name, names)}", hint="laminar status lists them")
    how = strategy(layer.train.strategy)
    if not isinstance(how, Mesh | Pipeline | Branches):
        raise LaminarError(
            "L008",
            f"layer {name} is trained by strategy '{how.kind}', which gives every worker the whole model",
            hint='strategy = { kind = "mesh", mesh = { cols = 2 }, split = { hidden = "cols" } } in its train, or --strategy pipeline',
        )
    data = open_data(file.spec.data[layer.data], file.root, cache=fingerprint_folder(store))
    parent = resolve(file, store, layer, parent_of(file.spec, layer))
    made = make(file, store, layer, parent, data)
    stands_on_foreign(store, parent, made, file.root, data, layer.train.batch)
    job = prepare_job(file, store, layer, made, data, store.root / "tmp" / "split").job
    try:
        if isinstance(how, Mesh):
            training, _ = place_job(job, rules_of(how))
            return describe_placed(job, training, how)
        from laminar.parallel.stages.describe import describe_staged

        return describe_staged(job, how)
    except LaminarError as error:
        raise located(error, file.where_layer(name), f"layer {name}") from error


def describe_placed(job: Job, placed: Placed, how: Mesh) -> dict[str, Any]:
    """Bytes are those of the worker that sends most, for a whole batch."""
    grid, names = Grid(how.mesh), trainable(job.model)
    rows = min(job.recipe.batch, len(job.data.train))
    found = [traffic(placed, grid.at(rank), rows, lambda one: one in names) for rank in range(grid.size)]
    most = max(found, key=lambda one: one.step)
    modules = [describe_module(path, module, placed, most, rows) for path, module in job.model.named_modules()]
    whole = {name: tensor.numel() for name, tensor in [*job.model.named_parameters(), *job.model.named_buffers()]}
    kept = sum(own_numbers(placed.layouts.get(name), size, how) for name, size in whole.items())
    return {
        "layer": job.name,
        "mesh": dict(how.mesh),
        "workers": grid.size,
        "batch": rows,
        "modules": modules,
        "output": most.output.forward + most.output.backward,
        "sent_per_step": most.step,
        "kept": round(kept / max(1, sum(whole.values())), 4),  # of the model's numbers, by each worker
        "kind": how.kind,
        "schedule": "",
        "microbatches": 1,
        "stages": [],  # parallel/stages/describe.py has some
        "idle": 0.0,
    }


def own_numbers(layout: Dims | None, size: int, how: OnMesh) -> float:
    """Of a tensor of so many, that each worker of a mesh has."""
    for axis in [atom.axis for dim in layout or () for atom in dim if atom.axis is not None]:
        size //= how.mesh[axis]
    return size


def describe_module(path: str, module: nn.Module, placed: Placed, sent: Traffic, rows: int) -> dict[str, Any]:
    operators = [one for one in sent.operators if one.path == path]
    prefix = f"{path}." if path else ""
    own = {name for name, _ in [*module.named_parameters(recurse=False), *module.named_buffers(recurse=False)]}
    last = [op for op in placed.operations if op.call.path == path and op.run != "item"]
    return {
        "path": path,
        "kind": type(module).__name__,
        "tensors": {name: _dims(placed.layouts[prefix + name], rows) for name in sorted(own) if prefix + name in placed.layouts},
        "output": _dims(last[-1].gives[0], rows) if last else "",
        "forward": sum(one.forward for one in operators),
        "backward": sum(one.backward for one in operators),
        "gradients": sum(size for name, size in sent.gradients.items() if name.startswith(prefix) and name.removeprefix(prefix) in own),
        "why": "; ".join(dict.fromkeys(one.why for one in operators if one.why)),
        "stages": list[int](),
    }


def _dims(dims: Dims, rows: int) -> str:
    return " x ".join(_dim(dim, rows) for dim in dims) or "1"


def _dim(dim: Dim, rows: int) -> str:
    axes = [atom.axis for atom in dim if atom.axis is not None]
    return f"{with_rows(size_of(dim), rows)}{''.join(f'/{axis}' for axis in axes)}"

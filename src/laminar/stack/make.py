"""Make: the model of a layer before it is trained.

A bottom layer calls its factory. Any other takes the model of the layer below with that layer's tensors: from the project's code
where that is still the code it was built with, else from the graph in the store, which needs nobody's code. Then modules are replaced.
How a model was made is kept as `steps`, so that it can be made again.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import torch
from torch import nn

from laminar.core import digest, project_code
from laminar.core.errors import LaminarError
from laminar.core.observe import Looking
from laminar.core.observe import state as state_at
from laminar.data.dataset import Dataset
from laminar.model.build import make_model
from laminar.model.graph import load_forms, structure_of
from laminar.model.replace import replace
from laminar.model.weights import load_state, state, tensors_of
from laminar.stack.calls import calls_text, may_call
from laminar.stack.kernels import kernels_from
from laminar.stack.key import code_of, in_order, located, normalised, order_of
from laminar.stack.project import open_project
from laminar.stack.read import StackFile
from laminar.stack.specs import LayerSpec
from laminar.store.manifest import Manifest
from laminar.store.own import has_own_steps
from laminar.store.store import Store

Route = Literal["code", "graph"]


@dataclass(frozen=True)
class Made:
    model: nn.Module
    steps: list[dict[str, Any]]
    route: Route
    inherited: int  # of the steps: those of the layer below
    notes: list[str] = field(default_factory=list)


def make(file: StackFile, store: Store, layer: LayerSpec, parent: str | None, data: Dataset, looking: Looking | None = None) -> Made:
    """`looking` hears what the layer's own factories look at. They run in modules that no earlier layer has left its traces in."""
    watched = looking or contextlib.nullcontext()
    project_code.forget(file.root)
    notes: list[str] = []
    known = {"classes": outputs_of(data), "input_shape": list(data.sample_shape)}
    route: Route = "code"
    seed = layer.train.seed
    below = store.layer(parent) if parent else None
    if layer.model is not None:
        step = _step(layer.model, layer.args, known, file, layer.name, "model")
        try:
            with watched:
                model = make_model(layer.model, step["args"], file.root, seed=seed, inject=known)
        except LaminarError as error:
            raise located(error, file.where_layer(layer.name, "args" if layer.args else "model"), f"layer {layer.name}") from error
        steps = [step]
        if below is not None:
            taken, of = _take_over(model, store, below)
            if not taken:
                raise LaminarError(
                    "L205",
                    f"{file.where_layer(layer.name, 'model')}: layer '{layer.name}' has a model of its own and stands on '{below.name}', "
                    "but no tensor of the two has the same name and shape",
                    hint="remove 'from' to start anew, or 'model' to take the model of the layer below",
                )
            notes.append(f"{taken} of {of} tensors taken from {below.name}")
    else:
        assert below is not None  # read.py refuses a first layer that stands on nothing
        model, route = remake(store, below, file.root, file)
        steps = list(below.model.get("steps", []))
        project_code.forget(file.root)
    for path, to in layer.replacements().items():
        step = {"replace": path, **_step(to.model, to.args, known, file, layer.name, "replace")}
        try:
            with watched:
                replace(model, path, to.model, step["args"], file.root, seed=seed, inject=known)
        except LaminarError as error:
            raise located(error, file.where_layer(layer.name, "replace", path), f"layer {layer.name}") from error
        steps.append(step)
    return Made(model, steps, route, len(steps) - len(layer.replacements()) - (layer.model is not None), notes)


def outputs_of(data: Dataset) -> int:
    """How many numbers the model gives for a sample: one a class, or one a target value."""
    return len(data.classes) if data.classes is not None else int(data.train.y.shape[1])


def remake(store: Store, manifest: Manifest, root: Path | None, file: StackFile | None = None) -> tuple[nn.Module, Route]:
    """The model of a kept layer with its tensors: from code that has not changed since, else from its graph. `file`: as in `from_code`."""
    model = from_code(store, manifest, root, file)
    if model is not None:
        return model, "code"
    if manifest.graph.eval is None:
        called = f"layer {manifest.name} ({digest.short(manifest.id)}) has no graph ({manifest.graph.note or 'imported as weights only'})"
        steps = manifest.model.get("steps")
        if steps and root is not None and not has_own_steps(store, manifest) and not may_call(steps, file or _stack_at(root)):
            raise LaminarError(
                "L206",
                f"{called}, and its record, which was not written here, calls functions in a way that laminar.toml here does not: "
                + calls_text(steps),
                hint="read what it calls; if you want that, give laminar.toml a layer with the same model and args",
            )
        raise LaminarError(
            "L206",
            f"{called}, and the code it was made with is not here",
            hint="run this in the project that built it, with models.py as it was then",
        )
    return from_graph(store, manifest, root), "graph"


def from_code(store: Store, manifest: Manifest, root: Path | None, file: StackFile | None = None) -> nn.Module | None:
    """The model of a layer by code of the project that has not changed since; None where there is none.

    Strangers may write anything into the record of a layer: the name of any function of the project, whose source they may know, and
    any arguments. So a layer that is not this store's own is made only by calls that the stack file (`file`, else that in `root`) has, too.
    """
    steps: list[dict[str, Any]] = manifest.model.get("steps", [])
    if root is None or not steps or not isinstance(steps, list):
        return None
    if not has_own_steps(store, manifest) and not may_call(steps, file or _stack_at(root)):
        return None
    if not all(_same_code(step, root) for step in steps):
        return None
    model = _from_steps(steps, root)
    load_state(model, store.get_tensors(manifest), manifest.aliases)
    return model


def from_graph(store: Store, manifest: Manifest, root: Path | None) -> nn.Module:
    """The model of a layer's graph, which must be the one its id speaks of: whoever sent the manifest chose the objects it names.
    Kernels that it calls are looked for in the project's folder. Raises L706."""
    train = store.objects.read(manifest.graph.train) if manifest.graph.train else None
    assert manifest.graph.eval is not None
    evaluation = store.objects.read(manifest.graph.eval)
    with kernels_from(root):
        if train is None or structure_of(train, evaluation) != manifest.structure:  # no layer was ever kept with one of its two graphs
            raise LaminarError(
                "L403",
                f"the graph of layer {manifest.name} ({digest.short(manifest.id)}) is not the one its id was made of",
                hint="pull it from a remote you trust, or build it again",
            )
        return load_forms(train, evaluation, store.get_tensors(manifest), manifest.aliases)


def _from_steps(steps: list[dict[str, Any]], root: Path) -> nn.Module:
    model: nn.Module | None = None
    for step in steps:
        args = in_order(step["args"], step.get("order", []))
        if "replace" in step:
            assert model is not None
            replace(model, step["replace"], step["factory"], args, root, seed=0, inject=step["known"])
        else:
            model = make_model(step["factory"], args, root, seed=0, inject=step["known"])
    assert model is not None
    return model


@torch.no_grad()
def _take_over(model: nn.Module, store: Store, below: Manifest) -> tuple[int, int]:
    """Copy the tensors that have the same name, shape and dtype in both; how many, of how many."""
    own, _ = state(model)
    given = tensors_of(store.get_tensors(below), below.aliases)
    fitting = [n for n, t in own.items() if n in given and given[n].shape == t.shape and given[n].dtype == t.dtype]
    for name in fitting:
        own[name].copy_(given[name])
    return len(fitting), len(own)


def _step(factory: str, args: dict[str, Any], known: dict[str, Any], file: StackFile, name: str, key: str) -> dict[str, Any]:
    code, order = code_of(factory, file.root, file.where_layer(name, key)).sources, order_of(args, top=True)
    return {"factory": factory, "args": normalised(args), **({"order": order} if order else {}), "known": known, "code": code}


def _stack_at(root: Path) -> StackFile | None:
    try:
        return open_project(root).file
    except LaminarError:  # one that cannot be read calls nothing
        return None


def _same_code(step: dict[str, Any], root: Path) -> bool:
    """Is it made by the code of then, which finds what it found then? Steps may come from somebody else, who wrote anything."""
    try:
        if code_of(step["factory"], root, "").sources != step["code"]:
            return False
        return all(state_at(tag, root.resolve(), digest.of_file) == before for tag, before in step.get("seen", {}).items())
    except (LaminarError, AttributeError, KeyError, TypeError, ValueError):
        return False

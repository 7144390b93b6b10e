"""Keep: everything a layer consists of goes into the store as objects; the manifest that names them is returned, not yet committed."""

from __future__ import annotations

import contextlib
import importlib.metadata
import platform
import sys
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from laminar import __version__
from laminar.core import digest
from laminar.core.errors import LaminarError
from laminar.model.freeze import Frozen
from laminar.model.graph import Forms, export_forms, proved
from laminar.model.graph_reuse import sight_of
from laminar.model.weights import raw_state
from laminar.store.manifest import Graph, Manifest, identity
from laminar.store.store import Store


@dataclass(frozen=True)
class About:
    """What a layer is, besides its model."""

    stack: str
    name: str
    key: str
    run: str
    parent: str | None
    steps: list[dict[str, Any]]  # how its model is made
    route: str  # where its model came from
    classes: list[str] | None
    task: str
    input: dict[str, Any]  # shape, dtype and scale of a sample
    where: dict[str, Any] = field(default_factory=dict)  # it was trained, if not on this machine


def keep(
    store: Store,
    model: nn.Module,
    example: Tensor,
    about: About,
    *,
    frozen: Frozen | None = None,
    freeze: list[str] | None = None,
    metrics: dict[str, float] | None = None,
    seconds: float = 0.0,
    now: float,
    notes: list[str] | None = None,
    earlier: Iterable[str] = (),
    forms: Forms | None = None,
) -> Manifest:
    """`earlier` are layers whose graph may be this one's as well: the layer as it was before, and its parent. `forms`: its graph, where it
    was traced already; else the model is run and traced."""
    tensors, aliases = raw_state(model)
    refs = store.put_tensors(tensors, store.layer(about.parent) if about.parent else None)
    sight = sight_of(model, example, frozen=frozen, made=_made(store, about))
    forms = (
        forms
        or _found(store, earlier, sight, model, example)
        or export_forms(model, example, frozen=frozen, fallback_structure=digest.of_json(about.steps))
    )
    graph = Graph(
        train=store.objects.put(forms.train) if forms.train is not None else None,
        eval=store.objects.put(forms.eval) if forms.eval is not None else None,
        note=forms.note,
    )
    return Manifest(
        id=identity(tensors=refs, aliases=aliases, structure=forms.structure, classes=about.classes, input=about.input, task=about.task),
        name=about.name,
        stack=about.stack,
        parent=about.parent,
        tensors=refs,
        aliases=aliases,
        graph=graph,
        structure=forms.structure,
        model={"steps": about.steps, "sight": sight},
        classes=about.classes,
        task=about.task,
        input=about.input,
        frozen=sorted(set(freeze or [])),
        metrics=metrics or {},
        key=about.key,
        run=about.run,
        created=now,
        seconds=seconds,
        provenance=provenance(about.route) | ({"on": about.where} if about.where else {}),
        notes=[*(notes or []), *([graph.note] if graph.note else [])],
    )


def _made(store: Store, about: About) -> dict[str, Any]:
    """How the model was made: by code, which the steps digest, or from the graph of its parent."""
    if about.route != "graph" or about.parent is None:
        return {"steps": about.steps, "route": about.route}
    graph = store.layer(about.parent).graph
    return {"steps": about.steps, "route": about.route, "of": [graph.train, graph.eval]}


def _found(store: Store, earlier: Iterable[str], sight: str | None, model: nn.Module, example: Tensor) -> Forms | None:
    """The forms of an earlier layer whose model looked the same and, as is proved, does the same."""
    for id in dict.fromkeys(earlier):
        if sight is None or not store.has_layer(id):
            continue
        with contextlib.suppress(LaminarError):  # damaged, or objects that are gone: then the model is traced
            layer = store.layer(id)
            if layer.model.get("sight") == sight and layer.graph.train and layer.graph.eval:
                forms = proved(model, store.objects.read(layer.graph.train), store.objects.read(layer.graph.eval), example)
                if forms is not None and forms.structure == layer.structure:
                    return forms
    return None


def provenance(route: str) -> dict[str, Any]:
    """Where and with what it was made: recorded, never part of the key."""
    return {
        "laminar": __version__,
        "torch": importlib.metadata.version("torch"),
        "python": platform.python_version(),
        "platform": f"{sys.platform}-{platform.machine()}",
        "threads": torch.get_num_threads(),
        "model": route,
    }

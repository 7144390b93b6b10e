"""Keep: everything a layer consists of goes into the store as objects; the manifest that names them is returned, not yet committed."""

from __future__ import annotations

import importlib.metadata
import platform
import sys
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from laminar import __version__
from laminar.core import digest
from laminar.model.freeze import Frozen
from laminar.model.graph import export_forms
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
) -> Manifest:
    tensors, aliases = raw_state(model)
    refs = store.put_tensors(tensors, store.layer(about.parent) if about.parent else None)
    forms = export_forms(model, example, frozen=frozen, fallback_structure=digest.of_json(about.steps))
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
        model={"steps": about.steps},
        classes=about.classes,
        task=about.task,
        input=about.input,
        frozen=sorted(set(freeze or [])),
        metrics=metrics or {},
        key=about.key,
        run=about.run,
        created=now,
        seconds=seconds,
        provenance=provenance(about.route),
        notes=[*(notes or []), *([graph.note] if graph.note else [])],
    )


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

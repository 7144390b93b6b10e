"""Train one layer: make its model, freeze, keep features, train, export, and commit to the store. The only file here that needs torch to act."""

from __future__ import annotations

import importlib.metadata
import platform
import sys
from dataclasses import dataclass, field
from typing import Any

import msgspec
import torch

from laminar import __version__
from laminar.core import atomic, digest
from laminar.core.clock import Clock
from laminar.core.errors import LaminarError
from laminar.core.events import Emit
from laminar.data.dataset import Dataset, as_float
from laminar.data.open import open_data
from laminar.model.fit import check_output
from laminar.model.freeze import Frozen, freeze
from laminar.model.graph import export_forms
from laminar.model.weights import raw_state
from laminar.stack.key import located
from laminar.stack.make import Made, make, outputs_of
from laminar.stack.plan import FINISHED, Step
from laminar.stack.read import StackFile
from laminar.store.manifest import BuildRecord, Graph, Manifest, identity
from laminar.store.store import Store
from laminar.train import dtype
from laminar.train.features import KeptFeatures, prepare_features
from laminar.train.job import Job, Trained
from laminar.train.loop import train


@dataclass(frozen=True)
class Outcome:
    id: str
    metrics: dict[str, float]
    seconds: float
    features: str
    notes: list[str] = field(default_factory=list)


def train_layer(file: StackFile, store: Store, step: Step, *, run: str, ref: str, emit: Emit, clock: Clock) -> Outcome:
    layer, spec = step.layer, file.spec.data[step.layer.data]
    assert step.key is not None and step.inputs is not None
    where = file.where_layer(layer.name)
    try:
        data = open_data(spec, file.root)
    except LaminarError as error:
        raise located(error, file.where("data", layer.data, "source"), f"data.{layer.data}") from error
    folder = store.run_folder(run)
    with store.lease(runs=[run]) as lease:
        folder.mkdir(parents=True, exist_ok=True)
        atomic.write_bytes(folder / "run.json", msgspec.json.encode({"stack": file.spec.stack.name, "layer": layer.name, "key": step.key}))
        made = make(file, store, layer, step.parent, data)
        dtype.prepare(made.model, layer.train)
        try:
            frozen = freeze(made.model, layer.freeze)
            check_output(made.model, _example(data, 2, layer.train.dtype), outputs_of(data), data.task)
        except LaminarError as error:
            key = "freeze" if error.code == "L203" else "args" if layer.args else "model" if layer.model else "replace"
            raise located(error, file.where_layer(layer.name, key), f"layer {layer.name}") from error
        kept = prepare_features(made.model, frozen, data, spec.augment, layer.train, store, emit)
        job = Job(name=layer.name, model=made.model, data=data, recipe=layer.train, frozen=frozen, folder=folder, augment=spec.augment, clock=clock)
        if isinstance(kept, KeptFeatures):
            lease.add(features=kept.fkeys)
            job.fit, job.test = kept.fit, kept.test
        try:
            trained = train(job, emit)
        except LaminarError as error:
            raise located(error, where, f"layer {layer.name}") from error
        manifest = _keep(store, file, step, made, frozen, data, trained, run, clock)
        notes = [*made.notes, *trained.notes, *([manifest.graph.note] if manifest.graph.note else [])]
        manifest = msgspec.structs.replace(manifest, notes=notes)
        record = BuildRecord(
            key=step.key,
            id=manifest.id,
            inputs=step.inputs,
            stack=file.spec.stack.name,
            name=layer.name,
            spec=_as_written(file, layer.name),
            data={"name": layer.data, **file.raw["data"][layer.data]},
            metrics=trained.metrics,
            seconds=trained.seconds,
            created=manifest.created,
            run=run,
            provenance=manifest.provenance,
        )
        store.commit(manifest, record, ref, why="build")
        atomic.write_text(folder / FINISHED, manifest.id)
        for leftover in folder.glob("checkpoint*"):
            leftover.unlink(missing_ok=True)
    return Outcome(manifest.id, trained.metrics, trained.seconds, kept.summary(), notes)


def _keep(
    store: Store, file: StackFile, step: Step, made: Made, frozen: Frozen, data: Dataset, trained: Trained, run: str, clock: Clock
) -> Manifest:
    """Everything the layer consists of, as objects in the store; the manifest that names them is not committed yet."""
    layer = step.layer
    assert step.key is not None
    tensors, aliases = raw_state(made.model)
    parent = store.layer(step.parent) if step.parent else None
    refs = store.put_tensors(tensors, parent)
    forms = export_forms(made.model, _example(data, 2, layer.train.dtype), frozen=frozen, fallback_structure=digest.of_json(made.steps))
    graph = Graph(
        train=store.objects.put(forms.train) if forms.train is not None else None,
        eval=store.objects.put(forms.eval) if forms.eval is not None else None,
        note=forms.note,
    )
    classes = list(data.classes) if data.classes is not None else None
    inputs = {"shape": list(data.sample_shape), "dtype": str(data.train.x.dtype), "scale": data.scale}
    return Manifest(
        id=identity(tensors=refs, aliases=aliases, structure=forms.structure, classes=classes, input=inputs, task=data.task),
        name=layer.name,
        stack=file.spec.stack.name,
        parent=step.parent,
        tensors=refs,
        aliases=aliases,
        graph=graph,
        structure=forms.structure,
        model={"steps": made.steps},
        classes=classes,
        task=data.task,
        input=inputs,
        frozen=sorted(set(layer.freeze)),
        metrics=trained.metrics,
        key=step.key,
        run=run,
        created=clock.now(),
        seconds=trained.seconds,
        provenance=provenance(made.route),
    )


def provenance(route: str) -> dict[str, Any]:
    """Where and with what it was trained: recorded, never part of the key."""
    return {
        "laminar": __version__,
        "torch": importlib.metadata.version("torch"),
        "python": platform.python_version(),
        "platform": f"{sys.platform}-{platform.machine()}",
        "threads": torch.get_num_threads(),
        "model": route,
    }


def _example(data: Dataset, n: int, dtype_name: str) -> torch.Tensor:
    return torch.from_numpy(as_float(data.train.x[:n].copy())).to(dtype.of_tensors(dtype_name))


def _as_written(file: StackFile, name: str) -> dict[str, Any]:
    found: dict[str, Any] = next(t for t in file.raw["layer"] if t["name"] == name)
    return found

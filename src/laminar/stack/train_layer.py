"""Train one layer: make its model, freeze, keep features, train, export, and commit to the store."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import torch

from laminar.core import atomic
from laminar.core.clock import Clock
from laminar.core.errors import LaminarError
from laminar.core.events import Emit
from laminar.data.dataset import Dataset, as_float
from laminar.data.fingerprint import fingerprint
from laminar.data.open import open_data
from laminar.model.fit import check_output
from laminar.model.freeze import freeze
from laminar.stack.keep import About, keep
from laminar.stack.key import located
from laminar.stack.make import make, outputs_of
from laminar.stack.plan import FINISHED, Step, fingerprint_folder
from laminar.stack.read import StackFile
from laminar.store.manifest import BuildRecord
from laminar.store.store import Store
from laminar.train import checkpoint, dtype
from laminar.train.features import KeptFeatures, prepare_features
from laminar.train.job import Job
from laminar.train.loop import train
from laminar.train.recipe import Recipe

ROUTE = "features"  # in a run's folder: whether it trains on kept features


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
        data = open_data(spec, file.root, cache=fingerprint_folder(store))
        if fingerprint(spec, file.root, fingerprint_folder(store)) != step.inputs["data"]:
            raise LaminarError("L102", "it changed while it was being read", hint="laminar build again when it is at rest")
    except LaminarError as error:
        raise located(error, file.where("data", layer.data, "source"), f"data.{layer.data}") from error
    folder = store.run_folder(run)
    with store.lease(runs=[run]) as lease:
        folder.mkdir(parents=True, exist_ok=True)
        atomic.write_bytes(folder / "run.json", msgspec.json.encode({"stack": file.spec.stack.name, "layer": layer.name, "key": step.key}))
        made = make(file, store, layer, step.parent, data)
        _same_code(step, made.steps)
        dtype.prepare(made.model, layer.train)
        example = _example(data, 2, layer.train.dtype)
        try:
            frozen = freeze(made.model, layer.freeze)
            check_output(made.model, example, outputs_of(data), data.task)
        except LaminarError as error:
            key = "freeze" if error.code == "L203" else "args" if layer.args else "model" if layer.model else "replace"
            raise located(error, file.where_layer(layer.name, key), f"layer {layer.name}") from error
        kept = prepare_features(made.model, frozen, data, spec.augment, _as_before(layer.train, folder), store, emit)
        atomic.write_text(folder / ROUTE, "always" if isinstance(kept, KeptFeatures) else "never")
        job = Job(
            name=layer.name,
            model=made.model,
            data=data,
            recipe=layer.train,
            frozen=frozen,
            folder=folder,
            augment=spec.augment,
            clock=clock,
        )
        if isinstance(kept, KeptFeatures):
            lease.add(features=kept.fkeys)
            job.fit, job.test = kept.fit, kept.test
        try:
            trained = train(job, emit)
        except LaminarError as error:
            raise located(error, where, f"layer {layer.name}") from error
        about = About(
            stack=file.spec.stack.name,
            name=layer.name,
            key=step.key,
            run=run,
            parent=step.parent,
            steps=made.steps,
            route=made.route,
            classes=list(data.classes) if data.classes is not None else None,
            task=data.task,
            input={"shape": list(data.sample_shape), "dtype": str(data.train.x.dtype), "scale": data.scale},
        )
        manifest = keep(
            store,
            made.model,
            example,
            about,
            frozen=frozen,
            freeze=layer.freeze,
            metrics=trained.metrics,
            seconds=trained.seconds,
            now=clock.now(),
            notes=[*made.notes, *trained.notes],
        )
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
        checkpoint.remove(folder)
    return Outcome(manifest.id, trained.metrics, trained.seconds, kept.summary(), manifest.notes)


def _same_code(step: Step, made: list[dict[str, Any]]) -> None:
    """What was executed is what the key speaks of: an editor may have saved a file in between."""
    assert step.inputs is not None
    keyed = [step.inputs["model"], *step.inputs["replace"].values()]
    codes = [entry["code"] for entry in made]
    for entry in keyed:
        if entry is not None and entry["code"] not in codes:
            raise LaminarError("L202", f"the source of {entry['factory']} changed while the build began", hint="laminar build again")


def _as_before(recipe: Recipe, folder: Path) -> Recipe:
    """The recipe, on the way the unfinished run took: whether keeping pays is measured, and a resumed run must not choose anew."""
    if not (folder / ROUTE).exists():
        return recipe
    way = (folder / ROUTE).read_text()
    return msgspec.structs.replace(recipe, keep_features="always" if way == "always" else "never")


def _example(data: Dataset, n: int, dtype_name: str) -> torch.Tensor:
    return torch.from_numpy(as_float(data.train.x[:n].copy())).to(dtype.of_tensors(dtype_name))


def _as_written(file: StackFile, name: str) -> dict[str, Any]:
    found: dict[str, Any] = next(t for t in file.raw["layer"] if t["name"] == name)
    return found

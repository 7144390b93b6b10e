"""Open a job: data, the model with its start weights, what is frozen, kept features. In the process that builds and in its workers.

A worker that has the project's folder opens the same job from a description that is JSON: the stack as it was read (a user may be
editing the file by now), and the names of layer, parent and run.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import msgspec
import torch

from laminar.core.clock import SYSTEM, Clock
from laminar.core.errors import LaminarError
from laminar.core.events import Emit, nowhere
from laminar.core.observe import Looking
from laminar.data.dataset import Dataset, as_float
from laminar.data.open import open_data
from laminar.model.fit import check_output
from laminar.model.freeze import Frozen, freeze
from laminar.stack.key import located
from laminar.stack.make import Made, make, outputs_of
from laminar.stack.plan import fingerprint_folder
from laminar.stack.read import StackFile
from laminar.stack.specs import LayerSpec
from laminar.store.store import Store
from laminar.train import dtype
from laminar.train.features import KeptFeatures, NotKept, prepare_features
from laminar.train.job import Job
from laminar.train.recipe import Recipe

ROUTE = "features"  # in a run's folder: whether it trains on kept features


@dataclass(frozen=True)
class Description:
    """A job, for whoever has the project's folder and its store."""

    file: StackFile
    store: Path
    layer: str
    parent: str | None
    run: str
    features: tuple[str, ...] = ()  # kept ones that it trains on, in the store of whoever builds

    def to_json(self) -> dict[str, Any]:
        return {
            **self.file.to_json(),
            "store": str(self.store),
            "layer": self.layer,
            "parent": self.parent,
            "run": self.run,
            "features": list(self.features),
        }

    def with_recipe(self, recipe: Recipe) -> Description:
        """The same, for workers that train by another recipe than the stack file's."""
        layers = [msgspec.structs.replace(one, train=recipe) if one.name == self.layer else one for one in self.file.spec.layer]
        return replace(self, file=replace(self.file, spec=msgspec.structs.replace(self.file.spec, layer=layers)))

    @classmethod
    def from_json(cls, told: dict[str, Any]) -> Description:
        return cls(StackFile.from_json(told), Path(told["store"]), told["layer"], told["parent"], told["run"], tuple(told["features"]))

    def open(self, looked: Callable[[str], None] | None = None) -> tuple[Job, Looking]:
        """In a worker. The route is the one that the process that builds has taken. The looking is to be entered while it trains: `looked`
        is called with each thing that the layer's code looks at, for the process that builds, since it belongs in the layer's key."""
        store = Store.open(self.store, create=False)
        layer = next(layer for layer in self.file.spec.layer if layer.name == self.layer)
        data = open_data(self.file.spec.data[layer.data], self.file.root, cache=fingerprint_folder(store))
        looking = Looking(self.file.root, looked)
        made = make(self.file, store, layer, self.parent, data, looking)
        with looking:
            return prepare_job(self.file, store, layer, made, data, store.run_folder(self.run)).job, looking


@dataclass
class PreparedJob:
    job: Job
    frozen: Frozen
    example: torch.Tensor
    kept: KeptFeatures | NotKept
    spent: dict[str, float] = field(default_factory=dict)  # seconds, on features


@dataclass(frozen=True)
class Fitted:
    """A model that takes the samples, with its frozen part frozen."""

    frozen: Frozen
    example: torch.Tensor


def fit_model(file: StackFile, layer: LayerSpec, made: Made, data: Dataset) -> Fitted:
    """Prepare the model and run it once; nothing of the run is needed for that."""
    dtype.prepare(made.model, layer.train)
    example = _example(data, 2, layer.train.dtype)
    try:
        frozen = freeze(made.model, layer.freeze)
        for path in filter(frozen.covers, layer.replacements()):
            made.notes.append(f"'{path}' is frozen although it was just replaced: its new weights stay as they were drawn")
        check_output(made.model, example, outputs_of(data), data.task)
    except LaminarError as error:
        key = "freeze" if error.code == "L203" else "args" if layer.args else "model" if layer.model else "replace"
        raise located(error, file.where_layer(layer.name, key), f"layer {layer.name}") from error
    return Fitted(frozen, example)


def prepare_job(
    file: StackFile,
    store: Store,
    layer: LayerSpec,
    made: Made,
    data: Dataset,
    folder: Path,
    *,
    emit: Emit = nowhere,
    clock: Clock = SYSTEM,
    fitted: Fitted | None = None,
) -> PreparedJob:
    """`fitted`: what fit_model gave, for who has called it already."""
    fitted = fitted or fit_model(file, layer, made, data)
    frozen, example = fitted.frozen, fitted.example
    augment = file.spec.data[layer.data].augment
    start = clock.monotonic()
    kept = prepare_features(made.model, frozen, data, augment, _as_before(layer.train, folder), store, emit)
    spent = {"features": clock.monotonic() - start} if layer.freeze else {}
    job = Job(name=layer.name, model=made.model, data=data, recipe=layer.train, frozen=frozen, folder=folder, augment=augment, clock=clock)
    if isinstance(kept, KeptFeatures):
        job.fit, job.test = kept.fit, kept.test
    return PreparedJob(job, frozen, example, kept, spent)


def _as_before(recipe: Recipe, folder: Path) -> Recipe:
    """The recipe, on the way the unfinished run took: whether keeping pays is measured, and a resumed run must not choose anew."""
    if not (folder / ROUTE).exists():
        return recipe
    way = (folder / ROUTE).read_text()
    return msgspec.structs.replace(recipe, keep_features="always" if way == "always" else "never")


def _example(data: Dataset, n: int, dtype_name: str) -> torch.Tensor:
    return torch.from_numpy(as_float(data.train.x[:n].copy())).to(dtype.of_tensors(dtype_name))

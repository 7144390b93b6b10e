"""Use: load, evaluate and predict with a kept layer, with or without the code it was made from."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import msgspec
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from laminar.core.errors import LaminarError
from laminar.core.nearest import did_you_mean
from laminar.data.dataset import Dataset
from laminar.data.open import open_data
from laminar.data.spec import DataSpec
from laminar.stack.foreign import confined, is_foreign
from laminar.stack.make import from_graph, outputs_of, remake
from laminar.stack.project import Project
from laminar.store.manifest import Manifest
from laminar.store.store import Store
from laminar.train.evaluate import evaluate as evaluate_arrays
from laminar.train.evaluate import predict as predict_arrays
from laminar.train.losses import losses_for


def load_model(store: Store, id: str, root: Path | None) -> nn.Module:
    """The model of a layer in eval mode: from its graph, which is exactly what was trained, or from code where it has none."""
    manifest = store.layer(id)
    if manifest.graph.eval is None:
        return remake(store, manifest, root)[0].eval()
    try:
        return from_graph(store, manifest, root).eval()
    except LaminarError as error:
        if error.code != "L706":
            raise
        # a kernel that lies elsewhere, or has no file: the project's code may know of it
        return remake(store, manifest, root)[0].eval()


@contextmanager
def model_of(store: Store, id: str, root: Path | None) -> Iterator[nn.Module]:
    """The model of a layer to be evaluated: one that was made here in this process, one that others made in a child (foreign.py)."""
    if is_foreign(store, store.layer(id)):
        with confined(store, id, root) as module:
            yield module
    else:
        yield load_model(store, id, root)


class _Fitting(nn.Module):
    """A model whose outputs are what its manifest and the data say, or L204: either may come from somebody else."""

    def __init__(self, model: nn.Module, manifest: Manifest, targets: int | None = None) -> None:
        """`targets` of each sample of the data: its classes, or its numbers. None: any."""
        super().__init__()
        self.model, self.called, self.is_regression = model, manifest.name, manifest.task != "classification"
        self.numbers = targets if self.is_regression or manifest.classes is None else len(manifest.classes)

    def forward(self, x: Tensor) -> Tensor:
        made: Tensor = self.model(x)
        flat = self.is_regression and made.ndim == 1  # one number for each sample
        if not made.is_floating_point() or not (flat or made.ndim == 2) or self.numbers not in (None, 1 if flat else made.shape[1]):
            raise LaminarError(
                "L204",
                f"layer {self.called} gives {made.dtype} of shape {list(made.shape)} for {len(x)} samples, "
                f"expected {'numbers' if self.numbers is None else self.numbers} for each",
                hint="choose other data, or another layer: what is said of this one may be wrong",
            )
        return made


SplitName = Literal["test", "train"]


@dataclass(frozen=True)
class Evaluation:
    id: str
    data: str
    split: SplitName
    samples: int
    objective: str  # the loss that `metrics["loss"]` is
    metrics: dict[str, float]

    def to_json(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "data": self.data,
            "split": self.split,
            "samples": self.samples,
            "objective": self.objective,
            "metrics": self.metrics,
        }


def evaluate(project: Project, store: Store, id: str, data: str | None, *, split: SplitName = "test") -> Evaluation:
    """Metrics of a layer on a data set of the stack file, or on any source such as `folder:photos`; without `data` on its own."""
    manifest = store.layer(id)
    data = data or own_data(project, store, manifest)
    dataset = open_for(project, manifest, data)
    chosen = {"test": dataset.test, "train": dataset.train}[split]
    _check_shape(manifest, dataset, data)
    labels = _aligned(manifest, dataset, chosen.y, data)
    objective = objective_of(store, manifest)
    with model_of(store, id, project.root) as model:
        model = _Fitting(model, manifest, outputs_of(dataset))
        metrics = evaluate_arrays(model, [chosen.x], labels, task=manifest.task, dtype=_dtype(manifest), loss=objective)
    return Evaluation(id, data, split, len(labels), objective, metrics)


def objective_of(store: Store, manifest: Manifest) -> str:
    """The loss that a layer was trained with. Of an imported layer nobody knows it; it is judged by the usual one of its task."""
    record = store.record(manifest.key)
    trained = None if record is None else record.inputs.get("train")
    recorded = trained.get("loss") if isinstance(trained, dict) else None
    fitting = losses_for(manifest.task)
    if recorded is None:
        return fitting[0]
    if recorded not in fitting:
        raise LaminarError(
            "L303",
            f"the build record of {manifest.name} says that it was trained with the loss {recorded!r}, "
            f"but a layer for {manifest.task} has {', '.join(fitting)}",
            hint="laminar verify",
        )
    return str(recorded)


def own_data(project: Project, store: Store, manifest: Manifest) -> str:
    """What a layer was trained on: the [data.NAME] of the stack file here, or a source that lies in the package.

    A record may come from somebody else. It may name data here, but it may not choose a file, a function or an address.
    """
    record = store.record(manifest.key)
    if record is None or record.data is None:
        raise LaminarError(
            "L008",
            f"layer {manifest.name} has no data of its own: it was imported, not trained",
            hint=f"laminar evaluate {manifest.name} --data DATA",
        )
    name, source = str(record.data.get("name", "")), record.data.get("source", "")
    if project.file is not None and name in project.file.spec.data:
        return name
    if isinstance(source, str) and ":" not in source and set(record.data) <= {"name", "source", "classes"}:
        return source
    raise LaminarError(
        "L006",
        f"layer {manifest.name} was trained on [data.{name}] with source {source!r}, and there is no such data set here",
        hint=f"laminar evaluate {manifest.name} --data DATA, with a [data.NAME] of laminar.toml or a source",
    )


def answers(
    project: Project, store: Store, id: str, dataset: Dataset, data: str, rows: NDArray[np.int64]
) -> tuple[NDArray[Any], NDArray[Any]]:
    """What samples of the test split are, in the layer's numbering of classes, and the layer's outputs for them. `data` is for messages."""
    manifest = store.layer(id)
    _check_shape(manifest, dataset, data)
    labels = _aligned(manifest, dataset, dataset.test.y, data)[rows]
    with model_of(store, id, project.root) as model:
        model = _Fitting(model, manifest, outputs_of(dataset))
        return labels, predict_arrays(model, [dataset.test.x[rows]], dtype=_dtype(manifest))


def _check_shape(manifest: Manifest, dataset: Dataset, data: str) -> None:
    if tuple(dataset.sample_shape) != tuple(manifest.input["shape"]):
        raise LaminarError(
            "L204",
            f"layer {manifest.name} takes samples of shape {manifest.input['shape']}, but those of {data} are {list(dataset.sample_shape)}",
            hint="give data of that shape; `size` and `grey` in [data.…] change images",
        )


def open_for(project: Project, manifest: Manifest, data: str) -> Dataset:
    """A data set of the stack file, or any source; of a source, the classes that the layer knows."""
    if project.file is not None and data in project.file.spec.data:
        return open_data(project.file.spec.data[data], project.root)
    spec = DataSpec(source=data)
    try:
        dataset = open_data(spec, project.root)
    except LaminarError as error:
        if error.code != "L105" or project.file is None:
            raise
        names = project.file.spec.data
        raise LaminarError(
            "L006", f"'{data}' is neither a [data.…] of {project.file.path.name} nor a source; {did_you_mean(data, names)}", hint=error.hint
        ) from None
    wanted = manifest.classes
    if wanted and dataset.classes and list(dataset.classes) != wanted and set(wanted) <= set(dataset.classes):
        # a layer trained on some of the classes is asked about those
        dataset = open_data(msgspec.structs.replace(spec, classes=list(wanted)), project.root)
    return dataset


def _aligned(manifest: Manifest, dataset: Dataset, y: NDArray[Any], data: str) -> NDArray[Any]:
    """Labels in the layer's numbering: classes are matched by name."""
    if manifest.task != dataset.task:
        raise LaminarError(
            "L204", f"layer {manifest.name} is for {manifest.task}, but {data} is for {dataset.task}", hint="choose other data"
        )
    if manifest.classes is None or dataset.classes is None or list(dataset.classes) == manifest.classes:
        return y
    unknown = [name for name in dataset.classes if name not in manifest.classes]
    if unknown:
        raise LaminarError(
            "L104",
            f"layer {manifest.name} knows the classes {', '.join(manifest.classes)}, but {data} has {', '.join(unknown)}",
            hint=f"classes = {manifest.classes} in [data.…] keeps the ones it knows",
        )
    numbers = np.array([manifest.classes.index(name) for name in dataset.classes], dtype=np.int64)
    return np.take(numbers, y)


def predict(project: Project, store: Store, id: str, files: list[Path]) -> list[dict[str, Any]]:
    """For each image or .npy file: the class and its probability, or the numbers of a regression."""
    manifest = store.layer(id)
    samples = [_sample(file, manifest) for file in files]
    with model_of(store, id, project.root) as model:
        outputs = predict_arrays(_Fitting(model, manifest), [np.concatenate(samples)], dtype=_dtype(manifest))
    rows: list[dict[str, Any]] = []
    names = [str(f) if len(s) == 1 else f"{f}[{i}]" for f, s in zip(files, samples, strict=True) for i in range(len(s))]
    for name, output in zip(names, outputs, strict=True):
        if manifest.task == "classification":
            probabilities = torch.softmax(torch.from_numpy(output).double(), 0).tolist()
            classes = manifest.classes or [str(i) for i in range(len(probabilities))]
            best = int(np.argmax(probabilities))
            rows.append(
                {
                    "file": name,
                    "class": classes[best],
                    "probability": probabilities[best],
                    "probabilities": dict(zip(classes, probabilities, strict=True)),
                }
            )
        else:
            rows.append({"file": name, "values": output.tolist()})
    return rows


def _dtype(manifest: Manifest) -> str:
    """What the layer computes in: what its floating-point tensors are kept in."""
    return "float64" if any(t.dtype == "F64" for t in manifest.tensors.values()) else "float32"


def _of_numpy(name: str) -> np.dtype[Any] | None:
    """NumPy's own dtype of a name. Libraries that happen to be imported add others (ml_dtypes: bfloat16), which no .npy file can hold."""
    try:
        dtype = np.dtype(name)
    except TypeError:
        return None
    return dtype if dtype.isbuiltin == 1 else None


def _sample(path: Path, manifest: Manifest) -> NDArray[Any]:
    """A file as a batch of samples in the layer's own shape, dtype and scale."""
    shape = tuple(manifest.input["shape"])
    name = str(manifest.input.get("dtype", "float32"))
    dtype = _of_numpy(name)
    if dtype is None:
        raise LaminarError("L204", f"layer {manifest.name} takes {name}, which no file has", hint="laminar evaluate on data")
    if not path.exists():
        raise LaminarError("L101", f"there is no {path}", hint="name an image or a .npy file")
    if path.suffix == ".npy":
        try:
            array: NDArray[Any] = np.load(path, allow_pickle=False)
        except (ValueError, OSError, EOFError) as error:
            raise LaminarError("L102", f"{path} cannot be read: {error}", hint="save it again with numpy.save") from None
        batch = array if array.ndim == len(shape) + 1 else array[None]
        if batch.shape[1:] != shape:
            raise LaminarError(
                "L204",
                f"{path} holds samples of shape {list(batch.shape[1:])}, but layer {manifest.name} takes {list(shape)}",
                hint="reshape it",
            )
        return batch.astype(dtype)
    if len(shape) != 3:
        raise LaminarError(
            "L204", f"layer {manifest.name} takes samples of shape {list(shape)}, and {path} is not a .npy file", hint="save them as .npy"
        )
    return _image(path, shape, dtype)


def _image(path: Path, shape: tuple[int, ...], dtype: np.dtype[Any]) -> NDArray[Any]:
    """Read as the folder source reads images for training."""
    from laminar.data.formats.images import read_image

    channels, height, width = shape
    pixels = read_image(path, size=(width, height), grey=channels == 1)
    return pixels[None] if dtype == np.uint8 else (pixels[None] / 255).astype(dtype)

"""Jobs for the tests of training: tiny data, and models with everything that has state."""

from __future__ import annotations

import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from laminar.core.events import read
from laminar.data.dataset import Dataset, Split
from laminar.data.spec import AugmentSpec
from laminar.model.freeze import freeze
from laminar.train.job import Job, Route
from laminar.train.recipe import Recipe, Target


def images(train: int = 90, test: int = 40, classes: int = 3) -> Dataset:
    """Bytes, (1, 6, 6): a class is a bright row. Learnt in some epochs, not at once."""
    rng = np.random.default_rng(5)
    y = rng.integers(0, classes, train + test)
    x = rng.integers(0, 120, (train + test, 1, 6, 6))
    x[np.arange(len(y)), 0, y] += 90
    x, y = x.astype(np.uint8), y.astype(np.int64)
    return Dataset(Split(x[:train], y[:train]), Split(x[train:], y[train:]), tuple("abc"[:classes]))


def numbers(train: int = 90, test: int = 40, *, wide: int = 5) -> Dataset:
    """Regression of two values on five numbers, or more."""
    rng = np.random.default_rng(6)
    x = rng.standard_normal((train + test, wide)).astype(np.float32)
    y = (x @ rng.standard_normal((wide, 2)) + 0.05 * rng.standard_normal((train + test, 2))).astype(np.float32)
    return Dataset(Split(x[:train], y[:train]), Split(x[train:], y[train:]), None)


class Net(nn.Module):
    """Convolution with batch statistics, then a head with dropout: `features` can be frozen and computed apart."""

    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten())
        self.head = nn.Sequential(nn.Linear(64, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(0.3), nn.Linear(8, 3))

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.head(self.features(x))
        return out


def net() -> Net:
    torch.manual_seed(11)
    model = Net()
    with torch.no_grad():  # statistics that a wrong mode would be seen to change
        model.features(torch.rand(50, 1, 6, 6))
    return model


def line(wide: int = 5) -> nn.Module:
    torch.manual_seed(12)
    return nn.Sequential(nn.Linear(wide, 6), nn.Tanh(), nn.Linear(6, 2))


def job(
    folder: Path, *, model: nn.Module | None = None, data: Dataset | None = None, frozen: list[str] | None = None, **options: Any
) -> Job:
    model = model or net()
    own = {name: options.pop(name) for name in ("augment", "tensorboard", "clock", "fit", "test") if name in options}
    recipe = Recipe(**{"epochs": 3, "batch": 16, "lr": 0.01, **options})
    return Job(
        name="layer",
        model=model,
        data=data or images(),
        recipe=recipe,
        frozen=freeze(model, frozen) if frozen else None,
        folder=folder,
        **{"tensorboard": False, **own},
    )


def kept(folder: Path, **options: Any) -> Job:
    """`features` frozen and computed once; training runs through the head alone."""
    made = job(folder, frozen=["features"], **options)
    model, data = made.model, made.data

    def rows(x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        with torch.no_grad():
            found: np.ndarray[Any, Any] = model.features(torch.from_numpy(x.astype(np.float32) / np.float32(255))).numpy()
        found.flags.writeable = False  # as a memory map is
        return found

    made.fit = Route(model.head, [rows(data.train.x)])
    made.test = Route(model.head, [rows(data.test.x)])
    return made


VARIANTS: dict[str, Callable[[Path], Job]] = {
    "adam, cosine, warm-up, clip": lambda f: job(f, optimizer="adam", schedule="cosine", warmup=4, clip=1.0),
    "sgd with nesterov, step": lambda f: job(f, optimizer="sgd", lr=0.05, momentum=0.9, nesterov=True, schedule="step", weight_decay=1e-3),
    "isgd": lambda f: job(f, optimizer="isgd", lr=0.1, momentum=0.9, deviations=0.5, clip=1.0),
    "adagrad, one-cycle, smoothing": lambda f: job(f, optimizer="adagrad", lr=0.05, schedule="one-cycle", label_smoothing=0.1),
    "frozen features, adamw": lambda f: job(f, optimizer="adamw", frozen=["features"], warmup=0.2),
    "kept features, adam": lambda f: kept(f, optimizer="adam", schedule="cosine"),
    "regression, huber, float64": lambda f: job(f, model=line(), data=numbers(), loss="huber", dtype="float64"),
    "rows of 52 bytes": lambda f: job(f, model=line(13), data=numbers(wide=13), batch=10),  # which begin on no cache line
    "augmented": lambda f: job(f, augment=AugmentSpec(flip="horizontal", shift=1, noise=0.05, crop=0.8, rotate=10, cutout=2)),
    "change": lambda f: job(f, epochs=12, lr=0.02, target=Target(change=0.05)),  # stops before its last epoch
    "patience": lambda f: job(f, epochs=12, batch=32, lr=0.3, patience=2),  # stops before its last epoch
}


def stop_at(made: Job, *steps: int, how: str = "crash") -> None:
    """Break the run off in the forward pass of these steps (counted from the start of this process)."""
    seen = -1

    def hook(module: nn.Module, _: Any) -> None:
        nonlocal seen
        if module.training:
            seen += 1
            if seen in steps:
                if how == "crash":
                    raise Crash
                signal.raise_signal(signal.SIGINT)

    made.fit_route.module.register_forward_pre_hook(hook)


class Crash(BaseException):
    """Ends a run as a kill would: nothing catches it."""


def tensors(made: Job) -> dict[str, Tensor]:
    return {name: tensor.clone() for name, tensor in made.model.state_dict().items()}


def same_bits(a: dict[str, Tensor], b: dict[str, Tensor]) -> bool:
    return a.keys() == b.keys() and all(a[name].dtype == b[name].dtype and torch.equal(a[name], b[name]) for name in a)


def events(folder: Path, kind: str) -> list[dict[str, Any]]:
    return [event for event in read(folder / "events.jsonl") if event["event"] == kind]


def losses(folder: Path) -> list[tuple[int, int, float, float]]:
    return [(e["step"], e["epoch"], e["loss"], e["lr"]) for e in events(folder, "step")]


def figures(folder: Path) -> list[tuple[int, dict[str, float], dict[str, float]]]:
    return [(e["epoch"], e["train"], e["test"]) for e in events(folder, "epoch")]

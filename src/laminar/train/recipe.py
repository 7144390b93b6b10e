"""Recipe: how a layer is trained, as written under `train` in laminar.toml.

    train = { epochs = 5, batch = 64, optimizer = "adam", lr = 0.001, schedule = "cosine", warmup = 100, seed = 0 }

A field left out has the default of its optimizer or task; `key_fields` fills those in, so that writing a default changes no key.
No torch here: a recipe can be read, checked and priced without it.
"""

from __future__ import annotations

import math
from typing import Any, Final, Literal

import msgspec

from laminar.train.schedules import Constant, Cosine, OneCycle, Schedule, Step

Optimizer = Literal["sgd", "adam", "adamw", "adagrad"]
Loss = Literal["cross-entropy", "mse", "l1", "huber"]
Dtype = Literal["float32", "float64", "bfloat16", "float16"]

LR: Final[dict[Optimizer, float]] = {"sgd": 0.01, "adam": 0.001, "adamw": 0.001, "adagrad": 0.01}
WEIGHT_DECAY: Final[dict[Optimizer, float]] = {"sgd": 0.0, "adam": 0.0, "adamw": 0.01, "adagrad": 0.0}
EPS: Final[dict[Optimizer, float]] = {"adam": 1e-8, "adamw": 1e-8, "adagrad": 1e-10}
BETAS: Final = (0.9, 0.999)
HUBER_DELTA: Final = 1.0

_PLAIN: Final[dict[str, Schedule]] = {"constant": Constant(), "cosine": Cosine(), "one-cycle": OneCycle()}

# What only some optimizers know: a field written for another one is a misunderstanding worth an error.
_ONLY: Final[dict[str, tuple[Optimizer, ...]]] = {
    "momentum": ("sgd",),
    "nesterov": ("sgd",),
    "betas": ("adam", "adamw"),
    "eps": ("adam", "adamw", "adagrad"),
}


class Target(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Stop at the end of the epoch in which the test split reaches every figure given here."""

    accuracy: float | None = None
    loss: float | None = None
    mae: float | None = None
    r2: float | None = None

    def __post_init__(self) -> None:
        if not self.figures():
            raise ValueError("target is empty, but must name a figure such as { accuracy = 0.95 } or { loss = 0.1 }")
        if self.accuracy is not None and not 0 < self.accuracy <= 1:
            raise ValueError(f"target.accuracy is {self.accuracy}, but must be a share: above 0 and at most 1")
        for name in ("loss", "mae"):
            value = getattr(self, name)
            if value is not None and value < 0:
                raise ValueError(f"target.{name} is {value}, but must be 0 or more")

    def figures(self) -> dict[str, float]:
        return {name: float(value) for name, value in msgspec.structs.asdict(self).items() if value is not None}

    def reached(self, metrics: dict[str, float]) -> bool:
        """Losses and errors are to be at most the figure, accuracy and r2 at least."""
        return all(
            metrics[name] >= wanted if name in ("accuracy", "r2") else metrics[name] <= wanted for name, wanted in self.figures().items()
        )


class Recipe(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    epochs: int
    batch: int = 64
    optimizer: Optimizer = "adam"
    lr: float | None = None
    momentum: float | None = None
    nesterov: bool | None = None
    weight_decay: float | None = None
    betas: tuple[float, float] | None = None
    eps: float | None = None
    schedule: Literal["constant", "step", "cosine", "one-cycle"] | Constant | Step | Cosine | OneCycle = "constant"
    warmup: int | float = 0  # steps, or a share of all steps when it is written with a point
    clip: float | None = None  # largest norm of all gradients together
    loss: Loss | None = None  # None: cross-entropy for classes, mse for regression
    label_smoothing: float = 0.0
    target: Target | None = None
    patience: int | None = None  # stop after so many epochs without a lower test loss
    seed: int = 0
    dtype: Dtype = "float32"
    # These change how long training takes, or how well it survives a kill, and not what is learnt; they are in no key.
    threads: int | None = None
    checkpoint_seconds: float = 30.0
    keep_features: Literal["auto", "always", "never"] = "auto"

    def __post_init__(self) -> None:
        for name, least in (("epochs", 1), ("batch", 1), ("threads", 1), ("patience", 1)):
            value = getattr(self, name)
            if value is not None and value < least:
                raise ValueError(f"{name} is {value}, but must be {least} or more")
        for name in ("lr", "clip", "eps"):
            value = getattr(self, name)
            if value is not None and not (value > 0 and math.isfinite(value)):
                raise ValueError(f"{name} is {value}, but must be a number above 0")
        for name in ("weight_decay", "checkpoint_seconds", "warmup"):
            value = getattr(self, name)
            if value is not None and not (value >= 0 and math.isfinite(value)):
                raise ValueError(f"{name} is {value}, but must be a number of 0 or more")
        for name, owners in _ONLY.items():
            if getattr(self, name) is not None and self.optimizer not in owners:
                known = " and ".join(f'"{owner}"' for owner in owners)
                raise ValueError(f'{name} is given with optimizer = "{self.optimizer}", but it belongs to {known}; leave it out')
        if self.momentum is not None and not 0 <= self.momentum < 1:
            raise ValueError(f"momentum is {self.momentum}, but must be 0 or more and below 1")
        if self.nesterov and not self.momentum:
            raise ValueError("nesterov = true needs momentum above 0, for example momentum = 0.9")
        if self.betas is not None and not all(0 <= beta < 1 for beta in self.betas):
            raise ValueError(f"betas is {list(self.betas)}, but both must be 0 or more and below 1")
        if isinstance(self.warmup, float) and self.warmup >= 1:
            raise ValueError(f"warmup is {self.warmup}, but a share of all steps must be below 1; steps are written without a point")
        if self.warmup and isinstance(self.plan, OneCycle):
            raise ValueError(f'warmup is {self.warmup} with schedule "one-cycle", which has its own rise; set schedule.rise instead')
        if not 0 <= self.label_smoothing < 1:
            raise ValueError(f"label_smoothing is {self.label_smoothing}, but must be 0 or more and below 1")
        if self.label_smoothing and self.loss not in (None, "cross-entropy"):
            raise ValueError(f'label_smoothing is {self.label_smoothing}, but loss = "{self.loss}" has no labels to smooth')

    @property
    def plan(self) -> Schedule:
        """The schedule with its settings, also where only its name was written."""
        if isinstance(self.schedule, Schedule):
            return self.schedule
        if self.schedule == "step":
            return Step(every=max(1, self.epochs // 3))
        return _PLAIN[self.schedule]

    @property
    def rate(self) -> float:
        """The highest learning rate."""
        return float(LR[self.optimizer] if self.lr is None else self.lr)

    def settings(self) -> dict[str, Any]:
        """What the chosen optimizer is made with, besides the learning rate; defaults filled in."""
        decay = WEIGHT_DECAY[self.optimizer] if self.weight_decay is None else self.weight_decay
        found: dict[str, Any] = {"weight_decay": float(decay)}
        if self.optimizer == "sgd":
            found |= {"momentum": float(self.momentum or 0.0), "nesterov": bool(self.nesterov)}
        else:
            found["eps"] = float(EPS[self.optimizer] if self.eps is None else self.eps)
        if self.optimizer in ("adam", "adamw"):
            found["betas"] = tuple(float(beta) for beta in self.betas or BETAS)
        return found

    def key_fields(self) -> dict[str, Any]:
        """What determines the result, and nothing else: defaults filled in, numbers in one form. Part of a layer's key."""
        plan = {name: float(value) if name != "every" else value for name, value in msgspec.structs.asdict(self.plan).items()}
        settings = self.settings()
        if "betas" in settings:
            settings["betas"] = list(settings["betas"])
        return {
            "epochs": self.epochs,
            "batch": self.batch,
            "optimizer": {"kind": self.optimizer, "lr": self.rate, **settings},
            "schedule": {"kind": self.plan.__struct_config__.tag, **plan},
            "warmup": self.warmup if self.warmup else 0,
            "clip": None if self.clip is None else float(self.clip),
            # each of these two is legal for one task only, and the default there
            "loss": None if self.loss in ("cross-entropy", "mse") else self.loss,
            "label_smoothing": float(self.label_smoothing),
            "target": None if self.target is None else self.target.figures(),
            "patience": self.patience,
            "seed": self.seed,
            "dtype": self.dtype,
        }

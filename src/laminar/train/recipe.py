"""Recipe: how a layer is trained, as written under `train` in laminar.toml.

    train = { epochs = 5, batch = 64, optimizer = "adam", lr = 0.001, schedule = "cosine", warmup = 100, seed = 0 }

A field left out has the default of its optimizer or task; `key_fields` fills those in, so that writing a default changes no key.
No torch here: a recipe can be read, checked and priced without it.
"""

from __future__ import annotations

import math
from typing import Any, Final, Literal

import msgspec

from laminar.train.compression import Dgc
from laminar.train.on_grid import Grid
from laminar.train.schedules import Constant, Cosine, OneCycle, Schedule, Step
from laminar.train.splitting import SplitStrategy
from laminar.train.strategies import AnyStrategy, Averaging, Downpour, ManySpec, Name, Solo, Sync
from laminar.train.strategies import strategy as strategy_of

Optimizer = Literal["sgd", "isgd", "adam", "adamw", "adagrad", "lars", "lamb"]
Loss = Literal["cross-entropy", "mse", "l1", "huber"]
Dtype = Literal["float32", "float64", "bfloat16", "float16"]

LR: Final[dict[Optimizer, float]] = {
    "sgd": 0.01,
    "isgd": 0.01,
    "adam": 0.001,
    "adamw": 0.001,
    "adagrad": 0.01,
    "lars": 1.0,
    "lamb": 0.003,
}
WEIGHT_DECAY: Final[dict[Optimizer, float]] = {"adamw": 0.01, "lars": 1e-4, "lamb": 0.01}  # 0 for the others
EPS: Final[dict[Optimizer, float]] = {"adam": 1e-8, "adamw": 1e-8, "adagrad": 1e-10, "lamb": 1e-6}
MOMENTUM: Final[dict[Optimizer, float]] = {"sgd": 0.0, "isgd": 0.0, "lars": 0.9}
BETAS: Final = (0.9, 0.999)
TRUST: Final = 0.001
DEVIATIONS, REPEATS, CAUTION = 3.0, 5, 0.1  # of isgd
HUBER_DELTA: Final = 1.0

# For a look at how long steps take: of a recipe that is only tried.
NO_CHECKPOINTS: Final[dict[str, Any]] = {"checkpoint_seconds": 1e9, "checkpoint_steps": None, "checkpoint_write_seconds": 0.0}

_PLAIN: Final[dict[str, Schedule]] = {"constant": Constant(), "cosine": Cosine(), "one-cycle": OneCycle()}

# What only some optimizers know: a field written for another one is a misunderstanding worth an error.
_ONLY: Final[dict[str, tuple[Optimizer, ...]]] = {
    "momentum": ("sgd", "isgd", "lars"),
    "nesterov": ("sgd", "isgd"),
    "betas": ("adam", "adamw", "lamb"),
    "eps": ("adam", "adamw", "adagrad", "lamb"),
    "trust": ("lars",),
    "deviations": ("isgd",),
    "repeats": ("isgd",),
    "caution": ("isgd",),
}


class Target(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Stop at the end of the epoch in which every figure given here is reached, by the test split unless another is said."""

    accuracy: float | None = None
    loss: float | None = None
    mae: float | None = None
    r2: float | None = None
    change: float | None = None  # not of the test split: of the weights, over the epoch (changes.py)

    def __post_init__(self) -> None:
        if not self.figures():
            raise ValueError("target is empty, but must name a figure such as { accuracy = 0.95 } or { loss = 0.1 }")
        if self.accuracy is not None and not 0 < self.accuracy <= 1:
            raise ValueError(f"target.accuracy is {self.accuracy}, but must be a share: above 0 and at most 1")
        for name in ("loss", "mae"):
            value = getattr(self, name)
            if value is not None and not (value >= 0 and math.isfinite(value)):
                raise ValueError(f"target.{name} is {value}, but must be a number of 0 or more")
        if self.r2 is not None and not math.isfinite(self.r2):
            raise ValueError(f"target.r2 is {self.r2}, but must be a number")
        if self.change is not None and not 0 < self.change < 1:
            raise ValueError(f"target.change is {self.change}, but must be a share of the weights' size: above 0 and below 1")

    def figures(self) -> dict[str, float]:
        return {name: float(value) for name, value in msgspec.structs.asdict(self).items() if value is not None}

    def reached(self, metrics: dict[str, float]) -> bool:
        """Losses, errors and the change are to be at most the figure, accuracy and r2 at least. What is not known is not reached."""
        return all(
            name in metrics and (metrics[name] >= wanted if name in ("accuracy", "r2") else metrics[name] <= wanted)
            for name, wanted in self.figures().items()
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
    trust: float | None = None  # lars: how far a tensor may move in a step, as a share of its norm
    deviations: float | None = None  # isgd: so many standard deviations above the mean is a batch's loss out of control
    repeats: int | None = None  # isgd: the most further steps on such a batch
    caution: float | None = None  # isgd: the weight of staying near to where the weights were
    scale_lr: Literal["none", "linear", "sqrt"] = "none"  # lr is for steps of base_batch samples, and scaled to those there are
    base_batch: int | None = None
    accumulate: int = 1  # batches whose gradients make one step
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
    checkpoint_steps: int | None = None  # and after every so many steps
    checkpoint_write_seconds: float = 0.0  # writing one takes at least so long: tries out what a slow store would cost
    keep_features: Literal["auto", "always", "never"] = "auto"
    # How many workers share the training; in the key only where what is learnt depends on it.
    strategy: Name | AnyStrategy | None = None

    def __post_init__(self) -> None:
        for name in ("epochs", "batch", "accumulate", "base_batch", "threads", "patience", "repeats", "checkpoint_steps"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ValueError(f"{name} is {value}, but must be 1 or more")
        for name in ("lr", "clip", "eps", "trust", "deviations"):
            value = getattr(self, name)
            if value is not None and not (value > 0 and math.isfinite(value)):
                raise ValueError(f"{name} is {value}, but must be a number above 0")
        for name in ("weight_decay", "checkpoint_seconds", "checkpoint_write_seconds", "warmup", "caution"):
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
        if self.scale_lr != "none" and self.base_batch is None:
            raise ValueError(f'scale_lr = "{self.scale_lr}" needs base_batch, the samples per step that lr is for')
        if self.base_batch is not None and self.scale_lr == "none":
            raise ValueError(f'base_batch is {self.base_batch}, but nothing is scaled by it; set scale_lr = "linear" or "sqrt"')
        if self.base_batch is not None and not (self.rate > 0 and math.isfinite(self.rate)):
            raise ValueError(
                f"lr is {LR[self.optimizer] if self.lr is None else self.lr} for base_batch = {self.base_batch}, which scaled to steps of "
                f"{self.step_batch} samples is {self.rate}, but must be a number above 0"
            )
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
        self._check_strategy(strategy_of(self.strategy))

    def _check_strategy(self, chosen: AnyStrategy) -> None:
        """What a strategy cannot do is said before anything is started."""
        if self.optimizer == "isgd":
            self._check_isgd(chosen)
        if isinstance(chosen, Grid):
            for name, plain in (("dtype", "float32"), ("accumulate", 1), ("patience", None)):
                if getattr(self, name) != plain:
                    raise ValueError(f'{name} is given with strategy "grid", whose nodes know nothing of it; leave {name} out')
            if self.target is not None and self.target.change is not None:
                raise ValueError('target.change is given with strategy "grid", which has rounds and no epochs; name accuracy or loss')
        if isinstance(chosen, Grid | ManySpec) and not isinstance(chosen, Sync):
            for name in ("checkpoint_steps", "checkpoint_write_seconds"):
                if getattr(self, name):
                    raise ValueError(
                        f'{name} is given with strategy "{chosen.kind}", whose server keeps what there is by itself; leave {name} out'
                    )
        if isinstance(chosen, SplitStrategy) and self.dtype != "float32":
            raise ValueError(f'dtype is "{self.dtype}" with strategy "{chosen.kind}", whose workers compute in float32; leave dtype out')
        if not isinstance(chosen, ManySpec):
            return
        if self.dtype != "float32":
            raise ValueError(f'dtype is "{self.dtype}" with strategy "{chosen.kind}", whose workers compute in float32; leave dtype out')
        if chosen.compression.needs_sgd and self.optimizer != "sgd":
            raise ValueError(
                f'compress = "{chosen.compression.kind}" is given with optimizer = "{self.optimizer}", but has the momentum of sgd in it; '
                'set optimizer = "sgd", momentum = 0.9 and a rate for it'
            )
        distances = isinstance(chosen, Averaging) or (isinstance(chosen, Downpour) and chosen.push == "steps")
        if distances and isinstance(chosen.compression, Dgc) and chosen.compression.clip is not None:
            raise ValueError(
                f'compress.clip is {chosen.compression.clip} with strategy "{chosen.kind}", whose workers send how far they went, and no '
                f"gradients; set clip = {chosen.compression.clip} in train, which clips the gradients of their own steps"
            )
        if self.accumulate > 1 and not isinstance(chosen, Sync):
            raise ValueError(
                f'accumulate is {self.accumulate} with strategy "{chosen.kind}", which has steps of its own; set batch = {self.step_batch}'
            )
        if isinstance(chosen, Averaging) and chosen.every == "end" and (self.target is not None or self.patience is not None):
            raise ValueError('target and patience need a test after each epoch, but strategy.every = "end" has one model at the end only')

    def _check_isgd(self, chosen: AnyStrategy) -> None:
        """It looks at the loss of each batch, and computes some of them again: one process does, with one batch for each step."""
        if not isinstance(chosen, Solo):
            raise ValueError(
                f'optimizer is "isgd" with strategy "{chosen.kind}", but only one process takes further steps on a batch; '
                'set optimizer = "sgd", or leave strategy out'
            )
        for name, wanted in (("accumulate", (1,)), ("dtype", ("float32", "float64"))):
            if getattr(self, name) not in wanted:
                raise ValueError(
                    f'{name} is {getattr(self, name)!r} with optimizer "isgd", but must be {" or ".join(map(repr, wanted))}; '
                    'or set optimizer = "sgd"'
                )

    @property
    def plan(self) -> Schedule:
        """The schedule with its settings, also where only its name was written."""
        if isinstance(self.schedule, Schedule):
            return self.schedule
        if self.schedule == "step":
            return Step(every=max(1, self.epochs // 3))
        return _PLAIN[self.schedule]

    @property
    def step_batch(self) -> int:
        """Samples per step."""
        return self.batch * self.accumulate

    @property
    def rate(self) -> float:
        """The highest learning rate: `lr`, scaled from `base_batch` to the samples per step.

        Linear suits sgd (Goyal et al., arXiv 1706.02677), the square root adam and its kin (Krizhevsky, arXiv 1404.5997).
        """
        lr = float(LR[self.optimizer] if self.lr is None else self.lr)
        if self.base_batch is None:
            return lr
        times = self.step_batch / self.base_batch
        return lr * (times if self.scale_lr == "linear" else math.sqrt(times))

    def settings(self) -> dict[str, Any]:
        """What the chosen optimizer is made with, besides the learning rate; defaults filled in."""
        decay = WEIGHT_DECAY.get(self.optimizer, 0.0) if self.weight_decay is None else self.weight_decay
        found: dict[str, Any] = {"weight_decay": float(decay)}
        if self.optimizer in MOMENTUM:
            found["momentum"] = float(MOMENTUM[self.optimizer] if self.momentum is None else self.momentum)
        if self.optimizer in _ONLY["nesterov"]:
            found["nesterov"] = bool(self.nesterov)
        if self.optimizer == "isgd":
            found["deviations"] = float(DEVIATIONS if self.deviations is None else self.deviations)
            found["repeats"] = REPEATS if self.repeats is None else self.repeats
            found["caution"] = float(CAUTION if self.caution is None else self.caution)
        if self.optimizer == "lars":
            found["trust"] = float(TRUST if self.trust is None else self.trust)
        if self.optimizer in EPS:
            found["eps"] = float(EPS[self.optimizer] if self.eps is None else self.eps)
        if self.optimizer in _ONLY["betas"]:
            found["betas"] = tuple(float(beta) for beta in self.betas or BETAS)
        return found

    def key_fields(self) -> dict[str, Any]:
        """What determines the result, and nothing else: defaults filled in, numbers in one form. Part of a layer's key."""
        plan = {name: float(value) if name != "every" else value for name, value in msgspec.structs.asdict(self.plan).items()}
        settings = self.settings()
        if "betas" in settings:
            settings["betas"] = list(settings["betas"])
        # How lr came about is no matter, only the rate; and what was not there before is in no key where it is at its default.
        added: dict[str, Any] = {"accumulate": self.accumulate} if self.accumulate > 1 else {}
        if (chosen := strategy_of(self.strategy).key_fields()) is not None:
            added["strategy"] = chosen
        return {
            **added,
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

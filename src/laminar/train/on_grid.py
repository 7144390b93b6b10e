"""Grid: the strategy of training on machines that nobody controls, as written under `train.strategy` in laminar.toml.

    strategy = { kind = "grid", rounds = 50, quorum = 0.8, local_steps = 20, compress = "dgc" }

Rounds: each has `workers` tasks and closes when a share of them is answered, or at its deadline. Async: every answer, or every `buffer` of
them, is a step by itself, weighed by its age (FedAsync, arXiv 1903.03934; FedBuff, arXiv 2106.06639). A task is `local_steps` steps from
the newest version on a node's own samples (FedAvg: McMahan et al., arXiv 1602.05629).
What decides about the result is in the layer's key; who is trusted and how long one waits is not.
"""

from __future__ import annotations

import math
from typing import Any, Final, Literal

import msgspec

from laminar.train.compression import AnyCompression, Kind, compression
from laminar.train.outer_steps import OuterNesterov, PlainAverage, outer_step
from laminar.train.own_daemons import Kind as Daemon
from laminar.train.own_daemons import OwnDaemon, Written, check_written, installed
from laminar.train.strategy_spec import StrategySpec, with_settings

Robust = Literal["mean", "clip", "trimmed", "median"]
KEYED: Final = (
    "workers",
    "mode",
    "rounds",
    "local_steps",
    "task_seconds",
    "quorum",
    "minimum",
    "late",
    "buffer",
    "ageing",
    "max_staleness",
    "samples",
    "robust",
)


class Grid(StrategySpec, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="grid"):
    workers: int = 4  # tasks of a round; async: tasks that are kept ready
    mode: Literal["rounds", "async"] = "rounds"
    rounds: int | None = None  # versions to make; None: as many as the recipe's epochs are
    local_steps: int = 20  # of a task
    task_seconds: float | None = None  # that a task should take: a node gets as many steps as it can do; None: so that it is in time
    quorum: float = 0.8
    deadline: float = 600.0  # seconds that a round waits at most
    minimum: int = 1  # answers that a step is made of at least
    late: Literal["drop", "age"] = "age"
    buffer: int = 1  # async: answers that make a step
    ageing: float = 0.5
    max_staleness: int | None = None
    samples: int | None = None  # different local samples, where the data has a sample; None: one a task of a round
    outer: Literal["average", "nesterov"] | PlainAverage | OuterNesterov = "average"
    compress: Kind | AnyCompression = "none"
    robust: Robust = "clip"  # how answers are put together
    replicate: Literal["adaptive", "always", "never"] = "adaptive"  # whether tasks are done twice and compared
    tolerance: float = 0.1  # the largest difference between two honest answers, as a share of the larger one
    lease: float = 3600.0  # seconds that a node has for a task, at most
    attempts: int = 6  # at a task, before it is given up
    validator: Written | None = None  # of another package; None: answers are compared, according to reputation
    assimilator: Written | None = None  # likewise; None: the mean of answers, robustly

    @property
    def compression(self) -> AnyCompression:
        return compression(self.compress)

    @property
    def outer_step(self) -> PlainAverage | OuterNesterov:
        return outer_step(self.outer)

    @property
    def own_daemons(self) -> tuple[OwnDaemon, ...]:
        """Daemons of other packages, as they are installed here; L507 where one is not."""
        written: dict[Daemon, Written | None] = {"validator": self.validator, "assimilator": self.assimilator}
        return tuple(installed(kind, one) for kind, one in written.items() if one is not None)

    def key_fields(self) -> dict[str, Any]:
        found = {name: getattr(self, name) for name in KEYED}
        found |= {one.kind: msgspec.structs.asdict(one) for one in self.own_daemons}
        return {"kind": self.kind, **found, "outer": with_settings(self.outer_step), "compress": with_settings(self.compression)}

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("rounds", "local_steps", "buffer", "minimum", "samples", "attempts"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ValueError(f"strategy.{name} is {value}, but must be 1 or more")
        for name in ("deadline", "lease"):
            value = getattr(self, name)
            if not (value > 0 and math.isfinite(value)):
                raise ValueError(f"strategy.{name} is {value}, but must be seconds above 0")
        if self.task_seconds is not None and not (self.task_seconds > 0 and math.isfinite(self.task_seconds)):
            raise ValueError(f"strategy.task_seconds is {self.task_seconds}, but must be seconds above 0")
        if not 0 < self.quorum <= 1:
            raise ValueError(f"strategy.quorum is {self.quorum}, but must be a share of the tasks: above 0 and at most 1")
        if self.minimum > self.workers:
            raise ValueError(f"strategy.minimum is {self.minimum}, but a round has {self.workers} tasks only")
        if not 0 <= self.ageing <= 8:
            raise ValueError(f"strategy.ageing is {self.ageing}, but must be from 0 to 8")
        if self.max_staleness is not None and self.max_staleness < 0:
            raise ValueError(f"strategy.max_staleness is {self.max_staleness}, but must be 0 or more versions")
        if not 0 < self.tolerance < 1:
            raise ValueError(f"strategy.tolerance is {self.tolerance}, but must be above 0 and below 1")
        if self.mode == "rounds" and self.buffer != 1:
            raise ValueError(f'strategy.buffer is {self.buffer} with mode = "rounds", which has no use for it; set mode = "async"')
        if self.validator is not None:
            check_written("validator", self.validator)
        if self.assimilator is not None:
            check_written("assimilator", self.assimilator)
        sparse = self.compression.kind in ("topk", "dgc")
        if sparse and self.robust in ("trimmed", "median"):
            raise ValueError(
                f'strategy.robust is "{self.robust}" with compress = "{self.compression.kind}", of which it would leave almost only zeros; '
                'set robust = "clip"'
            )
        if self.compression.kind == "powersgd":
            raise ValueError('strategy.compress is "powersgd", which nodes that never talk to each other cannot share; choose dgc or int8')

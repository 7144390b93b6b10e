"""Strategies: how a layer is trained by many workers, as written under `train.strategy` in laminar.toml.

    strategy = "sync"
    strategy = { kind = "downpour", workers = 6, shards = 3, compress = "fp16" }

`sync` without compression learns what one process learns, whatever the number of workers, and is in no key, unless it is told to take each
worker's rows of a batch by themselves. The others learn something else, so what decides about it is in the layer's key (`key_fields`).
Those that split the model are in splitting.py, and the desktop grid in on_grid.py.
No torch here: a strategy can be read and checked without it.
"""

from __future__ import annotations

import math
from typing import Any, Final, Literal

import msgspec

from laminar.train.compression import AnyCompression, Kind, NoCompression, compression
from laminar.train.on_grid import Grid
from laminar.train.outer_steps import OuterNesterov, PlainAverage, outer_step
from laminar.train.splitting import Branches, Mesh, Pipeline
from laminar.train.strategy_spec import StrategySpec, with_settings

Name = Literal["solo", "sync", "averaging", "downpour", "quorum", "pipeline", "branches", "grid"]  # that can be written without settings
ShareOut = Literal["equal", "measured"]  # of a batch: equal parts, or by the speed that each worker was measured at (shares.py)
AutoShareOut = Literal["auto", "equal", "measured"]  # auto: equal on one machine, measured on several


class Solo(StrategySpec, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="solo"):
    """One process."""

    workers: int = 1

    def __post_init__(self) -> None:
        if self.workers != 1:
            raise ValueError(f'strategy.workers is {self.workers}, but "solo" is one worker; choose "sync" for more')


class ManySpec(StrategySpec, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What every strategy with several processes has."""

    elastic: bool = False  # a worker that dies is started again; otherwise the run goes on with those left
    fewest: int = 1  # workers without which it does not go on
    compress: Kind | AnyCompression = "none"
    host: str = "127.0.0.1"  # where it listens, if it does
    port: int | None = None  # and on which port (servers: this and the next ones); None: any that is free
    timeout: float = 60.0  # seconds in which a process that is waited for must be heard of
    evaluator: bool = False  # a process of its own tests the epochs, while the workers train on

    @property
    def compression(self) -> AnyCompression:
        return compression(self.compress)

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 1 <= self.fewest <= self.workers:
            raise ValueError(f"strategy.fewest is {self.fewest}, but must be 1 to {self.workers}, the number of workers")
        if self.port is not None and not 1 <= self.port <= 65535:
            raise ValueError(f"strategy.port is {self.port}, but must be 1 to 65535")
        if not (self.timeout > 0 and math.isfinite(self.timeout)):
            raise ValueError(f"strategy.timeout is {self.timeout}, but must be seconds above 0")


class Sync(ManySpec, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="sync"):
    """Every worker holds the model; gradients are averaged at each step."""

    link: Literal["memory", "gloo"] = "memory"  # shared memory of one machine, or torch.distributed between machines
    shares: AutoShareOut = "auto"
    batch_norm: Literal["exact", "worker"] = "exact"  # statistics of the whole batch, or of each worker's rows
    mixed_rows: Literal["refuse", "worker"] = "refuse"  # whatever else of a model looks at several rows of a batch: by each worker's rows

    def key_fields(self) -> dict[str, Any] | None:
        """With compression also the shares: what a packet leaves out depends on the rows behind it. So do statistics of a worker's rows."""
        by_worker = {name: "worker" for name in ("batch_norm", "mixed_rows") if getattr(self, name) == "worker"}
        packed = {} if isinstance(self.compression, NoCompression) else {"compress": with_settings(self.compression)}
        if self.workers == 1 or not (by_worker or packed):
            return None
        return {"kind": self.kind, "workers": self.workers, **packed, **by_worker, **_unless_equal(self.shares)}


class Averaging(ManySpec, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="averaging"):
    """Workers train apart, each on its own batches, and are averaged every so many steps or once at the end."""

    every: int | Literal["end"] = 32  # steps of each worker
    outer: Literal["average", "nesterov"] | PlainAverage | OuterNesterov = "average"
    shares: ShareOut = "equal"  # of the batches of a round; measured, `every` is the mean over the workers

    @property
    def outer_step(self) -> PlainAverage | OuterNesterov:
        return outer_step(self.outer)

    def key_fields(self) -> dict[str, Any] | None:
        if self.workers == 1:
            return None
        small, outer = with_settings(self.compression), with_settings(self.outer_step)
        found = {"kind": self.kind, "workers": self.workers, "every": self.every, "outer": outer, "compress": small}
        return found | _unless_equal(self.shares)  # workers that make other numbers of steps apart come to another average

    def __post_init__(self) -> None:
        super().__post_init__()
        if isinstance(self.every, int) and self.every < 1:
            raise ValueError(f'strategy.every is {self.every}, but must be 1 or more steps, or "end"')
        if self.every == "end" and self.shares == "measured":
            raise ValueError('strategy.shares is "measured", but every = "end" is one round, dealt before anything can be measured')


class AgeingSpec(ManySpec, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Gradients may be older than the parameters they are applied to."""

    ageing: float = 0.5  # a gradient that is s steps old weighs 1 / (1 + s) ** ageing
    max_staleness: int | None = None  # older ones are dropped

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.ageing <= 8:
            raise ValueError(f"strategy.ageing is {self.ageing}, but must be from 0 to 8")
        if self.max_staleness is not None and self.max_staleness < 0:
            raise ValueError(f"strategy.max_staleness is {self.max_staleness}, but must be 0 or more steps")


class Downpour(AgeingSpec, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="downpour"):
    """Workers push gradients to parameter servers and fetch parameters, each at its own pace (Dean et al., NIPS 2012)."""

    shards: int = 1  # processes that the parameters are shared out to
    n_push: int = 4  # steps of a worker between pushes
    n_fetch: int = 4  # and between fetches
    push: Literal["gradients", "steps"] = "gradients"  # sums of gradients, for the servers' optimizer; or steps of the worker's own
    smooth: int = 0  # batches: the layer is the servers' parameters, averaged over about so many; 0: the last ones
    warm_start: int = 0  # steps that the first worker makes alone
    overlap: bool = True  # a worker goes on while its gradients and parameters travel

    def key_fields(self) -> dict[str, Any]:
        names = ("workers", "n_push", "n_fetch", "warm_start", "overlap", "ageing", "max_staleness")
        found = {"kind": self.kind, **{n: getattr(self, n) for n in names}, "compress": with_settings(self.compression)}
        # What there was no choice about before is not in the keys of layers from then.
        return found | ({"push": self.push} if self.push != "gradients" else {}) | ({"smooth": self.smooth} if self.smooth else {})

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("shards", "n_push", "n_fetch"):
            if getattr(self, name) < 1:
                raise ValueError(f"strategy.{name} is {getattr(self, name)}, but must be 1 or more")
        if self.warm_start < 0:
            raise ValueError(f"strategy.warm_start is {self.warm_start}, but must be 0 or more steps")
        if self.smooth < 0:
            raise ValueError(f"strategy.smooth is {self.smooth}, but must be 0 or more batches")


class Quorum(AgeingSpec, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="quorum"):
    """Rounds that close when a share of the workers has answered (backup workers: Chen et al., arXiv 1604.00981)."""

    quorum: float = 0.8
    late: Literal["drop", "age"] = "drop"  # what becomes of a gradient whose round is closed
    deadline: float = 30.0  # seconds that a round waits at most
    minimum: int = 1  # gradients that a step is made of at least
    shares: AutoShareOut = "auto"

    def key_fields(self) -> dict[str, Any] | None:
        """Without shares, as without the deadline: they say who computes which rows, and a step is the same sum over the whole batch."""
        if self.workers == 1:
            return None
        names = ("workers", "quorum", "late", "minimum", "ageing", "max_staleness")
        small = with_settings(self.compression)
        packed = {} if isinstance(self.compression, NoCompression) else _unless_equal(self.shares)
        return {"kind": self.kind, **{n: getattr(self, n) for n in names}, "compress": small, **packed}

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 < self.quorum <= 1:
            raise ValueError(f"strategy.quorum is {self.quorum}, but must be a share of the workers: above 0 and at most 1")
        if not (self.deadline > 0 and math.isfinite(self.deadline)):
            raise ValueError(f"strategy.deadline is {self.deadline}, but must be seconds above 0")
        if not 1 <= self.minimum <= self.workers:
            raise ValueError(f"strategy.minimum is {self.minimum}, but must be 1 to the number of workers, {self.workers}")


AnyStrategy = Solo | Sync | Averaging | Downpour | Quorum | Mesh | Pipeline | Branches | Grid

BY_NAME: Final[dict[str, type[AnyStrategy]]] = {
    "solo": Solo,
    "sync": Sync,
    "averaging": Averaging,
    "downpour": Downpour,
    "quorum": Quorum,
    "mesh": Mesh,
    "pipeline": Pipeline,
    "branches": Branches,
    "grid": Grid,
}


def strategy(written: Name | AnyStrategy | None) -> AnyStrategy:
    """The settings, also where only a name was written, or nothing."""
    if written is None:
        return Solo()
    if isinstance(written, str):
        found: AnyStrategy = BY_NAME[written]()
        return found
    return written


def carried_out(written: Name | AnyStrategy | None) -> AnyStrategy:
    """What trains. Of one worker the key says that it learns what one process does, and of these `sync` without compression is what does.

    An outer step or packets would move even a worker that has nobody to meet, and workers that join would be in no key.
    """
    how = strategy(written)
    if not isinstance(how, Sync | Averaging | Quorum) or how.workers > 1:
        return how
    if isinstance(how, Sync):
        plain: Sync = msgspec.structs.replace(how, compress="none")
        return plain
    return Sync(**{name: getattr(how, name) for name in ManySpec.__struct_fields__ if name != "compress"})


def for_unlike_machines(how: AnyStrategy) -> AnyStrategy:
    """The same with measured shares, where that changes no key: a layer is what its stack file says, wherever it is trained."""
    if not isinstance(how, Sync | Quorum) or how.shares != "auto":
        return how
    shared: Sync | Quorum = msgspec.structs.replace(how, shares="measured")
    return shared if shared.key_fields() == how.key_fields() else how


def _unless_equal(shares: AutoShareOut) -> dict[str, Any]:
    """For a key: equal ones are not in it, as in those of layers that were trained before there were others."""
    return {"shares": shares} if shares == "measured" else {}

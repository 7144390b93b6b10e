"""Strategies: how a layer is trained by many workers, as written under `train.strategy` in laminar.toml.

    strategy = "sync"
    strategy = { kind = "sync", workers = 4, elastic = true }

What is learnt does not depend on the number of workers, so a strategy is in no key.
No torch here: a strategy can be read and checked without it.
"""

from __future__ import annotations

from typing import Final, Literal

import msgspec

Name = Literal["solo", "sync"]


class StrategySpec(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="kind"):
    workers: int = 2

    @property
    def kind(self) -> str:
        return str(self.__struct_config__.tag)

    def __post_init__(self) -> None:
        if not 1 <= self.workers <= 4096:
            raise ValueError(f"strategy.workers is {self.workers}, but must be 1 to 4096")


class Solo(StrategySpec, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="solo"):
    """One process."""

    workers: int = 1

    def __post_init__(self) -> None:
        if self.workers != 1:
            raise ValueError(f'strategy.workers is {self.workers}, but "solo" is one worker; choose "sync" for more')


class Sync(StrategySpec, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="sync"):
    """Every worker holds the model; gradients are averaged at each step."""

    elastic: bool = False  # a worker that dies is started again; otherwise the run goes on with those left


AnyStrategy = Solo | Sync

BY_NAME: Final[dict[str, type[AnyStrategy]]] = {"solo": Solo, "sync": Sync}


def strategy(written: Name | AnyStrategy | None) -> AnyStrategy:
    """The settings, also where only a name was written, or nothing."""
    if written is None:
        return Solo()
    return written if isinstance(written, StrategySpec) else BY_NAME[written]()

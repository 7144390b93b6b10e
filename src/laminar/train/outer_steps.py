"""What may be written under `outer`: what becomes of the parameters when workers that trained apart meet. No torch here."""

from __future__ import annotations

import math
from typing import Final, Literal

import msgspec


class OuterSpec(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="kind"):
    """What is done with the average of the workers."""


class PlainAverage(OuterSpec, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="average"):
    """It is what they go on with."""


class OuterNesterov(OuterSpec, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="nesterov"):
    """A step of Nesterov's momentum towards it: DiLoCo (Douillard et al., arXiv 2311.08105). The values of OpenDiLoCo."""

    lr: float = 0.7
    momentum: float = 0.9

    def __post_init__(self) -> None:
        if not (self.lr > 0 and math.isfinite(self.lr)) or not 0 <= self.momentum < 1:
            raise ValueError(
                f"outer.lr is {self.lr} and outer.momentum {self.momentum}, but must be a number above 0, and from 0 to below 1"
            )


_BY_NAME: Final[dict[str, PlainAverage | OuterNesterov]] = {"average": PlainAverage(), "nesterov": OuterNesterov()}


def outer_step(written: Literal["average", "nesterov"] | PlainAverage | OuterNesterov) -> PlainAverage | OuterNesterov:
    """The settings, also where only a name was written."""
    return written if isinstance(written, PlainAverage | OuterNesterov) else _BY_NAME[written]

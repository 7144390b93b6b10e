"""Strategies that split the model itself: written under `train.strategy` in laminar.toml, checked here as far as they can be without it.

    strategy = { kind = "mesh", mesh = { rows = 2, cols = 2 }, split = { batch = "rows", hidden = "cols" } }

A mesh is a grid of workers with named axes; `split` says which dimension of tensors lies on which axis (Mesh-TensorFlow's layout rules,
Shazeer et al., arXiv 1811.02084). What is learned is what one process learns, so none of it is in a key. No torch here.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final, Literal

import msgspec

from laminar.core.nearest import did_you_mean

# Dimensions that stay what they are from operator to operator: split from the first to the last. The others are made anew by each
# Linear, convolution or embedding, which splits what it makes where its own input has left the axis free.
CARRIED: Final = ("batch", "height", "width", "length")
MADE: Final = ("hidden", "channels", "heads", "vocab", "classes", "features")
DIMENSIONS: Final = (*CARRIED, *MADE)

Table = Mapping[str, str]


class SplitStrategy(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="kind"):
    """What every strategy has whose workers hold parts of the model."""

    workers: int = 0  # 0: as many as the mesh has
    link: Literal["memory", "gloo"] = "memory"  # shared memory of one machine, or torch.distributed between machines
    restarts: int = 5  # times that training goes on from the checkpoint after a worker was lost
    host: str = "127.0.0.1"  # where it listens, if it does
    port: int | None = None  # and on which port; None: any that is free
    timeout: float = 60.0  # seconds in which a worker that is waited for must be heard of

    @property
    def kind(self) -> str:
        return str(self.__struct_config__.tag)

    def key_fields(self) -> None:
        """Nothing: whatever is split, the result is that of one process."""

    def __post_init__(self) -> None:
        if self.port is not None and not 1 <= self.port <= 65535:
            raise ValueError(f"strategy.port is {self.port}, but must be 1 to 65535")
        if not (self.timeout > 0 and math.isfinite(self.timeout)):
            raise ValueError(f"strategy.timeout is {self.timeout}, but must be seconds above 0")
        if self.restarts < 0:
            raise ValueError(f"strategy.restarts is {self.restarts}, but must be 0 or more")


class Mesh(SplitStrategy, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="mesh"):
    """Tensors are split over a grid of workers."""

    mesh: dict[str, int]
    split: dict[str, str] = {}
    module: dict[str, dict[str, str]] = {}  # by module path: instead of `split`, for it and all inside it

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.mesh:
            raise ValueError("strategy.mesh has no axis, but must have one or more, as in mesh = { cols = 2 }")
        for axis, size in self.mesh.items():
            if not 1 <= size <= 4096 or not axis:
                raise ValueError(f"strategy.mesh.{axis} is {size}, but must be 1 to 4096 workers")
        size = math.prod(self.mesh.values())
        if self.workers not in (0, size):
            raise ValueError(f"strategy.workers is {self.workers}, but the mesh has {' x '.join(map(str, self.mesh.values()))} = {size}")
        msgspec.structs.force_setattr(self, "workers", size)
        tables = [("split", self.split), *((f'module."{path}"', table) for path, table in self.module.items())]
        for where, table in tables:
            check_table(f"strategy.{where}", table, self.mesh)


def check_table(where: str, table: Table, mesh: Mapping[str, int]) -> None:
    """ValueError for a rule that means nothing on this mesh."""
    for name, axis in table.items():
        if name not in DIMENSIONS:
            raise ValueError(f"{where} has a dimension '{name}'; {did_you_mean(name, DIMENSIONS)}, of {', '.join(DIMENSIONS)}")
        if axis not in mesh:
            axes = ", ".join(f"{one} = {size}" for one, size in mesh.items())
            raise ValueError(f"{where}.{name} is '{axis}', which is no axis of the mesh ({axes})")

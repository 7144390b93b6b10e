"""Strategies that split the model itself: written under `train.strategy` in laminar.toml, checked here as far as they can be without it.

    strategy = { kind = "mesh", mesh = { rows = 2, cols = 2 }, split = { batch = "rows", hidden = "cols" } }
    strategy = { kind = "pipeline", stages = 4, microbatches = 16, schedule = "1f1b" }
    strategy = { kind = "branches", lanes = 2 }

A mesh is a grid of workers with named axes; `split` says which dimension of tensors lies on which axis (Mesh-TensorFlow's layout rules,
Shazeer et al., arXiv 1811.02084). What is learned is what one process learns, so none of it is in a key. No torch here.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final, Literal

import msgspec

from laminar.core.nearest import did_you_mean

# Dimensions that stay what they are from operator to operator: split from the first to the last. The others are made anew by each
# Linear, convolution or embedding, which splits what it makes where its own input has left the axis free.
CARRIED: Final = ("batch", "height", "width", "length")
MADE: Final = ("hidden", "channels", "heads", "vocab", "classes", "features")
DIMENSIONS: Final = (*CARRIED, *MADE)

LANES: Final = "lanes"  # the axis of the grid along which workers have other operators, not other parts of tensors

Schedule = Literal["gpipe", "1f1b", "interleaved", "zero-bubble"]
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

    def key_fields(self) -> dict[str, Any] | None:
        """Nothing: whatever is split, the result is that of one process."""
        return None

    def __post_init__(self) -> None:
        if self.port is not None and not 1 <= self.port <= 65535:
            raise ValueError(f"strategy.port is {self.port}, but must be 1 to 65535")
        if not (self.timeout > 0 and math.isfinite(self.timeout)):
            raise ValueError(f"strategy.timeout is {self.timeout}, but must be seconds above 0")
        if not 0 <= self.workers <= 4096:
            raise ValueError(f"strategy.workers is {self.workers}, but must be 1 to 4096, or 0 for as many as are needed")
        if self.restarts < 0:
            raise ValueError(f"strategy.restarts is {self.restarts}, but must be 0 or more")


class OnMesh(SplitStrategy, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Tensors may be split over a grid of workers; a pipeline or branches have such a grid for each of theirs."""

    mesh: dict[str, int] = {}
    split: dict[str, str] = {}
    module: dict[str, dict[str, str]] = {}  # by module path: instead of `split`, for it and all inside it

    @property
    def grid(self) -> dict[str, int]:
        """Axes and sizes of the grid of all workers."""
        return dict(self.mesh)

    @property
    def parts(self) -> int:
        """How many share the rows of a batch."""
        return self.mesh[self.split["batch"]] if "batch" in self.split else 1

    def __post_init__(self) -> None:
        super().__post_init__()
        for axis, size in self.mesh.items():
            if not 1 <= size <= 4096 or not axis:
                raise ValueError(f"strategy.mesh.{axis} is {size}, but must be 1 to 4096 workers")
            if axis == LANES:
                raise ValueError(f"strategy.mesh has an axis '{LANES}', which is the name of the one along a pipeline; choose another")
        tables = [("split", self.split), *((f'module."{path}"', table) for path, table in self.module.items())]
        for where, table in tables:
            check_table(f"strategy.{where}", table, self.mesh)

    def _count_workers(self, what: str) -> None:
        size = math.prod(self.grid.values())
        if self.workers not in (0, size):
            raise ValueError(f"strategy.workers is {self.workers}, but {what} {' x '.join(map(str, self.grid.values()))} = {size}")
        msgspec.structs.force_setattr(self, "workers", size)


class Mesh(OnMesh, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="mesh"):
    """Tensors are split over a grid of workers."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.mesh:
            raise ValueError("strategy.mesh has no axis, but must have one or more, as in mesh = { cols = 2 }")
        self._count_workers("the mesh has")


class Pipeline(OnMesh, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="pipeline"):
    """The model is cut into stages, one after the other; micro-batches of a batch go through them."""

    stages: int = 0  # 0: one more than there are cuts; or as many as workers, or 2
    cut: list[str] = []  # modules that begin a stage, in order; none: by measured cost
    microbatches: int = 0  # of a batch; 0: four for each worker along the pipeline, where it has so many rows
    schedule: Schedule = "1f1b"
    batch_norm: Literal["refuse", "each"] = "refuse"  # each: with the statistics of every micro-batch, which one process does not have

    @property
    def depth(self) -> int:
        """Stages that there are."""
        return self.stages or (len(self.cut) + 1 if self.cut else self._loops * self.lanes)

    @property
    def _loops(self) -> int:
        """Stages of each worker, where nothing is said of stages."""
        return 2 if self.schedule == "interleaved" else 1

    @property
    def lanes(self) -> int:
        """Workers along the pipeline."""
        return self.workers // math.prod(self.mesh.values())

    @property
    def grid(self) -> dict[str, int]:
        return {LANES: self.lanes, **self.mesh}

    def key_fields(self) -> dict[str, Any] | None:
        """Statistics of micro-batches are others than those of batches; nothing else is."""
        if self.batch_norm != "each":
            return None
        found = {"kind": self.kind, "microbatches": self.microbatches or 4 * self.lanes, "batch_norm": "each"}
        return found | ({"parts": self.parts} if self.parts > 1 else {})  # micro-batches of a short batch have other sizes

    def batches(self, rows: int) -> int:
        """Micro-batches of a batch of so many rows (for each who shares it)."""
        return self.microbatches or max(1, min(4 * self.lanes, rows))

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.stages and self.cut and self.stages != len(self.cut) + 1:
            raise ValueError(
                f"strategy.stages is {self.stages}, but {len(self.cut)} in strategy.cut make {len(self.cut) + 1}; leave one out"
            )
        size, looped = math.prod(self.mesh.values()), self.schedule == "interleaved"
        lanes, rest = divmod(self.workers, size)
        if rest:
            raise ValueError(f"strategy.workers is {self.workers}, but must be a multiple of {size}, the workers of the mesh of a stage")
        stages = self.stages or (len(self.cut) + 1 if self.cut else self._loops * (lanes or 2))
        if looped and not lanes and (stages < 4 or stages % 2):
            raise ValueError(f'strategy.stages is {stages}, but must be 4, 6, 8 ... with schedule = "interleaved"; or say how many workers')
        lanes = lanes or (stages // 2 if looped else stages)
        if not 1 <= stages <= 4096:
            raise ValueError(f"strategy.stages is {stages}, but must be 1 to 4096")
        if stages % lanes if looped else stages != lanes:
            expected = f"a multiple of them, as {2 * lanes}" if looped else 'as many; schedule = "interleaved" gives a worker several'
            raise ValueError(f"strategy.stages is {stages} for {lanes} workers along the pipeline, but must be {expected}")
        msgspec.structs.force_setattr(self, "workers", lanes * size)
        if self.microbatches < 0:
            raise ValueError(f"strategy.microbatches is {self.microbatches}, but must be 1 or more, or 0 for four for each worker")


class Branches(OnMesh, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="branches"):
    """Branches of the model that do not need each other are on different workers; the first one has the rest and collates them."""

    lanes: int = 0  # workers that branches are dealt to; 0: 2

    @property
    def grid(self) -> dict[str, int]:
        return {LANES: self.lanes, **self.mesh}

    def __post_init__(self) -> None:
        super().__post_init__()
        size = math.prod(self.mesh.values())
        if not 0 <= self.lanes <= 4096:
            raise ValueError(f"strategy.lanes is {self.lanes}, but must be 1 to 4096, or 0 for what the workers make")
        msgspec.structs.force_setattr(self, "lanes", self.lanes or (self.workers // size if self.workers else 2) or 1)
        self._count_workers("lanes and mesh make")


def check_table(where: str, table: Table, mesh: Mapping[str, int]) -> None:
    """ValueError for a rule that means nothing on this mesh."""
    for name, axis in table.items():
        if name not in DIMENSIONS:
            raise ValueError(f"{where} has a dimension '{name}'; {did_you_mean(name, DIMENSIONS)}, of {', '.join(DIMENSIONS)}")
        if axis not in mesh:
            axes = ", ".join(f"{one} = {size}" for one, size in mesh.items())
            raise ValueError(f"{where}.{name} is '{axis}', which is no axis of the mesh ({axes})")

"""Low rank: which tensors are taken as matrices, and the arithmetic of one power iteration with them."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from laminar.core import seeds
from laminar.parallel.compress.layout import Layout, Part
from laminar.train.compression import PowerSgd


class Matrix(NamedTuple):
    """A tensor as a matrix: its first dimension against all others."""

    part: Part
    rows: int
    columns: int
    rank: int

    def of(self, flat: Tensor) -> Tensor:
        return flat[self.part.offset : self.part.end].view(self.rows, self.columns)

    @property
    def p_numel(self) -> int:
        return self.rows * self.rank

    @property
    def q_numel(self) -> int:
        return self.columns * self.rank

    def first_q(self, seed: int) -> Tensor:
        """The same for every worker, without asking. Q is kept lying down: products with it are many times faster so."""
        generator = torch.Generator().manual_seed(seeds.derive(seed, "powersgd", self.part.name))
        return torch.randn(self.rank, self.columns, generator=generator)


def divide(layout: Layout, spec: PowerSgd) -> tuple[list[Matrix], list[Part]]:
    """What is compressed, and what is left as it is: vectors, and matrices that two thin ones would not make smaller by enough."""
    matrices: list[Matrix] = []
    rest: list[Part] = []
    for part in layout.parts:
        rows = part.shape[0] if len(part.shape) > 1 else 0
        columns = part.numel // rows if rows else 0
        rank = min(spec.rank, rows, columns)
        if rank and (rows + columns) * rank * spec.min_rate < rows * columns:
            matrices.append(Matrix(part, rows, columns, rank))
        else:
            rest.append(part)
    return matrices, rest


def orthonormal(p: Tensor) -> Tensor:
    """Columns of length 1 at right angles that span what p's columns span. Householder's method needs no care with columns that depend
    on each other: it fills in others."""
    q: Tensor = torch.linalg.qr(p)[0]
    return q

"""Unpushed: what a worker of downpour has found since its last push to a server, and what becomes of it when parameters come.

Gradients   their sum; parameters that come take the place of the worker's own
Steps       how far the worker's own optimizer went. Steps that the server has not got are made again on parameters that come
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, final

import torch
from torch import Tensor

from laminar.parallel.apart.line import Line


class Unpushed(Protocol):
    def add(self, grads: Sequence[Tensor | None]) -> None:
        """Of one more step, which has been made on the row if the worker makes steps of its own."""

    def take(self, line: Line) -> None:
        """Parameters, if they have come."""

    def give(self) -> Tensor:
        """What is to be pushed, which may be used up. It begins anew with the next `add`."""

    @property
    def idle(self) -> list[int]:
        """Tensors, by number, that have no gradient in it."""


@final
class Gradients:
    def __init__(self, row: Tensor, views: Sequence[Tensor], into: Tensor) -> None:
        """`into` has a view for each tensor of the shard."""
        self._row, self._sum, self._views = row, into, list(views)
        self._begun = False
        self._idle: set[int] = set()

    def add(self, grads: Sequence[Tensor | None]) -> None:
        given = [grad for grad in grads if grad is not None]
        views = self._views if len(given) == len(grads) else [v for v, grad in zip(self._views, grads, strict=True) if grad is not None]
        none = {i for i, grad in enumerate(grads) if grad is None} if len(given) < len(grads) else set()
        if self._begun:
            if given:
                torch._foreach_add_(views, given)
            self._idle &= none
            return
        for i in none:
            self._views[i].zero_()
        if given:
            torch._foreach_copy_(views, given)
        self._begun, self._idle = True, none

    def take(self, line: Line) -> None:
        line.take(self._row.copy_)

    def give(self) -> Tensor:
        self._begun = False
        return self._sum

    @property
    def idle(self) -> list[int]:
        return sorted(self._idle)


@final
class Steps:
    def __init__(self, row: Tensor) -> None:
        """The row of parameters, on which steps are made."""
        self._row = row
        self._start = row.clone()  # the row without the steps that were not pushed
        self._far = torch.empty_like(row)

    def add(self, grads: Sequence[Tensor | None]) -> None:
        """The row has moved already."""

    def take(self, line: Line) -> None:
        line.take(self._began_at)

    def _began_at(self, start: Tensor) -> None:
        self._row.add_(torch.sub(start, self._start, out=self._far))
        self._start.copy_(start)

    def give(self) -> Tensor:
        torch.sub(self._start, self._row, out=self._far)
        self._start.copy_(self._row)
        return self._far

    @property
    def idle(self) -> list[int]:
        return []  # their steps are none

"""Changes: how far the weights of a model went in an epoch, as a share of their size.

    change = |after - before| / max(|after|, |before|)      norms over the numbers of all trained tensors together

Training may stop where it hardly changes them any more (`target = { change = 0.001 }`). It needs the weights as they were when the epoch
began. Where nobody asked for it, it is told of models whose copy is small.

Squares are added in float64, in pieces that no two threads share: with the same weights the same number comes out, whatever the threads.
Members of a team add theirs up tensor by tensor (Team.over_tensors).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Final, final

import torch
from torch import Tensor, nn

from laminar.train.team import Team, WholeModel, sums_of_columns

# Bytes of weights, up to which the change is told although nobody asked for it. A look takes some 2.3 ns a number and 20 us a tensor: of
# perceptrons with 0.1 to 5 million numbers a quarter of one step of 64 samples, once an epoch.
UNASKED: Final = 16 << 20
PIECE: Final = 1 << 14  # numbers: a sum of so few is made by one thread


@final
class Changes:
    """`asked`: training may stop by it. Then every member keeps what it has of the weights, so that a checkpoint can have all of them."""

    def __init__(self, params: Mapping[str, nn.Parameter], team: Team | None, *, asked: bool) -> None:
        self._params, self._team, self.asked = dict(params), team, asked
        self._before: dict[str, Tensor] = {}
        self._known = False  # are they of the beginning of the epoch under way?
        parts = asked and not isinstance(team, WholeModel)  # which are put together by all members that have one
        self._kept = [name for name in self._params if self._answers_for(name) or (parts and self._holds(name))]
        self._named = list(self._params) if parts else self._kept

    def _answers_for(self, name: str) -> bool:
        return self._team is None or (self._team.holds(name) and self._team.answers_for(name))

    def _holds(self, name: str) -> bool:
        return self._team is None or self._team.holds(name)

    def bytes_of_all(self) -> float:
        """Of the weights of all members together, each once."""
        rows = [(float(self._params[name].nbytes) if self._answers_for(name) else 0.0,) for name in self._params]
        return (sums_of_columns(rows) if self._team is None else self._team.over_tensors(rows))[0]

    @torch.no_grad()
    def begin(self) -> None:
        """An epoch begins with the weights as they are."""
        for name in self._kept:
            if name in self._before:
                self._before[name].copy_(self._params[name])
            else:
                self._before[name] = self._params[name].detach().clone()
        self._known = True

    @torch.no_grad()
    def of_epoch(self) -> float | None:
        """By all members at once, at its end. None: it began in another process, and nobody has asked."""
        if not self._known:
            return None
        rows = [
            squares(self._params[name], self._before[name]) if self._answers_for(name) else (0.0, 0.0, 0.0)  # one row a tensor
            for name in self._params
        ]
        apart, after, before = sums_of_columns(rows) if self._team is None else self._team.over_tensors(rows)
        largest = max(after, before)
        change = math.sqrt(apart / largest) if largest > 0 else 0.0
        return change if math.isfinite(change) else None

    # In a checkpoint within an epoch

    def tensors(self) -> dict[str, Tensor]:
        """As they were when the epoch began; empty ones of what others have. Nothing where nobody has asked."""
        if not (self.asked and self._known):
            return {}
        return {name: self._before.get(name, torch.empty(0)) for name in self._named}

    def load(self, saved: Mapping[str, Tensor]) -> None:
        """Of a run that goes on within an epoch. A checkpoint without them was written when nobody asked."""
        if not self.asked or any(name not in saved for name in self._kept):
            return
        for name in self._kept:
            whole = saved[name]
            self._before[name] = whole if self._team is None else self._team.own(name, whole).clone()
        self._known = True


def changes_of(params: Mapping[str, nn.Parameter], team: Team | None, *, asked: bool) -> Changes | None:
    """By all members at once. None: nobody has asked, and a copy of the weights is large; that goes by those of the whole model, of which
    a member may have parts."""
    made = Changes(params, team, asked=asked)
    return made if asked or made.bytes_of_all() <= UNASKED else None


def squares(after: Tensor, before: Tensor) -> tuple[float, float, float]:
    """Sums of squares: of the difference, of `after`, of `before`."""
    apart = new = old = 0.0
    for now, then in zip(_pieces(after), _pieces(before), strict=True):
        apart += float((now - then).square_().sum())
        new += float(now.square().sum())
        old += float(then.square().sum())
    return apart, new, old


def _pieces(tensor: Tensor) -> Iterator[Tensor]:
    plain = torch.view_as_real(tensor) if tensor.is_complex() else tensor
    for piece in torch.split(plain.detach().reshape(-1), PIECE):
        yield piece.double()

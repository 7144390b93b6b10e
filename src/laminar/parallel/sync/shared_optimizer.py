"""The shared step: every worker writes its gradient; each sums one part of it over all, and makes that part's step; all go on.

    write own gradient - meet - sum own part over the ranks, in their order - update own part of the parameters - meet

There is one copy of the parameters and of the optimizer's state, so nothing is sent back, and the work of the optimizer is shared out.
With compression a worker writes what the others would read from its packet; so each packet is decoded once, not by every worker.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Final, final

import torch
from torch import Tensor, nn

from laminar.core.errors import LaminarError
from laminar.parallel.meeting import Meeting
from laminar.parallel.segment import Segment
from laminar.parallel.sync.layout import BUSY, LOSS, MISSING, NORM, SENT, SUMS, WISH, Layout, Piece
from laminar.parallel.sync.parts import Part, Range, cut_by_piece, ranges_of
from laminar.parallel.sync.small_gradients import SmallGradients, rule_behind
from laminar.parallel.sync.standing import Standing
from laminar.train.optimizers import refuse_other_state, slots_of, update_rule
from laminar.train.recipe import Recipe
from laminar.train.team import NOTHING, Step, blamed

BY_TENSOR: Final = ("lars", "lamb")


@final
class SharedOptimizer:
    def __init__(
        self,
        recipe: Recipe,
        params: Mapping[str, nn.Parameter],
        layout: Layout,
        segment: Segment,
        meeting: Meeting,
        *,
        first: bool,
        standing: Standing | None = None,
    ) -> None:
        """`first`: the parameters' values are not in the shared memory yet; member 0's go there. `standing`: says for which other members
        this one does their work; None: for none, ever."""
        self.params = dict(params)
        self._list = list(self.params.values())
        self._small = SmallGradients.wanted(recipe, self.params, meeting.size)
        recipe = rule_behind(recipe)
        self._meeting, self._clip = meeting, recipe.clip
        rank, size = meeting.rank, meeting.size
        self._row = segment.floats(layout.param_bytes, layout.numbers)
        views = [_view(self._row, piece) for piece in layout.params]
        if first and rank == 0:
            for view, parameter in zip(views, self._list, strict=True):
                view.copy_(parameter.data)
        for view, parameter in zip(views, self._list, strict=True):
            parameter.data = view
        self._slots = slots_of(recipe)
        self._state = {s: segment.floats(layout.slot_bytes(i), layout.numbers) for i, s in enumerate(layout.slots)}
        self._pieces = layout.params
        self._grads = [segment.floats(layout.grad_bytes(r), layout.numbers) for r in range(size)]
        self._views = [[_view(grads, piece) for piece in layout.params] for grads in self._grads]
        self._held = [segment.bytes(layout.held(r), len(layout.params)) for r in range(size)]
        self._sums = segment.doubles(layout.sums, SUMS * size)
        self._steps, self._left_out = 0, [0] * len(self._pieces)  # and for each parameter, in how many of them nobody had a gradient
        self._ranges = [ranges_of(layout, r, by_tensor=recipe.optimizer in BY_TENSOR) for r in range(size)]
        self._standing, self._between = standing, meeting
        self._ranks = range(rank, rank + 1)  # whose part of a step it makes; none: it rests
        self._parts = self._made()
        self._update = update_rule(recipe, self._list)
        dense = 4 * sum(p.numel() for p in self._list)
        self.dense_bytes = dense * size if self._small is not None else None

    def gradients(self) -> list[Tensor]:
        return [p.grad for p in self._list if p.grad is not None]

    @torch.no_grad()
    def step(self, lr: float, *, loss: float = 0.0, epoch: float = 0.0, wish: int = NOTHING, busy: float | None = None) -> Step:
        standing = self._standing
        if standing is not None:
            standing.begins()
        if len(self._ranks) == 1:
            self.hand_in(self._meeting.rank, loss, epoch)
        made = self._step(lr, wish, busy) if self._ranks else Step(0.0, NOTHING, 0)  # which only member 0 tells anybody of
        self._steps += 1
        if standing is not None:
            if (told := standing.ended(made.wish, self._left_out)) != made.wish:
                made = made._replace(wish=told)
            self._between = standing.between
            if standing.ranks != self._ranks:
                self._ranks = standing.ranks
                self._parts = self._made()
        return made

    @torch.no_grad()
    def hand_in(self, rank: int, loss: float, epoch: float = 0.0) -> None:
        """The gradients as they are now, as those of a member: this one, or one that it stands in for."""
        sums, own = self._sums, SUMS * rank
        grads = [p.grad for p in self._list]
        some = any(grad is None for grad in grads)  # `None in grads` would compare tensors, which takes longer than all of this
        sums[own + SENT] = self._write(rank, grads, epoch, some=some)
        sums[own + MISSING] = self._tell_missing(rank, grads) if some else 0
        sums[own + LOSS] = loss

    def _step(self, lr: float, wish: int, busy: float | None) -> Step:
        """All gradients of this member's group are handed in."""
        meeting, sums = self._between, self._sums
        own = SUMS * meeting.rank
        sums[own + WISH] = wish
        if busy is not None:
            sums[own + BUSY] = busy
        meeting.meet()
        times = () if busy is None else tuple(sums[BUSY::SUMS])
        made = Step(sum(sums[LOSS::SUMS]), int(sums[WISH]), int(sum(sums[SENT::SUMS])), times)
        absent = self._absent() if any(sums[MISSING::SUMS]) else frozenset()
        if absent and any(r.piece is None for ranges in self._ranges for r in ranges):
            self._parts = self._made(by_piece=True)
        parts = [part.without(absent) for part in self._parts]
        totals = [part.added_up() for part in parts]
        if self._clip is not None:
            self._clipped(totals, self._clip)
        for part, total in zip(parts, totals, strict=True):
            if part.params:
                part.update(self._update, lr, total)
        for i in absent:
            self._left_out[i] += 1
        meeting.meet()
        return made

    def _write(self, rank: int, grads: Sequence[Tensor | None], epoch: float, *, some: bool) -> int:
        """Where the others read it; the bytes of what compression leaves to be sent, once. `some`: not all."""
        sent = 0
        if self._small is not None:
            sent = self._compress(self._small, grads, epoch)
            torch._foreach_copy_(self._views[rank], self._small.result)
        elif some:
            for view, grad in zip(self._views[rank], grads, strict=True):
                view.zero_() if grad is None else view.copy_(grad)
        else:
            torch._foreach_copy_(self._views[rank], grads)  # type: ignore[arg-type]
        return sent

    def _compress(self, small: SmallGradients, grads: Sequence[Tensor | None], epoch: float) -> int:
        if small.by_sums:
            sent = small.exchange(grads, self._add_up)
            torch._foreach_div_(small.result, self._meeting.size)  # all have the whole mean, and it will be summed
            return sent
        packet = small.encode(grads, epoch)
        small.decode([packet])
        return packet.nbytes

    def _add_up(self, tensor: Tensor) -> None:
        """Over the team, in the order of the ranks. It has room where the gradients are."""
        flat = tensor.view(-1)
        self._grads[self._meeting.rank][: len(flat)].copy_(flat)
        self._meeting.meet()
        flat.copy_(self._grads[0][: len(flat)])
        for more in self._grads[1:]:
            flat.add_(more[: len(flat)])
        self._meeting.meet()
        self._grads[self._meeting.rank][: len(flat)].zero_()  # the gaps between tensors count as gradients, too

    def _tell_missing(self, rank: int, grads: Sequence[Tensor | None]) -> int:
        has = self._small.has(grads) if self._small is not None else [grad is not None for grad in grads]
        self._held[rank][:] = bytes(has)
        return has.count(False)

    def _absent(self) -> frozenset[int]:
        """Parameters that nobody has a gradient of: they are left alone, as one process leaves them."""
        sums, size = self._sums, self._meeting.size
        if not all(sums[MISSING::SUMS]):  # somebody has all
            return frozenset()
        return frozenset(i for i in range(len(self._pieces)) if not any(self._held[r][i] for r in range(size)))

    def _made(self, *, by_piece: bool = False) -> list[Part]:
        if by_piece or any(self._left_out):
            self._ranges = [cut_by_piece(ranges, self._pieces) for ranges in self._ranges]
        return [self._part(self._ranges[rank]) for rank in self._ranks]

    def _part(self, ranges: Sequence[Range]) -> Part:
        slots = [None if slot == "count" else self._state[slot] for slot in self._slots]
        counts = [self._steps if r.piece is None else self._steps - self._left_out[r.piece] for r in ranges]
        return Part.of(list(ranges), self._row, self._grads, slots, counts)

    def _clipped(self, totals: Sequence[list[Tensor]], clip: float) -> None:
        """The norm is that of the whole gradient, as one process would find it."""
        for rank, total in zip(self._ranks, totals, strict=True):
            self._sums[SUMS * rank + NORM] = sum(float(t.double().square().sum()) for t in total)
        self._between.meet()
        norm = math.sqrt(sum(self._sums[NORM::SUMS]))
        if not math.isfinite(norm):
            raise LaminarError("L601", f"the norm of the gradients is {norm}{blamed(self.astray())}", hint="lower lr in train")
        for total in totals:
            if norm > clip and total:
                torch._foreach_mul_(total, clip / (norm + 1e-6))

    def zero_grad(self) -> None:
        for p in self._list:
            p.grad = None

    def tensors(self) -> dict[str, Tensor]:
        """The state by slot and parameter, as one process would have it."""
        found: dict[str, Tensor] = {}
        for slot in self._slots:
            for i, (name, piece) in enumerate(zip(self.params, self._pieces, strict=True)):
                if slot == "count":
                    found[f"{slot}/{name}"] = torch.tensor(float(self._steps - self._left_out[i]))
                else:
                    found[f"{slot}/{name}"] = _view(self._state[slot], piece)
        return found

    @torch.no_grad()
    def load(self, saved: Mapping[str, Tensor]) -> None:
        own = self.tensors()
        refuse_other_state(own, saved)
        counts = [int(saved[name]) for name in own if name.startswith("count/")]
        if counts:
            self._steps = max(counts)
            self._left_out = [self._steps - count for count in counts]
            self._parts = self._made()
        if self._meeting.rank == 0:
            for name, tensor in own.items():
                if not name.startswith("count/"):
                    tensor.copy_(saved[name])
        self._meeting.meet()

    def residual(self) -> dict[str, Tensor]:
        return {} if self._small is None else self._small.residual()

    def load_residual(self, members: Sequence[Mapping[str, Tensor]]) -> None:
        if self._small is not None:
            self._small.load(members, self._meeting.rank)

    def astray(self) -> list[int]:
        # A gradient lies there until its member writes the next one, which nobody does whose loss is not finite.
        return [rank for rank, grads in enumerate(self._grads) if not bool(torch.isfinite(grads).all())]


def _view(row: Tensor, piece: Piece) -> Tensor:
    return row[piece.start : piece.stop].view(piece.shape)

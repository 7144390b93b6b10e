"""PowerSGD (Vogels et al., NeurIPS 2019, arXiv 1905.13727). For each matrix M, with the error e and Q of the step before:

    M = grad + e;  P = mean(M Q);  P = orthonormal(P);  Q = mean(M' P);  result = P Q';  e = M - result      # ' transposes

In `exchange` the means are over all workers, by two all-reduces a step. In `encode` a worker is alone: its packet has its own P and Q,
for a parameter server or rounds in which not everyone takes part. Vectors, and matrices that would not gain, go uncompressed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Mapping
from typing import Final, final

import torch
from torch import Tensor

from laminar.parallel.compress import checks
from laminar.parallel.compress.layout import Layout
from laminar.parallel.compress.low_rank import divide, orthonormal
from laminar.parallel.compress.packet import HEADER_BYTES, LARGEST, BadPacket, Coding, Form, Packet, peak, refuse_not_finite
from laminar.train.compression import PowerSgd


@final
class LowRank:
    takes_momentum: Final = False

    def __init__(self, spec: PowerSgd, layout: Layout, *, seed: int = 0) -> None:
        self.layout = layout
        self._rank = spec.rank
        self._seed = seed
        self._matrices, self._rest = divide(layout, spec)
        self._p_numel = sum(matrix.p_numel for matrix in self._matrices)
        self._q_numel = sum(matrix.q_numel for matrix in self._matrices)
        self._rest_numel = sum(part.numel for part in self._rest)
        self._state: dict[str, Tensor] = {}
        self.max_nbytes = HEADER_BYTES + 4 * (self._p_numel + self._q_numel + self._rest_numel)

    def encode(self, grad: Tensor, *, epoch_progress: float, weights: Tensor | None = None) -> Packet:  # noqa: ARG002
        both = self._room()
        for _ in self._rounds(grad, both):  # the mean of one is itself
            pass
        return Packet.write(self.layout, Form.LOW_RANK, [both.numpy()], count=self._rank)

    def decode(self, packet: Packet, out: Tensor, scale: float = 1.0) -> None:
        checks.check_flat(out, self.layout, "the tensor to decode into")
        packet.expect(self.layout, Form.LOW_RANK)
        packet.expect_values(Coding.FLOAT32)
        if packet.count != self._rank:
            raise BadPacket(f"the rank is {packet.count}, but {self._rank} was expected")
        packet.expect_bytes(self.max_nbytes - HEADER_BYTES)
        values = packet.array("<f4", 0, self._p_numel + self._rest_numel + self._q_numel)
        refuse_not_finite(values, packet.scale)
        bounds = peak(values[: self._p_numel]), peak(values[self._p_numel + self._rest_numel :])
        if not bounds[0] * bounds[1] * self._rank * packet.scale <= LARGEST:
            raise BadPacket(f"its matrices multiply to more than float32 holds: {bounds[0]:g} x {bounds[1]:g}")
        copy = torch.from_numpy(values.copy())
        alpha = scale * packet.scale
        ps, rest, qs = self._views(copy)
        for matrix, p, q in zip(self._matrices, ps, qs, strict=True):
            matrix.of(out).addmm_(p, q, alpha=alpha)
        for part, mine in zip(self._rest, rest, strict=True):
            part.of(out).add_(mine, alpha=alpha)

    def exchange(self, grad: Tensor) -> Generator[Tensor, None, None]:
        """Gives at most two tensors, one after the other, to be replaced by their mean over all workers, in place. At the end `grad` is
        the mean gradient, as far as the rank allows. Every worker must have the same seed and have seen the same steps. A generator
        that is not run to its end, because a worker was lost, leaves the state as it was."""
        both = self._room()
        yield from self._rounds(grad, both)
        ps, rest, qs = self._views(both)
        for matrix, p, q in zip(self._matrices, ps, qs, strict=True):
            torch.mm(p, q, out=matrix.of(grad))
        for part, mine in zip(self._rest, rest, strict=True):
            part.of(grad).copy_(mine)

    def _rounds(self, grad: Tensor, both: Tensor) -> Generator[Tensor, None, None]:
        """Both exchanges; residual and Q change after the last."""
        checks.check_gradient(grad, self.layout)
        state = self._made()
        error = state["error"]
        ps, rest, qs = self._views(both)
        for matrix, p in zip(self._matrices, ps, strict=True):
            torch.mm(matrix.of(grad).add_(matrix.of(error)), state[f"q/{matrix.part.name}"].T, out=p)
        for part, mine in zip(self._rest, rest, strict=True):
            mine.copy_(part.of(grad))
        yield both[: self._p_numel + self._rest_numel]
        if self._matrices:
            for matrix, p, q in zip(self._matrices, ps, qs, strict=True):
                p.copy_(orthonormal(p))
                torch.mm(p.T, matrix.of(grad), out=q)
            yield both[self._p_numel + self._rest_numel :]
        for matrix, p, q in zip(self._matrices, ps, qs, strict=True):
            state[f"q/{matrix.part.name}"].copy_(q)
            torch.addmm(matrix.of(grad), p, q, alpha=-1, out=matrix.of(error))

    def all_reduce(self, grad: Tensor, mean: Callable[[Tensor], None]) -> int:
        """`exchange` with a function that replaces a tensor by its mean over all workers; the bytes that this worker gave to it."""
        given = 0
        for tensor in self.exchange(grad):
            mean(tensor)
            given += tensor.nbytes
        return given

    def state(self) -> dict[str, Tensor]:
        return dict(self._state)

    def load(self, state: Mapping[str, Tensor]) -> None:
        if state or self._state:
            checks.load_state(self._made(), state)

    def _made(self) -> dict[str, Tensor]:
        if not self._state:
            self._state = {f"q/{matrix.part.name}": matrix.first_q(self._seed) for matrix in self._matrices}
            self._state["error"] = torch.zeros(self.layout.numel)
        return self._state

    def _room(self) -> Tensor:
        return torch.empty(self._p_numel + self._rest_numel + self._q_numel)

    def _views(self, flat: Tensor) -> tuple[list[Tensor], list[Tensor], list[Tensor]]:
        """Every P, every tensor that is left as it is, every Q: in this order in packets and exchanges."""
        shapes: list[tuple[int, ...]] = [(matrix.rows, matrix.rank) for matrix in self._matrices]
        shapes += [part.shape for part in self._rest]
        shapes += [(matrix.rank, matrix.columns) for matrix in self._matrices]
        pieces = torch.split(flat, [math.prod(shape) for shape in shapes])
        views = [piece.view(shape) for piece, shape in zip(pieces, shapes, strict=True)]
        one, other = len(self._matrices), len(self._matrices) + len(self._rest)
        return views[:one], views[one:other], views[other:]

"""Top-k: the largest values of each tensor are sent, all others wait in the residual until they are large enough.

    v = v + g;  send the largest of |v|;  v = v - sent

Aji & Heafield, EMNLP 2017 (arXiv 1704.05021); convergence: Stich et al., NeurIPS 2018 (arXiv 1809.07599). Any optimizer may follow.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, final

import torch
from torch import Tensor

from laminar.parallel.compress import checks, sparse
from laminar.parallel.compress.largest import largest
from laminar.parallel.compress.layout import Layout
from laminar.parallel.compress.packet import CODINGS, Packet
from laminar.train.compression import TopK


@final
class LargestValues:
    takes_momentum: Final = False

    def __init__(self, spec: TopK, layout: Layout) -> None:
        self.layout = layout
        self._spec = spec
        self._coding = CODINGS[spec.values]
        self._state: dict[str, Tensor] = {}
        self.max_nbytes = sparse.max_nbytes(layout, self._coding)

    def encode(self, grad: Tensor, *, epoch_progress: float, weights: Tensor | None = None) -> Packet:  # noqa: ARG002
        checks.check_gradient(grad, self.layout)
        state = self._made()
        v = state["v"].add_(grad)
        rest = v.numpy()
        at = largest(rest, self.layout, 1 - self._spec.sparsity, self._spec.sample, int(state["turn"]))
        state["turn"] += 1
        packet, sent = sparse.write(self.layout, at, rest[at], self._coding)
        rest[at] -= sent
        return packet

    def decode(self, packet: Packet, out: Tensor, scale: float = 1.0) -> None:
        packet.expect_values(self._coding)
        sparse.add(packet, self.layout, out, scale)

    def state(self) -> dict[str, Tensor]:
        return dict(self._state)

    def load(self, state: Mapping[str, Tensor]) -> None:
        if state or self._state:
            checks.load_state(self._made(), state)

    def _made(self) -> dict[str, Tensor]:
        if not self._state:
            self._state = {"v": torch.zeros(self.layout.numel), "turn": torch.zeros((), dtype=torch.int64)}
        return self._state

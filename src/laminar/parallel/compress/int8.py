"""int8: one byte a value and a float32 scale for each block, with error feedback.

Rounding is to the nearest of 255 levels, and what it loses is added to the next gradient (Seide et al., Interspeech 2014; Karimireddy
et al., arXiv 1901.09847). The other way, stochastic rounding without memory (QSGD, Alistarh et al., arXiv 1610.02132), is unbiased but
has up to twice the error in each packet, and a run could be resumed bit by bit only with its random stream. Blocks keep a large
value from flattening all others (as Dettmers et al., arXiv 2110.02861, do for optimizer states).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, final

import numpy as np
import torch
from torch import Tensor

from laminar.parallel.compress import checks
from laminar.parallel.compress.layout import Layout
from laminar.parallel.compress.packet import HEADER_BYTES, Form, Packet
from laminar.parallel.compress.values import LEVELS, read_int8
from laminar.train.compression import Int8

_TINY: Final = float(np.finfo(np.float32).tiny)
_CHUNK: Final = 1 << 16  # values: what is computed for a chunk stays in the second-level cache


@final
class BlockInt8:
    takes_momentum: Final = False

    def __init__(self, spec: Int8, layout: Layout) -> None:
        self.layout = layout
        self._block = spec.block
        self._blocks = -(-layout.numel // spec.block)
        self._rows = max(1, _CHUNK // spec.block)  # blocks of a chunk
        self._error: Tensor | None = None  # whole blocks: zeros behind the last value
        self.max_nbytes = HEADER_BYTES + self._blocks * 4 + layout.numel

    def encode(self, grad: Tensor, *, epoch_progress: float, weights: Tensor | None = None) -> Packet:  # noqa: ARG002
        checks.check_gradient(grad, self.layout)
        error = self._made()
        error[: self.layout.numel].add_(grad)
        rows = error.view(self._blocks, self._block)
        scales = torch.empty(self._blocks)
        levels = torch.empty(rows.shape, dtype=torch.int8)
        for at in range(0, self._blocks, self._rows):
            part = rows[at : at + self._rows]
            scale = part.abs().amax(dim=1).div_(LEVELS)
            scale[scale < _TINY] = 0.0  # 1/scale would be infinite; so small a block waits until it has grown
            scale = scale.unsqueeze(1)
            level = part.div(scale).round_().nan_to_num_(0.0, 0.0, 0.0)
            part.addcmul_(level, scale, value=-1)
            levels[at : at + self._rows] = level
            scales[at : at + self._rows] = scale.squeeze(1)
        body = [scales.numpy(), levels.view(-1)[: self.layout.numel].numpy()]
        return Packet.write(self.layout, Form.INT8, body, count=self._block)

    def decode(self, packet: Packet, out: Tensor, scale: float = 1.0) -> None:
        checks.check_flat(out, self.layout, "the tensor to decode into")
        scales, levels = read_int8(packet, self.layout, self._block)
        factors = torch.from_numpy(scales * np.float32(packet.scale * scale)).unsqueeze(1)
        room = np.zeros((self._rows, self._block), dtype=np.int8)
        as_torch, flat = torch.from_numpy(room), room.reshape(-1)
        for row in range(0, self._blocks, self._rows):
            part = levels[row * self._block : (row + self._rows) * self._block]
            flat[: len(part)] = part
            factor = factors[row : row + self._rows]
            added = as_torch[: len(factor)].float().mul_(factor).view(-1)[: len(part)]
            out[row * self._block : row * self._block + len(part)].add_(added)

    def state(self) -> dict[str, Tensor]:
        return {} if self._error is None else {"error": self._error[: self.layout.numel]}

    def load(self, state: Mapping[str, Tensor]) -> None:
        if state or self._error is not None:
            checks.load_state({"error": self._made()[: self.layout.numel]}, state)

    def _made(self) -> Tensor:
        if self._error is None:
            self._error = torch.zeros(self._blocks * self._block)
        return self._error

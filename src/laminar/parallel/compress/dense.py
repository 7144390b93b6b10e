"""Dense packets: every value, as float32 (none) or float16 (fp16). Nothing is kept between packets."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, final

import numpy as np
import torch
from torch import Tensor

from laminar.parallel.compress import checks, halves
from laminar.parallel.compress.layout import Layout
from laminar.parallel.compress.packet import HEADER_BYTES, Coding, Form, Packet, peak
from laminar.parallel.compress.values import read_dense

CHUNK: Final = 1 << 16  # values: a chunk and its copy stay in the second-level cache


@final
class Dense:
    takes_momentum: Final = False

    def __init__(self, layout: Layout, values: Coding) -> None:
        self.layout = layout
        self.max_nbytes = HEADER_BYTES + layout.numel * values.dtype.itemsize
        self._values = values

    def encode(self, grad: Tensor, *, epoch_progress: float, weights: Tensor | None = None) -> Packet:  # noqa: ARG002
        checks.check_gradient(grad, self.layout)
        scale = 1.0
        if self._values is Coding.FLOAT16:
            factor = halves.factor(peak(grad.numpy()))
            scale = 1 / factor
            grad = grad.mul_(factor).half()
        return Packet.write(self.layout, Form.DENSE, [grad.numpy()], count=self.layout.numel, values=self._values, scale=scale)

    def decode(self, packet: Packet, out: Tensor, scale: float = 1.0) -> None:
        checks.check_flat(out, self.layout, "the tensor to decode into")
        values = read_dense(packet, self.layout, self._values)
        if self._values is Coding.FLOAT32 and values.flags.writeable and values.dtype.isnative:  # memory that torch may look at
            out.add_(torch.from_numpy(values), alpha=scale * packet.scale)
            return
        # torch turns float16 to float32 much faster than numpy, but wants memory it could write to: hence the small copies
        copy = np.empty(min(CHUNK, len(values)), dtype=values.dtype)
        as_torch = torch.from_numpy(copy)
        for at in range(0, len(values), CHUNK):
            part = values[at : at + CHUNK]
            copy[: len(part)] = part
            out[at : at + len(part)].add_(as_torch[: len(part)].float(), alpha=scale * packet.scale)

    def state(self) -> dict[str, Tensor]:
        return {}

    def load(self, state: Mapping[str, Tensor]) -> None:
        checks.load_state({}, state)

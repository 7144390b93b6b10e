"""Compressor: the seam between strategies and the ways to make a gradient small. testing/compressor_contract.py is its contract."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from torch import Tensor

from laminar.parallel.compress.layout import Layout
from laminar.parallel.compress.packet import Packet


class Compressor(Protocol):
    """One worker's compressor, or the receiver of any number of workers.

    A packet stands for the sender's own gradient, so the mean over senders is `decode(packet, out, scale=1 / senders)` for each.
    What a packet leaves out stays in the sender's residual and goes into later packets; a receiver that never encodes has none.
    Tensors are float32 on the CPU.
    """

    @property
    def layout(self) -> Layout: ...

    @property
    def takes_momentum(self) -> bool:
        """Momentum, clipping and weight decay are inside the packets: the optimizer on the other side must be plain SGD without them."""

    @property
    def max_nbytes(self) -> int:
        """No packet is larger: the size of a slot in shared memory, and what a receiver need not read beyond."""

    def encode(self, grad: Tensor, *, epoch_progress: float, weights: Tensor | None = None) -> Packet:
        """Take in a gradient, flat and in the order of the layout, which may be overwritten.

        `epoch_progress` is the number of epochs behind, with fractions. `weights`, flat too, is needed for weight decay that the
        compressor takes care of, with zeros where nothing is to decay. L601 if the gradient is not finite; the residual is then as it was.
        """

    def decode(self, packet: Packet, out: Tensor, scale: float = 1.0) -> None:
        """Add `scale` times the packet's gradient to `out`. BadPacket, with `out` as it was, if it is not one of ours."""

    def state(self) -> dict[str, Tensor]:
        """The residual by name, for a checkpoint: the tensors themselves, not copies. Empty before the first encode."""

    def load(self, state: Mapping[str, Tensor]) -> None:
        """What `state` gave, maybe in another process. L604 if it does not fit."""

"""Sparse packets: some values and where they are. Values first, which keeps both halves of the body aligned, then positions."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, final

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from laminar.parallel.compress import checks, halves, indices
from laminar.parallel.compress.indices import Positions
from laminar.parallel.compress.layout import Layout
from laminar.parallel.compress.packet import HEADER_BYTES, Coding, Form, Packet
from laminar.parallel.compress.values import read_sparse

Values = NDArray[np.float32]


def write(layout: Layout, positions: Positions, values: Values, coding: Coding) -> tuple[Packet, Values]:
    """The packet, and the values as they will be read from it: a sender keeps the difference."""
    coded, scale = halves.encode(values) if coding is Coding.FLOAT16 else (values, 1.0)
    index, words = indices.pack(positions, layout.numel)
    packet = Packet.write(layout, Form.SPARSE, [coded, words], count=len(values), values=coding, index=index, scale=scale)
    return packet, _floats(coded, scale)


def max_nbytes(layout: Layout, coding: Coding) -> int:
    """With every value in it the packet has a bit for each position."""
    return HEADER_BYTES + layout.numel * coding.dtype.itemsize + (layout.numel + 7) // 8


def read(packet: Packet, layout: Layout) -> tuple[Positions, Values]:
    """Ascending positions and their values, all checked; BadPacket otherwise."""
    positions, coded = read_sparse(packet, layout)
    return positions, _floats(coded, packet.scale)


def add(packet: Packet, layout: Layout, out: Tensor, scale: float = 1.0) -> Positions:
    """Add to `out`; the positions that were touched."""
    checks.check_flat(out, layout, "the tensor to decode into")
    positions, values = read(packet, layout)
    out.numpy()[positions] += values * np.float32(scale)  # a position comes once, so this adds every value
    return positions


@final
class SparseSum:
    """A sum of sparse packets, as after an all-gather, and how dense it has become: with many workers it is no longer sparse."""

    def __init__(self, layout: Layout, out: Tensor) -> None:
        self._layout = layout
        self._out = out
        self._touched = np.zeros(layout.numel, dtype=np.bool_)
        self.packets = 0
        self.nbytes = 0
        self.values = 0  # in all packets together

    def add(self, packets: Packet | Iterable[Packet], scale: float = 1.0) -> None:
        """Each is added whole or, when it is bad, not at all."""
        for packet in [packets] if isinstance(packets, Packet) else packets:
            positions = add(packet, self._layout, self._out, scale)
            self._touched[positions] = True
            self.packets += 1
            self.nbytes += packet.nbytes
            self.values += len(positions)

    @property
    def touched(self) -> int:
        """Positions that at least one packet had."""
        return int(np.count_nonzero(self._touched))

    @property
    def density(self) -> float:
        return self.touched / self._layout.numel if self._layout.numel else 0.0


def _floats(coded: NDArray[Any], scale: float) -> Values:
    return halves.decode(coded, scale) if coded.dtype == np.float16 else coded * np.float32(scale)

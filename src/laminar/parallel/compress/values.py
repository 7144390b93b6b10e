"""Values: what is in a packet, as numbers, for one who only receives it. No torch.

A compressor's `decode` adds a packet to a tensor. Here are positions and values themselves, checked as strictly.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from laminar.parallel.compress import indices
from laminar.parallel.compress.indices import Positions
from laminar.parallel.compress.layout import Layout
from laminar.parallel.compress.packet import CODINGS, LARGEST, BadPacket, Coding, Form, Packet, refuse_not_finite
from laminar.train.compression import AnyCompression, Dgc, Fp16, Int8, NoCompression, TopK

Values = NDArray[np.float32]
LEVELS: Final = 127  # of int8, each way


def read_values(packet: Packet, layout: Layout, spec: AnyCompression) -> tuple[Positions | None, Values]:
    """Positions (None: all of them, in order) and values, finite; BadPacket unless it is a packet of this kind for this layout."""
    match spec:
        case NoCompression() | Fp16():
            return None, _dense(packet, layout, Coding.FLOAT16 if isinstance(spec, Fp16) else Coding.FLOAT32)
        case Int8():
            return None, _int8(packet, layout, spec.block)
        case TopK() | Dgc():
            packet.expect_values(CODINGS[spec.values])
            positions, coded = read_sparse(packet, layout)
            return positions, coded.astype(np.float32) * np.float32(packet.scale)
        case _:
            raise BadPacket(f"packets of {spec.kind} cannot be read one by one")


def read_sparse(packet: Packet, layout: Layout) -> tuple[Positions, NDArray[Any]]:
    """Ascending positions and their values as they are coded, to be multiplied by the packet's scale; BadPacket otherwise."""
    packet.expect(layout, Form.SPARSE)
    if packet.count > layout.numel:
        raise BadPacket(f"{packet.count} values for {layout.numel} positions")
    size = packet.count * packet.values.dtype.itemsize
    if packet.body.nbytes < size:
        raise BadPacket(f"the body has {packet.body.nbytes} bytes, but its {packet.count} values alone have {size}")
    coded = packet.array(packet.values.dtype, 0, packet.count)
    refuse_not_finite(coded, packet.scale)
    return indices.unpack(packet.index, packet.body[size:], packet.count, layout.numel), coded


def read_dense(packet: Packet, layout: Layout, coding: Coding) -> NDArray[Any]:
    """All values as they are coded, to be multiplied by the packet's scale."""
    packet.expect(layout, Form.DENSE)
    packet.expect_values(coding)
    packet.expect_bytes(layout.numel * coding.dtype.itemsize)
    values = packet.array(coding.dtype, 0, layout.numel)
    refuse_not_finite(values, packet.scale)
    return values


def read_int8(packet: Packet, layout: Layout, block: int) -> tuple[NDArray[np.float32], NDArray[np.int8]]:
    """The scale of each block, and all levels."""
    packet.expect(layout, Form.INT8)
    if packet.count != block:
        raise BadPacket(f"blocks of {packet.count}, but blocks of {block} were expected")
    blocks = -(-layout.numel // block)
    packet.expect_bytes(blocks * 4 + layout.numel)
    scales = packet.array("<f4", 0, blocks)
    if not np.all((scales >= 0) & (scales <= LARGEST / (LEVELS + 1))):
        raise BadPacket("a block's scale is negative, not finite or too large")
    return scales, packet.array("<i1", blocks * 4, layout.numel)


def _dense(packet: Packet, layout: Layout, coding: Coding) -> Values:
    values = read_dense(packet, layout, coding).astype(np.float32, copy=False)
    return values if packet.scale == 1.0 else values * np.float32(packet.scale)


def _int8(packet: Packet, layout: Layout, block: int) -> Values:
    scales, levels = read_int8(packet, layout, block)
    return levels.astype(np.float32) * np.repeat(scales * np.float32(packet.scale), block)[: layout.numel]

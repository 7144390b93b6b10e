"""fp16 and int8: how wrong one packet may be, and that int8 makes up for it."""

from __future__ import annotations

import struct

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from laminar.parallel.compress.layout import Layout
from laminar.parallel.compress.make import make_compressor
from laminar.parallel.compress.packet import HEADER_BYTES, BadPacket, Packet
from laminar.train.compression import Int8

FEW = settings(derandomize=True, max_examples=60, deadline=None)
numbers = st.floats(width=32, allow_nan=False, allow_infinity=False, min_value=-(2.0**100), max_value=2.0**100)


@FEW
@given(st.lists(numbers, min_size=1, max_size=600))
def test_fp16_rounds_by_little(values: list[float]) -> None:
    grad = torch.tensor(values)
    layout = Layout.of({"w": grad.shape})
    compressor = make_compressor("fp16", layout, workers=1)
    out = torch.zeros_like(grad)
    compressor.decode(compressor.encode(grad.clone(), epoch_progress=0), out)
    error = (out.double() - grad.double()).abs()
    floor = max(2.0**-39 * float(grad.abs().max()), 2.0**-149)
    assert bool((error <= (2.0**-11 * grad.double().abs()).clamp_min(floor)).all())


@pytest.mark.parametrize("size", [1e-30, 1e-8, 1.0, 1e6, 1e30])
def test_fp16_neither_overflows_nor_vanishes(size: float) -> None:
    layout = Layout.of({"w": (1000,)})
    grad = torch.randn(1000, generator=torch.Generator().manual_seed(0)) * size
    compressor = make_compressor("fp16", layout, workers=1)
    out = torch.zeros(1000)
    compressor.decode(compressor.encode(grad.clone(), epoch_progress=0), out)
    assert torch.allclose(out / size, grad / size, rtol=2**-11, atol=1e-8)


@FEW
@given(st.lists(numbers, min_size=1, max_size=600), st.sampled_from([8, 33, 256]))
def test_int8_is_within_half_a_level(values: list[float], block: int) -> None:
    grad = torch.tensor(values)
    layout = Layout.of({"w": grad.shape})
    compressor = make_compressor(Int8(block=block), layout, workers=1)
    out = torch.zeros_like(grad)
    compressor.decode(compressor.encode(grad.clone(), epoch_progress=0), out)
    for at in range(0, len(grad), block):
        mine, theirs = grad[at : at + block].double(), out[at : at + block].double()
        assert bool(((mine - theirs).abs() <= mine.abs().max() / 254 * (1 + 1e-5) + 2e-38 * 127).all())


def test_int8_sends_later_what_it_rounded_away() -> None:
    """The mean of many packets is far better than any one of them."""
    layout = Layout.of({"w": (1000,)})
    compressor = make_compressor(Int8(block=100), layout, workers=1)
    grad = torch.randn(1000, generator=torch.Generator().manual_seed(0))
    total, first = torch.zeros(1000), torch.zeros(1000)
    compressor.decode(compressor.encode(grad.clone(), epoch_progress=0), first)
    for _ in range(100):
        compressor.decode(compressor.encode(grad.clone(), epoch_progress=0), total, 0.01)
    assert float((total - grad).abs().max()) < 0.05 * float((first - grad).abs().max())


def test_int8_refuses_scales_that_make_no_sense() -> None:
    layout = Layout.of({"w": (100,)})
    compressor = make_compressor(Int8(block=64), layout, workers=1)
    sent = bytes(compressor.encode(torch.ones(100), epoch_progress=0).data)
    for scale in (-1.0, float("nan"), float("inf"), 1e38):
        damaged = sent[:HEADER_BYTES] + struct.pack("<f", scale) + sent[HEADER_BYTES + 4 :]
        with pytest.raises(BadPacket, match="scale"):
            compressor.decode(Packet.parse(damaged), torch.zeros(100))
    other = make_compressor(Int8(block=32), layout, workers=1)
    with pytest.raises(BadPacket, match="blocks of 64, but blocks of 32"):
        other.decode(Packet.parse(sent), torch.zeros(100))


def test_int8_and_fp16_are_as_small_as_they_say() -> None:
    layout = Layout.of({"w": (1000, 1000)})
    grad = torch.randn(layout.numel, generator=torch.Generator().manual_seed(0))
    sizes = {
        kind: make_compressor(kind, layout, workers=1).encode(grad.clone(), epoch_progress=0).nbytes for kind in ("none", "fp16", "int8")
    }
    assert sizes["none"] == HEADER_BYTES + 4_000_000
    assert sizes["fp16"] == HEADER_BYTES + 2_000_000
    assert sizes["int8"] == HEADER_BYTES + 1_000_000 + 4 * 3907

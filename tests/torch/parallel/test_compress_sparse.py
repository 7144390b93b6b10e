"""Sparse packets: which positions are taken, how they are written, and sums of many packets."""

from __future__ import annotations

import struct

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from laminar.parallel.compress import indices, sparse
from laminar.parallel.compress.indices import Index
from laminar.parallel.compress.largest import largest
from laminar.parallel.compress.layout import Layout
from laminar.parallel.compress.make import make_compressor
from laminar.parallel.compress.packet import BadPacket, Coding, Packet
from laminar.train.compression import TopK

FEW = settings(derandomize=True, max_examples=60, deadline=None)


@st.composite
def positions(draw: st.DrawFn) -> tuple[np.ndarray, int]:
    n = draw(st.sampled_from([1, 7, 8, 9, 300, 66_000, 200_000]))
    found = draw(st.sets(st.integers(0, n - 1), max_size=min(n, 60)))
    return np.array(sorted(found), dtype=np.int64), n


@FEW
@given(positions())
def test_positions_come_back(given_: tuple[np.ndarray, int]) -> None:
    at, n = given_
    index, words = indices.pack(at, n)
    assert np.array_equal(indices.unpack(index, words.data, len(at), n), at)


@pytest.mark.parametrize(
    ("share", "index"), [(1.0, Index.BITS), (0.2, Index.BITS), (0.05, Index.GAPS8), (0.01, Index.GAPS8), (0.001, Index.GAPS16)]
)
def test_the_shortest_coding_is_taken(share: float, index: Index) -> None:
    n = 100_000
    at = np.flatnonzero(np.random.default_rng(0).random(n) < share)
    chosen, words = indices.pack(at, n)
    assert chosen is index
    assert words.nbytes <= min((n + 7) // 8, 2 * len(at) + 2 * n // 65535)
    assert np.array_equal(indices.unpack(chosen, words.data, len(at), n), at)


@FEW
@given(st.integers(0, 255), st.binary(max_size=40), st.integers(0, 50), st.integers(1, 300))
def test_any_bytes_are_positions_or_refused(index: int, words: bytes, count: int, n: int) -> None:
    try:
        at = indices.unpack(index, memoryview(words), count, n)
    except BadPacket:
        return
    assert len(at) == count
    assert np.all(np.diff(at) > 0)
    assert not count or (at[0] >= 0 and at[-1] < n)


def test_a_gap_without_an_end_is_refused() -> None:
    for words, index in ((b"\x02\xff", Index.GAPS8), (b"\x02\x00\xff\xff", Index.GAPS16)):
        with pytest.raises(BadPacket, match="no end"):
            indices.unpack(index, memoryview(words), 1, 1000)


@FEW
@given(st.lists(st.floats(width=32, allow_nan=False, allow_infinity=False), min_size=1, max_size=50), st.sampled_from(list(Coding)))
def test_values_come_back(values: list[float], coding: Coding) -> None:
    layout = Layout.of({"w": (len(values),)})
    array = np.array(values, dtype=np.float32)
    at = np.flatnonzero(array)
    packet, sent = sparse.write(layout, at, array[at], coding)
    again, read = sparse.read(Packet.parse(bytes(packet.data)), layout)
    assert np.array_equal(again, at)
    assert np.array_equal(read, sent)
    if coding is Coding.FLOAT32:
        assert np.array_equal(read, array[at])
    else:
        most = np.abs(array).max()
        assert np.all(
            np.abs(read.astype(np.float64) - array[at]) <= np.maximum(2.0**-11 * np.abs(array[at]), max(2.0**-39 * most, 2.0**-150))
        )


@pytest.mark.parametrize("shape", [(1000, 1000), (999_983,), (64, 512, 5, 5)])
@pytest.mark.parametrize("ratio", [0.25, 0.01, 0.001])
def test_a_sampled_threshold_is_near_the_exact_one(shape: tuple[int, ...], ratio: float) -> None:
    layout = Layout.of({"small": (3,), "w": shape})
    signed = torch.randn(layout.numel, generator=torch.Generator().manual_seed(0))
    values = signed.abs()
    for turn in range(5):
        at = largest(signed.numpy(), layout, ratio, 0.01, turn)
        assert at[0] < 3  # at least one of each tensor
        inside = at[at >= 3]
        wanted = round(ratio * (layout.numel - 3))
        assert 0.8 * wanted <= len(inside) <= 1.3 * wanted
        taken = torch.zeros(layout.numel, dtype=torch.bool)
        taken[torch.from_numpy(inside)] = True
        assert float(values[taken].min()) >= float(values[3:][~taken[3:]].max())  # the largest, whatever their number


def test_a_sample_that_misleads_is_seen_through() -> None:
    """All weight in one run of values that the sample meets too often, or never."""
    layout = Layout.of({"w": (1_000_000,)})
    values = np.zeros(layout.numel, dtype=np.float32)
    values[:500_000] = 1.0  # equal: no threshold divides them
    assert 800 <= len(largest(values, layout, 0.001, 0.01, 0)) <= 1300
    values[:] = 1e-6
    values[123_456:124_456] = np.arange(1, 1001)
    at = largest(values, layout, 0.001, 0.001, 0)
    assert 800 <= len(at) <= 1300
    values[:] = 0
    values[[5, 77_777]] = 3
    assert largest(values, layout, 0.001, 0.01, 1).tolist() == [5, 77_777]
    assert len(largest(np.zeros_like(values), layout, 0.5, 0.01, 1)) == 0


def test_a_sum_of_packets_and_how_dense_it_is() -> None:
    layout = Layout.of({"w": (100, 100)})
    spec = TopK(sparsity=0.95, sample=1.0, values="float32")
    packets, expected = [], torch.zeros(layout.numel)
    for worker in range(4):
        compressor = make_compressor(spec, layout, workers=4)
        packets.append(compressor.encode(torch.randn(layout.numel, generator=torch.Generator().manual_seed(worker)), epoch_progress=0))
        compressor.decode(packets[-1], expected, 0.25)
    out = torch.zeros(layout.numel)
    total = sparse.SparseSum(layout, out)
    total.add(packets[0], 0.25)
    total.add(packets[1:], 0.25)
    assert torch.equal(out, expected)
    assert (total.packets, total.values, total.nbytes) == (4, 4 * 500, sum(packet.nbytes for packet in packets))
    assert total.touched == int((expected != 0).sum())
    assert 500 < total.touched < 2000
    assert total.density == total.touched / layout.numel


def test_a_bad_packet_is_no_part_of_a_sum() -> None:
    layout = Layout.of({"w": (100,)})
    packet, _ = sparse.write(layout, np.array([3, 50]), np.array([1, 2], dtype=np.float32), Coding.FLOAT32)
    damaged = bytearray(packet.data)
    damaged[32:36] = struct.pack("<f", float("inf"))
    total = sparse.SparseSum(layout, torch.zeros(100))
    with pytest.raises(BadPacket, match="not finite"):
        total.add(Packet.parse(damaged))
    assert (total.packets, total.touched) == (0, 0)


def test_more_values_than_positions_are_refused() -> None:
    layout = Layout.of({"w": (100,)})
    packet, _ = sparse.write(layout, np.array([3, 50]), np.array([1, 2], dtype=np.float32), Coding.FLOAT32)
    damaged = bytearray(packet.data)
    damaged[20:28] = struct.pack("<Q", 2**63)
    with pytest.raises(BadPacket, match="9223372036854775808 values for 100 positions"):
        sparse.read(Packet.parse(damaged), layout)

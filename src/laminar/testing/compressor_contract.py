"""The contract of a compressor: what any way to make gradients small must do. Inherit it, say how yours is made, run pytest.

class TestMine(CompressorContract):
    def make(self, layout): ...      # a new compressor, of one worker; without momentum, if it takes momentum
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

import pytest
import torch
from torch import Tensor

from laminar.core.errors import LaminarError
from laminar.parallel.compress.layout import Layout
from laminar.parallel.compress.packet import HEADER_BYTES, BadPacket, Packet
from laminar.parallel.compress.protocol import Compressor

EPOCH = 9.0  # after any warm-up
LAYOUT = Layout.of({"conv": (6, 3, 3, 3), "bias": (6,), "empty": (0, 4), "scale": (), "head": (30, 41), "last": (7,)})
OTHER = Layout.of({"conv": (6, 3, 3, 3), "bias": (6,), "empty": (0, 4), "scale": (), "head": (41, 30), "last": (7,)})  # as many values


def gradient(seed: int, layout: Layout = LAYOUT) -> Tensor:
    return torch.randn(layout.numel, generator=torch.Generator().manual_seed(seed))


def decoded(compressor: Compressor, packet: Packet) -> Tensor:
    out = torch.zeros(compressor.layout.numel)
    compressor.decode(packet, out)
    return out


def encoded(compressor: Compressor, seed: int) -> Packet:
    return compressor.encode(gradient(seed, compressor.layout), epoch_progress=EPOCH)


class CompressorContract:
    """Each test makes new ones."""

    def make(self, layout: Layout) -> Compressor:
        raise NotImplementedError

    def test_a_packet_is_its_bytes(self) -> None:
        compressor = self.make(LAYOUT)
        packet = encoded(compressor, 1)
        sent = bytes(packet.data)
        assert len(sent) == packet.nbytes <= compressor.max_nbytes
        assert torch.equal(decoded(self.make(LAYOUT), Packet.parse(sent)), decoded(compressor, packet))
        assert torch.equal(decoded(compressor, Packet.parse(bytearray(sent))), decoded(compressor, packet))

    def test_decoding_adds_with_a_weight(self) -> None:
        compressor = self.make(LAYOUT)
        packet = encoded(compressor, 1)
        both = torch.ones(2 * LAYOUT.numel)
        out = both[LAYOUT.numel :]  # as in shared memory: part of something larger
        compressor.decode(packet, out, scale=0.25)
        assert torch.allclose(out, 1 + 0.25 * decoded(compressor, packet), atol=1e-6)
        assert torch.equal(both[: LAYOUT.numel], torch.ones(LAYOUT.numel))

    def test_everything_arrives_in_the_end(self) -> None:
        """Error feedback: gradients of nothing bring what the first packet left out."""
        compressor = self.make(LAYOUT)
        wanted, arrived = gradient(1), torch.zeros(LAYOUT.numel)
        compressor.decode(compressor.encode(wanted.clone(), epoch_progress=EPOCH), arrived)
        for _ in range(200):
            compressor.decode(compressor.encode(torch.zeros(LAYOUT.numel), epoch_progress=EPOCH), arrived)
        assert float((arrived - wanted).norm() / wanted.norm()) < 2e-3

    def test_no_gradient_is_no_change(self) -> None:
        compressor = self.make(LAYOUT)
        packet = compressor.encode(torch.zeros(LAYOUT.numel), epoch_progress=0.0)
        assert torch.equal(decoded(compressor, packet), torch.zeros(LAYOUT.numel))

    def test_twins_agree(self) -> None:
        one, other = self.make(LAYOUT), self.make(LAYOUT)
        for seed in range(3):
            assert bytes(encoded(one, seed).data) == bytes(encoded(other, seed).data)

    def test_what_was_sent_does_not_change(self) -> None:
        compressor = self.make(LAYOUT)
        packet = encoded(compressor, 1)
        before = bytes(packet.data)
        encoded(compressor, 2)
        assert bytes(packet.data) == before

    def test_the_residual_survives(self) -> None:
        one, other = self.make(LAYOUT), self.make(LAYOUT)
        for seed in range(3):
            encoded(one, seed)
        other.load({name: tensor.clone() for name, tensor in one.state().items()})
        for seed in range(3, 6):
            assert bytes(encoded(one, seed).data) == bytes(encoded(other, seed).data)

    def test_who_only_decodes_keeps_nothing(self) -> None:
        receiver = self.make(LAYOUT)
        decoded(receiver, encoded(self.make(LAYOUT), 1))
        assert receiver.state() == {}

    def test_a_state_that_does_not_fit_is_refused(self) -> None:
        compressor = self.make(LAYOUT)
        encoded(compressor, 1)
        state = {name: tensor.clone() for name, tensor in compressor.state().items()}
        bad: list[dict[str, Tensor]] = [{**state, "nobody's": torch.zeros(1)}]
        for name, tensor in state.items():
            bad.append({n: t for n, t in state.items() if n != name})
            bad.append({**state, name: torch.zeros(LAYOUT.numel + 1)})
            if tensor.is_floating_point():
                bad.append({**state, name: torch.full_like(tensor, torch.nan)})
        for wrong in bad:
            with pytest.raises(LaminarError) as caught:
                compressor.load(wrong)
            assert caught.value.code == "L604"
        now = compressor.state()
        assert now.keys() == state.keys()
        assert all(torch.equal(now[name], state[name]) for name in state)

    @pytest.mark.parametrize("value", [torch.nan, torch.inf, -torch.inf])
    def test_a_gradient_that_is_not_finite_is_refused_by_name(self, value: float) -> None:
        compressor, twin = self.make(LAYOUT), self.make(LAYOUT)
        encoded(compressor, 1), encoded(twin, 1)
        bad = gradient(2)
        bad[-1] = value
        with pytest.raises(LaminarError, match="'last'") as caught:
            compressor.encode(bad, epoch_progress=EPOCH)
        assert caught.value.code == "L601"
        assert bytes(encoded(compressor, 3).data) == bytes(encoded(twin, 3).data)

    def test_a_tensor_of_another_kind_is_refused(self) -> None:
        compressor = self.make(LAYOUT)
        for wrong in (torch.zeros(LAYOUT.numel + 1), torch.zeros(LAYOUT.numel, dtype=torch.float64), torch.zeros(2 * LAYOUT.numel)[::2]):
            with pytest.raises(ValueError, match="must be contiguous float32"):
                compressor.encode(wrong, epoch_progress=EPOCH)
            with pytest.raises(ValueError, match="must be contiguous float32"):
                compressor.decode(encoded(self.make(LAYOUT), 1), wrong)

    def test_a_packet_for_another_model_is_refused(self) -> None:
        self.refused(self.make(LAYOUT), bytes(encoded(self.make(OTHER), 1).data))

    def test_a_packet_cut_or_lengthened_is_refused(self) -> None:
        compressor = self.make(LAYOUT)
        sent = bytes(encoded(compressor, 1).data)
        for length in {*range(0, len(sent), max(1, len(sent) // 97)), HEADER_BYTES - 1, HEADER_BYTES, len(sent) - 1}:
            self.refused(compressor, sent[:length])
        for more in (1, 2, 4, 1000):
            self.refused(compressor, sent + bytes(more))

    def test_values_that_are_not_finite_are_refused(self) -> None:
        compressor = self.make(LAYOUT)
        sent = bytes(encoded(compressor, 1).data)
        self.refused(compressor, sent[:HEADER_BYTES] + b"\xff" * (len(sent) - HEADER_BYTES))
        for scale in (float("nan"), float("inf"), -1.0, 0.0):
            self.refused(compressor, sent[: HEADER_BYTES - 4] + struct.pack("<f", scale) + sent[HEADER_BYTES:])

    def test_damage_is_refused_or_harmless(self) -> None:
        """No flipped byte leads to anything but BadPacket, or finite numbers within the gradient."""
        compressor = self.make(LAYOUT)
        sent = bytes(encoded(compressor, 1).data)
        for damaged in flipped(sent):
            out = torch.zeros(LAYOUT.numel)
            try:
                compressor.decode(Packet.parse(damaged), out)
            except BadPacket:
                assert not out.any()
            else:
                assert bool(torch.isfinite(out).all())

    def refused(self, compressor: Compressor, sent: bytes) -> None:
        out = torch.ones(LAYOUT.numel)
        with pytest.raises(BadPacket):
            compressor.decode(Packet.parse(sent), out)
        assert torch.equal(out, torch.ones(LAYOUT.numel))


def flipped(sent: bytes) -> Iterator[bytes]:
    places = {*range(HEADER_BYTES), *range(HEADER_BYTES, len(sent), max(1, len(sent) // 89)), len(sent) - 1}
    for place in sorted(places):
        for flip in (0x01, 0x80, 0xFF):
            damaged = bytearray(sent)
            damaged[place] ^= flip
            yield bytes(damaged)

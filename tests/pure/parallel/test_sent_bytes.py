"""Bytes of sync over torch.distributed, by arithmetic; tests/torch/parallel/test_sync_bytes.py counts them at the sockets."""

from __future__ import annotations

import pytest

from laminar.parallel.sync.sent_bytes import of_gather, of_step, of_sum

SIZES = [4_000, 400_000, 4_000_000, 12_000_000]


def test_nobody_sends_anything_alone_and_nothing_is_not_sent() -> None:
    assert of_sum(1000, 1) == of_gather(1000, 1) == of_step(1, told=10, sums=[1000], packet=1000) == 0
    assert of_sum(0, 4) == of_gather(0, 4) == of_step(4) == 0


@pytest.mark.parametrize("members", [2, 3, 4])
@pytest.mark.parametrize("size", SIZES[1:])
def test_of_large_tensors_only_their_own_bytes_matter(size: int, members: int) -> None:
    """A sum goes around the ring twice but for one part of N, a packet to each of the others."""
    assert of_sum(size, members) == pytest.approx(2 * (members - 1) * size, rel=0.005)
    assert of_gather(size, members) == pytest.approx(members * (members - 1) * size, rel=0.005)


@pytest.mark.parametrize(
    ("members", "sums", "packets"),
    [
        (2, [9_152, 801_152, 8_001_152, 24_003_456], [8_576, 800_576, 8_000_576, 24_000_576]),
        (3, [19_456, 1_603_456, 16_003_456, 48_006_912], [25_728, 2_401_728, 24_001_728, 72_001_728]),
        (4, [30_912, 2_406_912, 24_006_912, 72_010_368], [51_456, 4_803_456, 48_003_456, 144_003_456]),
    ],
)
def test_as_counted_at_the_sockets_of_gloo(members: int, sums: list[int], packets: list[int]) -> None:
    assert [of_sum(size, members) for size in SIZES] == sums
    assert [of_gather(size, members) for size in SIZES] == packets


def test_of_few_numbers_frames_are_most() -> None:
    """Parts of a ring that are empty are not sent: 80 bytes of doubles are ten, in five parts of two for three members."""
    assert [of_sum(4, members) for members in (2, 3, 4)] == [296, 592, 888]
    assert [of_sum(80, members, item=8) for members in (2, 3, 4)] == [1_312, 3_200, 4_800]
    assert of_gather(1, 3) == 1_734


def test_a_step_is_all_that_is_sent_for_it() -> None:
    assert of_step(3, told=10, sums=[400, 4_000], packet=1000) == of_sum(400, 3) + of_sum(4_000, 3) + of_sum(80, 3, item=8) + of_gather(
        1000, 3
    )

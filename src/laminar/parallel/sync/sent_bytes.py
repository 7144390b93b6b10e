"""Bytes that all members together send in a step over torch.distributed: counted by whoever sends and by a planner. No torch here.

A sum goes around a ring twice (Patarasuk and Yuan 2009), as N parts of the tensor: first each is added up on its way through all, then
each sum goes to all. So each of N members sends 2 (N-1)/N of the tensor, and all of them 2 (N-1) times it. A gathering goes around once:
the part of each to all others, N (N-1) times one, as all are made as long as the longest.

Gloo cuts these into segments of at most 1 MiB, at least two for each member, and each segment has a frame on its way. For large tensors
these are nothing, for what a step tells beside gradients they are most of it. Headers of TCP/IP are not counted: they go by the network.
NCCL goes by the same ways, with other frames.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

FLOAT: Final = 4
DOUBLE: Final = 8
LONGEST: Final = 1 << 20  # bytes of a segment of a sum
SEGMENTS: Final = 2  # for each member, at least; the next is on its way while one is added
HEAD: Final = 2  # numbers before a row of statistics
FRAME: Final = 3 * 48  # of a segment: its header, and from each side a word that it is ready


def of_sum(size: int, members: int, *, item: int = FLOAT) -> int:
    """Of a tensor of `size` bytes whose numbers have `item` bytes: no segment begins within one, and empty ones are not sent."""
    if members < 2 or not size:
        return 0
    wanted = max(_over(size, LONGEST // item * item), SEGMENTS * members)
    segment = _over(_over(size, _over(wanted, members) * members), item) * item
    return 2 * (members - 1) * (size + FRAME * _over(size, segment))


def of_gather(size: int, members: int) -> int:
    """Of `size` bytes from each."""
    return members * (members - 1) * (size + FRAME * SEGMENTS) if size else 0


def of_rows(numbers: int, members: int) -> int:
    """Of a row of so many numbers in float64 from each to each of the others, with the head before it (statistics_room.py)."""
    return members * (members - 1) * (DOUBLE * HEAD + FRAME + (DOUBLE * numbers + FRAME if numbers else 0))


def of_step(members: int, *, told: int = 0, sums: Sequence[int] = (), packet: int = 0) -> int:
    """`told`: numbers that are summed up beside gradients. `sums`: bytes of what is summed of these, tensor by tensor. `packet`: bytes of
    the longest, where packets are gathered."""
    return of_sum(DOUBLE * told, members, item=DOUBLE) + sum(of_sum(size, members) for size in sums) + of_gather(packet, members)


def _over(number: int, by: int) -> int:
    return -(-number // by)

"""Cut: which tensors lie on which shard. Whole tensors, so that a shard can compress and update each by its own shape."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod


def cut(shapes: Mapping[str, tuple[int, ...]], shards: int) -> list[list[str]]:
    """Names for each shard, as evenly as whole tensors allow; the order of the model within each. At most one shard for each tensor."""
    shards = min(shards, len(shapes))
    load = [0] * shards
    place: dict[str, int] = {}
    for name in sorted(shapes, key=lambda name: (-prod(shapes[name]), name)):
        least = load.index(min(load))
        load[least] += max(1, prod(shapes[name]))  # an empty tensor takes a place too: no shard is left without one
        place[name] = least
    return [[name for name in shapes if place[name] == shard] for shard in range(shards)]

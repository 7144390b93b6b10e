"""Lines of a mesh and posts between stages, laid by the chief and taken up by each worker.

In shared memory on one machine, over torch.distributed on several.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, Final, Protocol, final

from laminar.parallel.crew import OWN_ADDRESS, Staff
from laminar.parallel.segment import Segment
from laminar.parallel.split.gloo_line import GlooLine
from laminar.parallel.split.grid import Grid
from laminar.parallel.split.line import Alone, Line
from laminar.parallel.split.shared_line import HALF, SharedLine, line_bytes
from laminar.parallel.stages.gloo_post import GlooPost
from laminar.parallel.stages.post import Post, PostSpec
from laminar.parallel.stages.shared_post import SharedPost, post_bytes
from laminar.parallel.sync.links import GlooLink, Link
from laminar.parallel.sync.process_group import BEGIN, Group
from laminar.train.splitting import SplitStrategy

SMALL: Final = 1 << 16  # bytes of half a box on the line of all: facts and checkpoints go there, in pieces


def lay(grid: Grid, how: SplitStrategy, staff: Staff | None, posts: Sequence[PostSpec] = ()) -> Link:
    if how.link == "memory" and (staff is None or staff.one_machine):
        return SharedLink(grid, posts, inherited=staff is None)
    return GlooLink(how.host, how.port, bind=how.host) if staff is None else GlooLink(staff.host, how.port, bind=None)


class Joined(Protocol):
    """What a worker has of what the chief laid."""

    lines: dict[str, Line]  # by axis

    def post(self, number: int) -> Post:
        """One of the posts, at one of whose ends this worker is."""


def join(told: dict[str, Any], grid: Grid, rank: int, timeout: float, posts: Sequence[PostSpec] = ()) -> Joined:
    """In a worker; all are there."""
    return (_InMemory if "segment" in told else _OverGloo)(told, grid, rank, timeout, posts)


@final
class _InMemory:
    def __init__(self, told: dict[str, Any], grid: Grid, rank: int, timeout: float, posts: Sequence[PostSpec]) -> None:
        self._segment = Segment.told(told)
        self._timeout, self._posts = timeout, posts
        places, self._post_places, _ = _places(grid, posts)
        self.lines: dict[str, Line] = {axis: Alone() for axis in grid.mesh}
        for number, group in grid.own(rank):
            if len(group.ranks) > 1:
                own, size = group.ranks.index(rank), len(group.ranks)
                line = SharedLine(self._segment, places[number], own, size, half=_half(number), timeout=BEGIN)
                line.meeting.meet()  # some open their job sooner than others
                line.meeting.timeout = timeout
                self.lines[group.axis] = line

    def post(self, number: int) -> Post:
        spec = self._posts[number]
        return SharedPost(self._segment, self._post_places[number], spec.room, spec.rooms, timeout=self._timeout)


@final
class _OverGloo:
    def __init__(self, told: dict[str, Any], grid: Grid, rank: int, timeout: float, posts: Sequence[PostSpec]) -> None:
        self._rank, self._posts = rank, posts

        def group(own: int, size: int, name: str) -> Group:
            bind = told["bind"] or os.environ.get(OWN_ADDRESS)
            return Group(told["host"], told["port"], own, size, bind=bind, timeout=timeout, name=name)

        self.lines: dict[str, Line] = {axis: Alone() for axis in grid.mesh}
        for number, some in grid.own(rank):
            if len(some.ranks) > 1:
                self.lines[some.axis] = GlooLine(group(some.ranks.index(rank), len(some.ranks), f"line {number}"))
        self._group = group(rank, grid.size, "posts") if posts else None

    def post(self, number: int) -> Post:
        spec = self._posts[number]
        assert self._group is not None
        return GlooPost(self._group, spec.taker if spec.source == self._rank else spec.source, number, spec.rooms)


def _half(number: int) -> int:
    return SMALL if number == 0 else HALF


def _places(grid: Grid, posts: Sequence[PostSpec]) -> tuple[list[int], list[int], int]:
    """Where each line and each post begins in the segment, and its size."""
    lines, boxes, end = [], [], 0
    for number, group in enumerate(grid.groups()):
        lines.append(end)
        end += line_bytes(len(group.ranks), _half(number))
    for post in posts:
        boxes.append(end)
        end += post_bytes(post.room, post.rooms)
    return lines, boxes, end


@final
class SharedLink:
    def __init__(self, grid: Grid, posts: Sequence[PostSpec], *, inherited: bool) -> None:
        """`inherited`: workers are children of this process. Others of this machine look into its open files."""
        lines, boxes, size = _places(grid, posts)
        self._segment = Segment.create(size)
        self._words = [self._segment.words(place, 1) for place in [*lines, *boxes]]
        self.told: dict[str, Any] = {"segment": self._segment.fd, "bytes": self._segment.size, "of": None if inherited else os.getpid()}
        self.files = [self._segment.fd]

    def call_off(self) -> None:
        for words in self._words:
            words[0] = 1

    def close(self) -> None:
        for words in self._words:
            words.release()
        self._segment.close()

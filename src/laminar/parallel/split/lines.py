"""Lines of a mesh, laid by the chief and taken up by each worker: in shared memory on one machine, over torch.distributed on several."""

from __future__ import annotations

import os
from typing import Any, Final, final

from laminar.parallel.crew import OWN_ADDRESS, Staff
from laminar.parallel.segment import Segment
from laminar.parallel.split.gloo_line import GlooLine
from laminar.parallel.split.grid import Grid
from laminar.parallel.split.line import Alone, Line
from laminar.parallel.split.shared_line import HALF, SharedLine, line_bytes
from laminar.parallel.sync.links import GlooLink, Link
from laminar.parallel.sync.process_group import BEGIN, Group
from laminar.train.splitting import SplitStrategy

SMALL: Final = 1 << 16  # bytes of half a box on the line of all: facts and checkpoints go there, in pieces


def lay(grid: Grid, how: SplitStrategy, staff: Staff | None) -> Link:
    if how.link == "memory" and (staff is None or staff.one_machine):
        return SharedLink(grid, inherited=staff is None)
    return GlooLink(how.host, how.port, bind=how.host) if staff is None else GlooLink(staff.host, how.port, bind=None)


def join(told: dict[str, Any], grid: Grid, rank: int, timeout: float) -> dict[str, Line]:
    """In a worker: its lines, by axis; all are there."""
    found: dict[str, Line] = {axis: Alone() for axis in grid.mesh}
    if "segment" in told:
        fd = told["segment"] if told["of"] is None else os.open(f"/proc/{told['of']}/fd/{told['segment']}", os.O_RDWR)
        segment = Segment(fd, told["bytes"])
        places, _ = _places(grid)
        for number, group in grid.own(rank):
            if len(group.ranks) > 1:
                line = SharedLine(segment, places[number], group.ranks.index(rank), len(group.ranks), half=_half(number), timeout=BEGIN)
                line.meeting.meet()  # some open their job sooner than others
                line.meeting.timeout = timeout
                found[group.axis] = line
        return found
    bind = told["bind"] or os.environ.get(OWN_ADDRESS)
    for number, group in grid.own(rank):
        if len(group.ranks) > 1:
            own, size = group.ranks.index(rank), len(group.ranks)
            found[group.axis] = GlooLine(Group(told["host"], told["port"], own, size, bind=bind, timeout=timeout, name=f"line {number}"))
    return found


def _half(number: int) -> int:
    return SMALL if number == 0 else HALF


def _places(grid: Grid) -> tuple[list[int], int]:
    """Where each line begins in the segment, and its size."""
    places, end = [], 0
    for number, group in enumerate(grid.groups()):
        places.append(end)
        end += line_bytes(len(group.ranks), _half(number))
    return places, end


@final
class SharedLink:
    def __init__(self, grid: Grid, *, inherited: bool) -> None:
        """`inherited`: workers are children of this process. Others of this machine look into its open files."""
        places, size = _places(grid)
        self._segment = Segment.create(size)
        self._words = [self._segment.words(place, 1) for place in places]
        self.told: dict[str, Any] = {"segment": self._segment.fd, "bytes": self._segment.size, "of": None if inherited else os.getpid()}
        self.files = [self._segment.fd]

    def call_off(self) -> None:
        for words in self._words:
            words[0] = 1

    def close(self) -> None:
        for words in self._words:
            words.release()
        self._segment.close()

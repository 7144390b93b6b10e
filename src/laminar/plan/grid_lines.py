"""Lines of a mesh: the workers along each axis, who exchange things with each other. No torch here."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import final

from laminar.parallel.split.grid import ALL, Grid


@final
class GridLines:
    def __init__(self, mesh: Mapping[str, int]) -> None:
        grid = Grid(dict(mesh))
        self.size = grid.size
        self._lines: dict[str, list[tuple[int, ...]]] = {}
        for group in grid.groups():
            self._lines.setdefault(group.axis, []).append(group.ranks)

    def lines(self, axis: str) -> list[tuple[int, ...]]:
        """Of an axis, or of all workers."""
        return self._lines[axis]

    @cache  # noqa: B019 - as many as axes, and gone with the plan
    def line_of(self, axis: str) -> list[int]:
        """The line that each worker is on."""
        found = [0] * self.size
        for number, members in enumerate(self._lines[axis]):
            for member in members:
                found[member] = number
        return found


__all__ = ["ALL", "GridLines"]

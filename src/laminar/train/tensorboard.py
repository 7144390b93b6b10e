"""TensorBoard files for those who have tensorboard installed. Written after training and now and then at epoch ends, and never fatal.

Importing the library takes longer than training a small layer, so a short run pays for it once it is done, and not before.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, final

from laminar.core.clock import Clock

POINTS = 200  # of the training loss per epoch; every step is in events.jsonl
SECONDS = 10.0  # between two writes

Point = tuple[int, float, float]  # step, loss, lr


@final
class Board:
    """Curves of one run in `folder`; does nothing where tensorboard is missing or fails."""

    def __init__(self, folder: Path, clock: Clock, *, wanted: bool, purge: int | None = None) -> None:
        self.folder = folder
        self.problem = ""
        self._clock = clock
        self._written = clock.monotonic()
        self._purge = purge  # after a resume, TensorBoard forgets the points from this step on
        self._scalars: list[tuple[str, float, int, float]] = []  # name, value, step, time
        self._writer: Any = None
        self._on = wanted and importlib.util.find_spec("tensorboard") is not None

    def epoch(self, points: Sequence[Point], step: int, figures: Mapping[str, float]) -> None:
        """The training curve of an epoch in at most POINTS means, and the epoch's own figures at `step`."""
        if not self._on:
            return
        now = self._clock.now()
        size = max(1, -(-len(points) // POINTS))
        for first in range(0, len(points), size):
            part = points[first : first + size]
            last, _, lr = part[-1]
            self._scalars += [("step/loss", sum(point[1] for point in part) / len(part), last, now), ("step/lr", lr, last, now)]
        self._scalars += [(name, value, step, now) for name, value in figures.items()]
        if self._clock.monotonic() - self._written >= SECONDS:
            self._write()

    def close(self) -> None:
        """Write what is left, and end the writer's thread."""
        if self._on and self._scalars:
            self._write()
        if self._writer is not None:
            try:
                self._writer.close()
            except Exception as error:
                self._fail(error)
            self._writer = None

    def _write(self) -> None:
        try:
            if self._writer is None:
                from torch.utils.tensorboard import SummaryWriter

                self._writer = SummaryWriter(str(self.folder), purge_step=self._purge)
            for name, value, step, now in self._scalars:
                self._writer.add_scalar(name, value, step, walltime=now)
            self._writer.flush()
        except Exception as error:  # a plot is not worth a run
            self._fail(error)
        self._scalars.clear()
        self._written = self._clock.monotonic()

    def _fail(self, error: Exception) -> None:
        self._on = False
        self.problem = f"no TensorBoard files: {type(error).__name__}: {error}"

"""Halfway: a task that takes long is kept on the disk while it is done, so that a reboot costs the last half minute of it and not all.

Parameters, buffers, the optimizer's state, the random streams and how many steps are behind: what comes of the rest is the same to the
bit. It is of one task and of no other; one that is damaged, or of something else, is not there. A disk that is full costs the checkpoint
and not the task.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, final

import msgspec
import torch
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor

from laminar.core import atomic, digest
from laminar.core.errors import LaminarError
from laminar.grid.wire.messages import Task
from laminar.train.borrowed import load_rng, rng_state

EVERY: Final = 30.0  # seconds of work between two of them
SHARE: Final = 20.0  # times as long as writing one takes, at least


class Behind(msgspec.Struct, frozen=True, kw_only=True):
    """How far it is."""

    task: str  # digest
    steps: int
    losses: float  # sum
    samples: int
    seconds: float
    streams: dict[str, Any]  # numpy's and Python's random numbers


@dataclass(frozen=True)
class Found:
    behind: Behind
    tensors: dict[str, Tensor]  # what was kept

    def resume_streams(self) -> None:
        load_rng(self.tensors[STREAM], self.behind.streams)


STREAM: Final = "stream"  # torch's random numbers
BEHIND: Final = "behind"


@final
class Halfway:
    """Of one task. `clock`: seconds."""

    def __init__(self, path: Path, task: Task, clock: Callable[[], float] = time.monotonic) -> None:
        self._path, self._clock = path, clock
        self._task = digest.of_bytes(msgspec.json.encode(msgspec.structs.replace(task, lease=0.0)))
        self._next = clock() + EVERY

    @property
    def due(self) -> bool:
        return self._clock() >= self._next

    def keep(self, tensors: dict[str, Tensor], *, steps: int, losses: float, samples: int, seconds: float) -> None:
        began = self._clock()
        words, streams = rng_state()
        behind = Behind(task=self._task, steps=steps, losses=losses, samples=samples, seconds=seconds, streams=streams)
        about = torch.frombuffer(bytearray(msgspec.json.encode(behind)), dtype=torch.uint8)
        with contextlib.suppress(LaminarError, OSError):
            atomic.write_bytes(self._path, save({**tensors, STREAM: words, BEHIND: about}))
        self._next = self._clock() + max(EVERY, SHARE * (self._clock() - began))

    def found(self) -> Found | None:
        try:
            tensors = load(self._path.read_bytes())
            behind = msgspec.json.decode(tensors.pop(BEHIND).numpy().tobytes(), type=Behind)
            return Found(behind, tensors) if behind.task == self._task and STREAM in tensors else None
        except FileNotFoundError:
            return None
        except (SafetensorError, OSError, KeyError, msgspec.DecodeError, UnicodeDecodeError):
            self.forget()
            return None

    def forget(self) -> None:
        with contextlib.suppress(OSError):
            self._path.unlink(missing_ok=True)

"""What a worker has of its own and must not lose when a training is interrupted: residuals of compression, its inner optimizer, its place
in a long task. A file for each worker in the run's folder.

    between tasks   written when the training is interrupted; for the next attempt only, since at any later time it would be old
    within a task   written from time to time; for whoever is given the very same task, on the very same parameters, again

`Attempt` says which training and which attempt at it. Files of another training are never read.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, final

import msgspec
from torch import Tensor

from laminar.core.errors import LaminarError
from laminar.parallel.apart import keep
from laminar.parallel.apart.work import Task
from laminar.train.borrowed import load_rng, rng_state


class Attempt(msgspec.Struct, frozen=True, kw_only=True):
    training: str
    number: int  # builds that have worked at it, this one included


class Saved(msgspec.Struct, kw_only=True):
    tensors: dict[str, Tensor]
    state: dict[str, Any]
    task: Task | None
    start: int  # checksum of the parameters that the task began with

    def load_rng(self) -> None:
        load_rng(self.tensors.pop("rng"), self.state.pop("rng"))


@final
class OwnState:
    def __init__(self, folder: Path | None, worker: str, attempt: Attempt) -> None:
        """`folder` None: a worker that has joined, and will not come again."""
        self._path = None if folder is None else folder / f"worker-{worker}.safetensors"
        self._attempt = attempt

    def save(self, tensors: Mapping[str, Tensor], state: Mapping[str, Any], *, task: Task | None = None, start: int = 0) -> None:
        if self._path is None:
            return
        words, streams = rng_state()
        plain = {name: tensor.detach().contiguous() for name, tensor in tensors.items()}
        about = {"attempt": msgspec.to_builtins(self._attempt), "task": None if task is None else msgspec.to_builtins(task), "start": start}
        keep.write(self._path, {**plain, "rng": words}, {"about": about, **state, "rng": streams}, durable=True)

    def load(self) -> Saved | None:
        """None if there is none that may be used, or it cannot be read: a worker may always begin without."""
        if self._path is None or not self._path.exists():
            return None
        try:
            tensors, state = keep.read(self._path)
            about = state.pop("about")
            attempt = msgspec.convert(about["attempt"], Attempt)
            task = None if about["task"] is None else msgspec.convert(about["task"], Task)
            found = Saved(tensors=tensors, state=state, task=task, start=about["start"])
        except (LaminarError, KeyError, TypeError, msgspec.ValidationError):
            self.forget()
            return None
        if attempt.training == self._attempt.training and (task is not None or attempt.number == self._attempt.number - 1):
            return found
        self.forget()
        return None

    def forget(self) -> None:
        if self._path is not None:
            self._path.unlink(missing_ok=True)

"""Own daemons: what a validator or an assimilator of another package gets, and what it returns (how-to-write-a-daemon).

Each is made once, by calling what its entry point names with the settings of the strategy, in a process of its own. Changes of parameters
are one flat row in the order of the model; what compression left out is 0.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Answer:
    """What a node sent. `loss` is its word, everything else was checked."""

    result: int
    node: str
    trusted: bool  # whoever runs the grid has said so
    change: NDArray[np.float32]  # start minus end of its steps, or the gradient
    buffers: NDArray[np.float64]
    steps: int
    samples: int
    loss: float


@dataclass(frozen=True)
class Judged:
    """Results that are good, which are used, and results that are wrong, for which their nodes answer. Others are not used, and nobody is
    blamed. As long as none is good, another node is asked."""

    good: Sequence[int] = ()
    wrong: Sequence[int] = ()


class Validator(Protocol):
    def judge(self, answers: Sequence[Answer], needs: int) -> Judged:
        """Of the answers to one task that are here; so many were asked for."""


@dataclass(frozen=True)
class Part:
    """The answer to a task, the mean of its good ones if there are several, and its weight in the step."""

    change: NDArray[np.float32]
    buffers: NDArray[np.float64]
    weight: float


@dataclass(frozen=True)
class Model:
    """A version, and what the assimilator keeps beside it."""

    values: NDArray[np.float32]
    buffers: NDArray[np.float64]
    state: Mapping[str, NDArray[np.generic]]


class Assimilator(Protocol):
    def step(self, model: Model, parts: Sequence[Part]) -> Model:
        """The next version."""

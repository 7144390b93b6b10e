"""Job: one layer to train, and what comes of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray
from torch import nn

from laminar.core.clock import SYSTEM, Clock
from laminar.train.recipe import Recipe

if TYPE_CHECKING:
    from laminar.data.dataset import Dataset
    from laminar.data.spec import AugmentSpec
    from laminar.model.freeze import Frozen
    from laminar.train.beside import Tester
    from laminar.train.team import Team


@dataclass
class Route:
    """The way samples take: `module(*batch_of_each_input)` is the model's output.

    The plain route is the whole model on the samples. With kept features it is the part behind the frozen prefix, on the features; that
    part shares its parameters, buffers and modules with the model, so training the one trains the other.
    """

    module: nn.Module
    inputs: list[NDArray[Any]]


@dataclass
class Job:
    """The model starts with the weights it is to start with, already in the recipe's dtype (dtype.prepare) and frozen where it shall be."""

    name: str
    model: nn.Module
    data: Dataset
    recipe: Recipe
    frozen: Frozen | None
    folder: Path  # of the run: events, checkpoints
    fit: Route | None = None  # None: plain
    test: Route | None = None
    augment: AugmentSpec | None = None  # random changes of the training samples; not with kept features
    tensorboard: bool = True  # write TensorBoard files where the library is installed
    clock: Clock = SYSTEM
    announce: list[dict[str, Any]] = field(default_factory=list)  # processes to tell of when training starts: role, rank, pid, host
    earlier: list[str] = field(default_factory=list)  # notes of earlier attempts at this run, which its history is to have too
    team: Team | None = None  # the processes that train it together, of which this is one
    tester: Tester | None = None  # an evaluator, in member 0 of a team that has one
    frozen_told: dict[str, Any] | None = (
        None  # what is frozen (snapshot.frozen_state), where the model has only parts of its tensors by now
    )

    @property
    def fit_route(self) -> Route:
        return self.fit or Route(self.model, [self.data.train.x])

    @property
    def test_route(self) -> Route:
        return self.test or Route(self.model, [self.data.test.x])

    @property
    def batches_per_epoch(self) -> int:
        """A last batch of one sample is left out: batch statistics of one sample do not exist.

        Which sample that is changes with the order of the epoch.
        """
        whole, rest = divmod(len(self.data.train), self.recipe.batch)
        return whole + (rest > 1 or (rest == 1 and whole == 0))

    @property
    def steps_per_epoch(self) -> int:
        """Each of `accumulate` batches; the last one of those that are left."""
        return -(-self.batches_per_epoch // self.recipe.accumulate)

    @property
    def steps(self) -> int:
        """All there are, unless training stops early."""
        return self.recipe.epochs * self.steps_per_epoch


@dataclass
class Trained:
    metrics: dict[str, float]  # on the test split, and samples_per_second of training
    seconds: float  # of training and testing, those before an interruption included
    epochs: int
    steps: int
    resumed_from: int | None = None  # step
    notes: list[str] = field(default_factory=list)
    looked: list[str] = field(default_factory=list)  # at by the layer's code in other processes (core/observe.py)
    checkpoint_seconds: float | None = None  # of them: for which it stood still, to keep checkpoints; None: servers kept it meanwhile
    where: dict[str, Any] = field(default_factory=dict)  # on other machines than this: what started the workers, and their hosts

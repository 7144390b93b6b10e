"""Facts: what is known of a job and of a machine by measuring, as plain numbers, for whoever prices plans. No torch here."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from laminar.parallel.sync.row_facts import RowFacts

ExchangeKind = Literal["sum", "gather", "swap"]


@dataclass(frozen=True)
class Exchange:
    """Among the workers along one axis of a mesh."""

    kind: ExchangeKind
    axis: str
    bytes: int  # that a member hands over


@dataclass(frozen=True)
class OperatorCost:
    """One operator as one worker runs it, on its parts of tensors, for one pass of so many rows."""

    name: str
    path: str  # of the module that it comes from
    needs: tuple[int, ...]  # the operators whose results it takes
    forward: float  # seconds
    inputs: float  # of the backward pass: gradients of what came in …
    weights: float  # … and of the model's own tensors
    before: tuple[Exchange, ...] = ()  # forward, until its operands are where it needs them
    after: tuple[Exchange, ...] = ()  # forward, of its result
    back: tuple[Exchange, ...] = ()  # of the backward pass
    kept: int = 0  # bytes of its result that stay until its backward pass
    given: int = 0  # bytes of its result
    trained: tuple[int, ...] = ()  # numbers of the trained tensors whose gradients it gives, where that is known


@dataclass(frozen=True)
class ModelCost:
    """A model as one worker runs it, for one pass of so many rows (of the whole batch or micro-batch)."""

    rows: int
    operators: tuple[OperatorCost, ...]
    gradients: tuple[Exchange, ...] = ()  # after the backward pass
    trained: int = 0  # bytes of the own parts of trained tensors
    untrained: int = 0  # and of all others

    @property
    def forward(self) -> float:
        return sum(one.forward for one in self.operators)

    @property
    def backward(self) -> float:
        return sum(one.inputs + one.weights for one in self.operators)


@dataclass(frozen=True)
class Taken:
    """A value that a stage has from another one."""

    source: int  # the stage
    bytes: int  # of one micro-batch
    learns: bool  # does a gradient of it go back?


@dataclass(frozen=True)
class StageCost:
    """Operators that one lane runs in one go, on one micro-batch: by one worker, or by each of a mesh of workers."""

    lane: int
    forward: float  # seconds
    inputs: float
    weights: float
    takes: tuple[Taken, ...] = ()
    there: tuple[Exchange, ...] = ()  # inside of the lane's mesh, forward …
    back: tuple[Exchange, ...] = ()  # … and backward
    gradients: tuple[Exchange, ...] = ()  # inside of the mesh, once a step
    kept: int = 0  # bytes of results that stay until the backward pass
    trained: int = 0  # bytes of the own parts of trained tensors
    untrained: int = 0
    modules: str = ""  # for people: the first and the last


@dataclass(frozen=True)
class StagesCost:
    """A model in stages, which may be a row (a pipeline) or side by side (branches)."""

    stages: tuple[StageCost, ...]
    lanes: int
    batches: int  # micro-batches of a batch
    shared: int = 0  # bytes of gradients that a lane hands to others because they have the same tensors …
    shared_by_all: int = 0  # … and those of all such lanes together
    sent: int | None = None  # bytes that all workers hand over in a step, where micro-batches are not all of one size


@dataclass(frozen=True)
class Pass:
    """A whole pass there and back, measured at once: what the sum of its operators is held against."""

    rows: int
    forward: float
    backward: float

    @property
    def seconds(self) -> float:
        return self.forward + self.backward


@dataclass(frozen=True)
class Curve:
    """Seconds by bytes, measured at some sizes: linear between them, proportional beyond the last, and never falling."""

    points: tuple[tuple[float, float], ...]  # (bytes, seconds), bytes rising

    def __call__(self, size: float) -> float:
        points = self.points
        if size <= points[0][0]:
            return points[0][1]
        for (a, s), (b, t) in itertools.pairwise(points):
            if size <= b:
                return s + (t - s) * (size - a) / (b - a)
        (a, s), (b, t) = points[-2:] if len(points) > 1 else ((0.0, 0.0), points[0])
        return t + max(0.0, t - s) / (b - a) * (size - b)

    @classmethod
    def measured(cls, points: Mapping[float, float]) -> Curve:
        """Where a larger one was faster by chance, it takes as long as the smaller one."""
        found: list[tuple[float, float]] = []
        for size, seconds in sorted(points.items()):
            found.append((size, max(seconds, found[-1][1] if found else 0.0)))
        return cls(tuple(found))


@dataclass(frozen=True)
class Packing:
    """What a compression makes of a job's gradient, and what that takes one worker."""

    bytes: int  # that a member hands over
    encode: float = 0.0  # seconds, until its packet can be sent; where all is sums, of everything between them
    decode: float = 0.0  # of one packet: everybody has those of all
    sums: tuple[int, ...] = ()  # bytes of each, one after the other, where nothing is gathered (PowerSGD)


@dataclass(frozen=True)
class MachineFacts:
    """What one machine of the kind at hand can do, measured; by the number of members where that matters.

    Curves are of bytes that each member hands over.
    """

    cores: int
    memory: int  # bytes
    lines: Mapping[tuple[str, str, int], Curve] = field(default_factory=dict)  # (link, kind of exchange, members); link: memory or gloo
    posts: Mapping[str, Curve] = field(default_factory=dict)  # by link: from one worker to another
    shared_step: Mapping[int, Curve] = field(default_factory=dict)  # sync in shared memory: all of a step that is no computing, by members
    wire: Curve = Curve(((0.0, 1e-4),))  # a message from a worker to a server, through a socket, packed and unpacked
    apply: Curve = Curve(((0.0, 1e-4),))  # a gradient of so many bytes, added to the parameters by a server
    crowd: Mapping[int, float] = field(default_factory=dict)  # how much longer everything takes when so many processes compute at once
    hidden: float = 0.0  # the share of an exchange over gloo that costs no time beside computing
    spread: float = 0.1  # of the logarithm of a step's time, from step to step
    start: float = 0.0  # seconds until processes of a team have begun and found each other
    process_bytes: int = 300_000_000  # of a worker that has loaded everything and has no model yet
    library_bytes: int = 0  # of these, what all processes of a node have in common

    def crowded(self, processes: int) -> float:
        """How much longer it takes where so many processes compute, each on a core of its own; of more than could be measured, as of the
        most that were."""
        some = max((count for count in self.crowd if count <= processes), default=0)
        return self.crowd.get(some, 1.0)


@dataclass(frozen=True)
class JobFacts:
    """What is known of a job beside its model."""

    layer: str
    batch: int
    samples: int  # of an epoch
    epochs: int
    optimizer: str
    slots: int  # numbers that the optimizer keeps for each trained number
    parameters: int  # trained numbers
    row_bytes: int  # of a sample
    untrained: int  # bytes of the model's tensors that are not trained
    kept_per_row: int  # bytes of results that a sample leaves in memory until the backward pass
    gather: float  # seconds to gather a sample of a batch
    loop: float  # seconds of a step that are neither computing, gathering nor the optimizer
    step: Curve = Curve(((0.0, 1e-4),))  # the optimizer's step on so many bytes of trained numbers
    biggest: tuple[tuple[str, int], ...] = ()  # the model's largest tensors, and their bytes
    tensors: tuple[int, ...] = ()  # bytes of each trained tensor, in order; none: not known
    test_samples: int = 0  # that every epoch is tested by
    test: float = 0.0  # seconds of one of them, on one core
    rows: RowFacts = field(default_factory=RowFacts)  # what rows of a batch have to do with each other

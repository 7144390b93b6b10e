"""Admission: what every answer must be before it is looked at any further. Each refusal has a name, by which it is counted and shown.

Signature, replay, and whether the lease is the node's own are checked before (server/gate.py, server/service.py): here are the numbers.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

from laminar.grid.wire.answer import Answer, BadAnswer, parse
from laminar.grid.wire.sketch import SPARSE, sums_of
from laminar.parallel.compress.layout import Layout
from laminar.parallel.compress.packet import BadPacket, Packet
from laminar.parallel.compress.values import read_values
from laminar.train.compression import AnyCompression

Reason = Literal["schema", "other result", "other version", "steps", "packet", "buffers", "not finite", "norm", "account"]
NORMS: Final = 10.0  # times the usual size of an answer
KEPT: Final = 5.0  # times as large as the work: a packet may have in it what was kept back before
ENOUGH: Final = 8  # answers after which the usual size is known
LARGEST_BUFFER: Final = float(np.finfo(np.float32).max)
LARGEST_LOSS: Final = 1e30


class Refused(Exception):
    """An answer that is not taken, by the name of the reason."""

    def __init__(self, reason: Reason, message: str) -> None:
        super().__init__(message)
        self.reason = reason


@dataclass(frozen=True)
class Wanted:
    """What is known of a task whose answer comes in."""

    result: int
    version: int
    steps: int
    batch: int
    layout: Layout
    buffers: int
    compress: AnyCompression
    usual: float | None  # size of an answer, where it is known
    most: int | None = None  # values of a sparse packet: with more of them a lie could be made to fit an account

    @property
    def sparse(self) -> bool:
        """The work is not in the packet: its sketch is all there is of it."""
        return self.compress.kind in SPARSE


@dataclass(frozen=True)
class Admitted:
    answer: Answer
    positions: NDArray[np.int64] | None  # of a sparse packet
    values: NDArray[np.float32]
    norm: float  # of the packet
    work_norm: float  # of the work: by its sketch, or that of a packet which is all of it


def admit(data: bytes | memoryview, wanted: Wanted) -> Admitted:
    """Refused unless all of it can be what an honest node sends."""
    try:
        answer = parse(data)
    except BadAnswer as error:
        raise Refused("schema", str(error)) from error
    head = answer.head
    if head.result != wanted.result:
        raise Refused("other result", f"it answers {head.result}, not {wanted.result}")
    if head.version != wanted.version:
        raise Refused("other version", f"it began from version {head.version}, not {wanted.version}")
    if head.steps != wanted.steps or not 0 < head.samples <= wanted.steps * wanted.batch:
        raise Refused("steps", f"{head.steps} steps of {head.samples} samples, but {wanted.steps} steps of {wanted.batch} were asked for")
    if answer.buffers.size != wanted.buffers:
        raise Refused("buffers", f"{answer.buffers.size} numbers of buffers, not {wanted.buffers}")
    sums = sums_of(wanted.layout.numel)
    if answer.sketch.size != sums and (wanted.sparse or answer.sketch.size):
        raise Refused("schema", f"a sketch of {answer.sketch.size} sums, not {sums}")
    try:
        positions, values = read_values(Packet.parse(answer.packet), wanted.layout, wanted.compress)
    except BadPacket as error:
        raise Refused("not finite" if "not finite" in str(error) else "packet", str(error)) from error
    if wanted.most is not None and values.size > wanted.most:
        raise Refused("packet", f"{values.size} values, but at most {wanted.most} are sent")
    norm = norm_of(values)
    work = norm_of(answer.sketch) if wanted.sparse else norm / KEPT if wanted.compress.kind == "int8" else norm
    numbers = {"the packet": norm, "the sketch": work, "a buffer": float(np.abs(answer.buffers).max()) if answer.buffers.size else 0.0}
    for what, number in numbers.items():
        if not math.isfinite(number):
            raise Refused("not finite", f"{what} has a value that is not finite")
    if not (math.isfinite(head.loss) and abs(head.loss) < LARGEST_LOSS):
        raise Refused("not finite", f"the loss is {head.loss}")
    check_size(max(work, norm / KEPT), wanted.usual)
    if numbers["a buffer"] > LARGEST_BUFFER:
        raise Refused("not finite", "a buffer has a value that float32 cannot hold")
    return Admitted(answer, positions, values, norm, work)


def check_size(norm: float, usual: float | None) -> None:
    if usual is not None and norm > NORMS * usual:
        raise Refused("norm", f"the change is {norm / max(usual, 1e-30):.1f} times as large as is usual")


def norm_of(values: NDArray[np.float32]) -> float:
    """Of float32; where the sum of squares is too large for that, of float64."""
    found = float(np.dot(values, values))
    return math.sqrt(found) if math.isfinite(found) else float(np.linalg.norm(values.astype(np.float64)))


def usual_norm(norms: NDArray[np.float64]) -> float | None:
    """The size of an answer, from those that were found good; None: too few to say."""
    return float(np.median(norms)) if len(norms) >= ENOUGH else None

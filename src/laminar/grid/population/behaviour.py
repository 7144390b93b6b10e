"""Behaviour: what nodes do with a task. Honest ones do it; each of the others lies in a way of its own, and is to do no harm."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from laminar.core.seeds import derive
from laminar.grid.wire import answer as answers
from laminar.grid.wire.messages import Task
from laminar.grid.wire.sketch import Sketcher
from laminar.parallel.compress.layout import Layout
from laminar.parallel.compress.packet import Coding, Form, Packet

Floats = NDArray[np.float32]
Lie = Callable[[Floats, Floats, np.random.Generator, int], Floats]  # (honest change, version, dice, task's seed) -> what is sent


def _nan(change: Floats, version: Floats, dice: np.random.Generator, seed: int) -> Floats:  # noqa: ARG001
    sent = change.copy()
    sent[:: max(1, len(sent) // 7)] = np.nan
    return sent


def _scaled(change: Floats, version: Floats, dice: np.random.Generator, seed: int) -> Floats:  # noqa: ARG001
    return change * np.float32(1000)


def _flipped(change: Floats, version: Floats, dice: np.random.Generator, seed: int) -> Floats:  # noqa: ARG001
    return -change


def _random(change: Floats, version: Floats, dice: np.random.Generator, seed: int) -> Floats:  # noqa: ARG001
    sent = dice.standard_normal(len(change)).astype(np.float32)
    return sent * np.float32(np.linalg.norm(change) / max(float(np.linalg.norm(sent)), 1e-9))


def _nothing(change: Floats, version: Floats, dice: np.random.Generator, seed: int) -> Floats:  # noqa: ARG001
    return np.zeros_like(change)


def _model(change: Floats, version: Floats, dice: np.random.Generator, seed: int) -> Floats:  # noqa: ARG001
    return version.copy()


def _overturning(change: Floats, version: Floats, dice: np.random.Generator, seed: int) -> Floats:  # noqa: ARG001
    """As far the other way as admission lets through: a fifth of these turns a plain mean round."""
    return change * np.float32(-8)


def _colluding(change: Floats, version: Floats, dice: np.random.Generator, seed: int) -> Floats:  # noqa: ARG001
    """All colluders send the same lie for a task, so that two of them agree."""
    shared = np.random.Generator(np.random.PCG64(derive(seed, "colluders")))
    sent = shared.standard_normal(len(change)).astype(np.float32)
    sent *= np.float32(np.linalg.norm(change) / max(float(np.linalg.norm(sent)), 1e-9))
    return sent - 2 * change


def _drifting(change: Floats, version: Floats, dice: np.random.Generator, seed: int) -> Floats:  # noqa: ARG001
    """A little, always in the same direction: no single round looks wrong."""
    same = np.random.Generator(np.random.PCG64(7)).standard_normal(len(change)).astype(np.float32)
    return change + same * np.float32(0.5 * np.linalg.norm(change) / np.linalg.norm(same))


LIES: Final[dict[str, Lie]] = {
    "nan": _nan,
    "scaled": _scaled,
    "flipped": _flipped,
    "random": _random,
    "free rider": _nothing,
    "copies the model": _model,
    "overturning": _overturning,
    "colluding": _colluding,
    "drifting": _drifting,
}
AS: Final = {"sybil": "flipped", "sleeper": "overturning"}  # what they do when they do it
ASLEEP: Final = 12  # answers that a sleeper does well, until it is trusted
KINDS: Final = ("honest", *LIES, "replaying", *AS)
SYBILS: Final = 100  # nodes of one person


@dataclass
class Person:
    """Somebody behind one or several nodes."""

    kind: str
    dice: np.random.Generator
    last: bytes = b""  # what was sent before, to be sent again
    done: int = 0  # answers

    def does(self, task: Task, change: Floats, version: Floats, layout: Layout, sketcher: Sketcher) -> bytes:
        """The answer that goes out."""
        if self.kind == "replaying" and self.last:
            return self.last
        lie = LIES.get(AS.get(self.kind, self.kind))
        self.done += 1
        if self.kind == "sleeper" and self.done <= ASLEEP:
            lie = None
        sent = change if lie is None else lie(change, version, self.dice, task.seed)
        self.last = pack(task, sent, layout, sketcher)
        return self.last


def pack(task: Task, change: Floats, layout: Layout, sketcher: Sketcher) -> bytes:
    packet = Packet.write(layout, Form.DENSE, [change], count=layout.numel, values=Coding.FLOAT32)
    head = answers.Head(
        result=task.result,
        version=task.version.number,
        packet=packet.nbytes,
        buffers=0,
        samples=task.steps,
        steps=task.steps,
        loss=1.0,
        seconds=1.0,
    )
    with np.errstate(invalid="ignore"):
        sketch = sketcher.of(change) if np.isfinite(change).all() else np.zeros(sketcher.sums, np.float32)
    return answers.write(head, packet.data, np.zeros(0), sketch)

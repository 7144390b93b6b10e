"""Members: nodes of a crowd that really train. They compress what they send and keep back the rest, as node/worker.py and node/keeper.py
do it, without disk and network; and liars among them, who may also know how answers are checked.

A kind is one of behaviour.py, a lie about the work itself, which sketch and packet tell alike; or
    X packet    another packet beside an honest sketch: turned, random, five times, overturning, knowing
    buffers     wrong batch statistics
    sleeper X   X, after some answers that were good; a mere sleeper overturns
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from laminar.grid.compressor import compressor_of
from laminar.grid.daemons.accounting import sketcher_of
from laminar.grid.population.behaviour import AS, LIES
from laminar.grid.settings import Settings
from laminar.grid.wire import answer as answers
from laminar.grid.wire.messages import Task, Work
from laminar.grid.wire.sketch import SPARSE
from laminar.parallel.compress import sparse
from laminar.parallel.compress.largest import most_of
from laminar.parallel.compress.packet import CODINGS, Coding, Form, Packet
from laminar.parallel.compress.values import read_values
from laminar.train.compression import Dgc, TopK

ASLEEP: Final = 15  # answers that a sleeper does well
PACKET: Final = " packet"
Row = NDArray[np.float32]
Numbers = NDArray[np.float64]


@dataclass
class Member:
    id: str
    kind: str
    settings: Settings
    dice: np.random.Generator
    kept: dict[int, Packet] = field(default_factory=dict)  # answers of which it is not known yet whether they are used
    done: int = 0
    stuck: list[int] = field(default_factory=list)  # tasks that it says it has, and never brings
    held: Row | None = None  # what a knowing liar would have to have kept back
    last: bytes = b""  # its last answer, to be sent again

    def __post_init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        self.compressor = compressor_of(self.settings.recipe, self.settings.layout, gradients=self.settings.gradients)
        self.kept.clear()
        self.held = None

    def told(self, work: Work) -> None:
        for result, state, used in work.verdicts:
            self.settled(result, state, used)

    def settled(self, result: int, state: str, used: str) -> None:
        packet = self.kept.pop(result, None)
        if packet is None:
            return
        if state == "invalid":
            self.forget()
        elif state == "late" or used in ("dropped", "extra"):
            state_now = self.compressor.state()
            row = state_now.get("v", state_now.get("error"))
            if row is not None:
                self.compressor.decode(packet, row)

    @property
    def lies(self) -> str:
        """How, this time; empty: not at all."""
        if self.kind == "honest" or (self.kind.startswith("sleeper") and self.done < ASLEEP):
            return ""
        what = self.kind.removeprefix("sleeper ")
        return AS.get(what, what)

    def answer(self, task: Task, change: Tensor, buffers: Numbers, version: bytes) -> bytes:
        lie = self.lies
        self.done += 1
        if lie == "replaying" and self.last:
            return self.last
        numel, spec = self.settings.layout.numel, self.settings.grid.compression
        if lie in LIES and lie != "nan":  # that is for the packet: an honest compressor takes no such thing
            row = np.frombuffer(version, "<f4", count=numel)
            change = torch.from_numpy(LIES[lie](change.numpy(), row, self.dice, task.seed))
        if lie == "buffers":
            buffers = buffers * np.where(self.dice.random(len(buffers)) < 0.5, 30.0, -1.0)
        fresh = not self.compressor.state()
        sketch = sketcher_of(self.settings).of(change.numpy()) if spec.kind in SPARSE else np.zeros(0, "<f4")
        held: Row = change.numpy() if fresh or self.held is None else change.numpy() + self.held
        weights = torch.frombuffer(bytearray(version[: 4 * numel]), dtype=torch.float32)
        packet = self.compressor.encode(change.clone(), epoch_progress=task.progress, weights=weights)
        sent = self._lie(packet, held, lie) if lie == "nan" or lie.endswith(PACKET) else packet
        self.kept[task.result] = packet
        head = answers.Head(
            result=task.result,
            version=task.version.number,
            packet=sent.nbytes,
            buffers=buffers.nbytes,
            samples=task.steps,
            steps=task.steps,
            loss=1.0,
            seconds=1.0,
            fresh=fresh,
        )
        self.last = answers.write(head, sent.data, buffers, sketch)
        return self.last

    def _lie(self, packet: Packet, held: Row, lie: str) -> Packet:
        """Another packet beside an honest sketch."""
        spec, layout = self.settings.grid.compression, self.settings.layout
        at, values = read_values(packet, layout, spec)
        what = lie.removesuffix(PACKET)
        if what == "knowing" and at is not None:
            at, values = self._knowing(at, values, held)
        else:
            noise = self.dice.standard_normal(len(values)).astype(np.float32)
            noise *= np.float32(np.linalg.norm(values) / max(float(np.linalg.norm(noise)), 1e-9))
            lies: dict[str, Any] = {"turned": -values, "random": noise, "five times": 5 * values, "overturning": -8 * values}
            values = lies[what] if what != "nan" else np.full_like(values, np.nan)
        if isinstance(spec, TopK | Dgc) and at is not None:
            sent, values = sparse.write(layout, at, values.astype(np.float32), CODINGS[spec.values])
            self.held = held.copy()
            self.held[at] -= values
            return sent
        if what == "nan":
            return Packet.write(layout, Form.DENSE, [values], count=layout.numel, values=Coding.FLOAT32)
        other = compressor_of(self.settings.recipe, layout, gradients=self.settings.gradients)
        return other.encode(torch.from_numpy(values.astype(np.float32)), epoch_progress=0.0)

    def _knowing(self, at: NDArray[Any], values: Row, held: Row) -> tuple[NDArray[Any], Row]:
        """The smaller half turned round, and at other places half of what the account has there: the table is public.

        No more values than an honest packet may have.
        """
        sketcher = sketcher_of(self.settings)
        room = most_of(self.settings.layout, 1 - self.settings.grid.compression.sparsity)  # type: ignore[union-attr]
        small = np.argsort(np.abs(values))[: len(at) // 2]
        at, values = np.sort(at[small]), values[small][np.argsort(at[small])]
        sums, other = sketcher.of(held), self.dice.permutation(np.setdiff1d(np.arange(held.size), at))[: room - len(at)]
        numbers = np.arange(1, sketcher.sums + 1, dtype=np.float32)  # which sum a place is of, and with which sign
        signed = np.array([numbers @ sketcher.of_some(np.array([i]), np.ones(1, np.float32)) for i in other])
        sign, place = np.sign(signed), np.abs(signed).astype(int) - 1
        little = 0.5 * sums[place] / np.bincount(place, minlength=sketcher.sums)[place] * sign
        places, lie = np.concatenate([at, other]), np.concatenate([-values, little]).astype(np.float32)
        order = np.argsort(places)
        return places[order], lie[order]

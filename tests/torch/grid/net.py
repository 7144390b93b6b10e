"""A small network that is really trained, with batch statistics, and nodes that compress what they send and keep back the rest, or lie."""

from __future__ import annotations

import base64
import hashlib
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.nn.utils import parameters_to_vector, vector_to_parameters

from laminar.core.seeds import derive
from laminar.grid.compressor import compressor_of
from laminar.grid.daemons.accounting import sketcher_of
from laminar.grid.daemons.learner import TorchLearner
from laminar.grid.db import nodes, versions
from laminar.grid.population.hall import Hall
from laminar.grid.server.service import Denied
from laminar.grid.settings import Settings
from laminar.grid.wire import answer as answers
from laminar.grid.wire.messages import Ask, Task, Work
from laminar.parallel.compress import sparse
from laminar.parallel.compress.largest import most_of
from laminar.parallel.compress.packet import CODINGS, Packet
from laminar.parallel.compress.values import read_values
from laminar.train.compression import Dgc, TopK
from laminar.train.on_grid import Grid
from laminar.train.recipe import Recipe

FEATURES, CLASSES, CLOUDS, BATCH = 32, 10, 3, 64
ASLEEP = 15  # answers that a sleeper does well


class Net:
    """Which class a point is of, when each has several clouds: not linear, and hard enough to show what was lost."""

    def __init__(self, seed: int, hidden: int = 64, *, apart: float = 0.8) -> None:
        torch.manual_seed(seed)
        self.model = nn.Sequential(
            nn.Linear(FEATURES, hidden), nn.BatchNorm1d(hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU(), nn.Linear(hidden, CLASSES)
        )
        self.params, self.buffers = list(self.model.parameters()), list(self.model.buffers())
        self._centres = torch.randn(CLASSES * CLOUDS, FEATURES) * apart
        self._test = self._draw(torch.Generator().manual_seed(seed + 1), 2000)
        self.first = self.row() + self.flat_buffers().tobytes()

    def _draw(self, dice: torch.Generator, count: int) -> tuple[Tensor, Tensor]:
        cloud = torch.randint(0, CLASSES * CLOUDS, (count,), generator=dice)
        return self._centres[cloud] + torch.randn(count, FEATURES, generator=dice), cloud % CLASSES

    def row(self) -> bytes:
        return parameters_to_vector(self.params).detach().numpy().tobytes()

    def flat_buffers(self) -> np.ndarray:
        return torch.cat([buffer.double().reshape(-1) for buffer in self.buffers]).numpy()

    def settings(self, grid: Grid, *, lr: float, momentum: float, gradients: bool, seed: int) -> Settings:
        recipe = Recipe(epochs=1000, batch=BATCH, optimizer="sgd", lr=lr, momentum=momentum, seed=seed, strategy=grid)
        shapes = {name: tuple(p.shape) for name, p in self.model.named_parameters()}
        buffers = len(self.flat_buffers())
        return Settings(
            recipe=recipe,
            rounds=grid.rounds or 100,
            batches=100,
            epoch_samples=100 * BATCH,
            local=False,
            parameters=shapes,
            buffers=buffers,
            gradients=gradients,
        )

    def load(self, version: bytes) -> Tensor:
        numel = sum(p.numel() for p in self.params)
        row = torch.frombuffer(bytearray(version[: 4 * numel]), dtype=torch.float32)
        vector_to_parameters(row.clone(), self.params)
        values, at = np.frombuffer(version, "<f8", offset=4 * numel), 0
        for buffer in self.buffers:
            buffer.copy_(torch.from_numpy(values[at : at + buffer.numel()].copy()).view(buffer.shape))
            at += buffer.numel()
        return row

    def work(self, version: bytes, task: Task, settings: Settings) -> tuple[Tensor, np.ndarray]:
        """The change, or the gradient, and the buffers afterwards."""
        row = self.load(version)
        dice = torch.Generator().manual_seed(task.seed)
        self.model.train()
        for _ in range(task.steps):
            x, y = self._draw(dice, BATCH)
            self.model.zero_grad()
            cross_entropy(self.model(x), y).backward()
            if settings.gradients:
                return parameters_to_vector([p.grad for p in self.params if p.grad is not None]), self.flat_buffers()
            with torch.no_grad():
                for p in self.params:
                    assert p.grad is not None
                    p -= settings.recipe.rate * p.grad
        return row - parameters_to_vector(self.params).detach(), self.flat_buffers()

    @torch.no_grad()
    def accuracy(self, version: bytes) -> float:
        self.load(version)
        self.model.eval()
        x, y = self._test
        return float((self.model(x).argmax(dim=1) == y).float().mean())


@dataclass
class Node:
    """As node/worker.py and node/keeper.py have it, without disk and network; and what liars do with it."""

    id: str
    kind: str
    settings: Settings
    dice: np.random.Generator
    kept: dict[int, Packet] = field(default_factory=dict)  # answers of which it is not known yet whether they are used
    done: int = 0
    stuck: list[int] = field(default_factory=list)  # tasks that it says it has, and never brings
    held: np.ndarray | None = None  # what a knowing liar would have to have kept back

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

    def answer(self, task: Task, change: Tensor, buffers: np.ndarray, version: bytes) -> bytes:
        if self.kind == "flipped":  # in everything
            change = -change
        if self.kind == "buffers":
            buffers = buffers * np.where(self.dice.random(len(buffers)) < 0.5, 30.0, -1.0)
        sketch = sketcher_of(self.settings).of(change.numpy())
        fresh = not self.compressor.state()
        held = change.numpy() + (0 if fresh or self.held is None else self.held)
        weights = torch.frombuffer(bytearray(version[: 4 * self.settings.layout.numel]), dtype=torch.float32)
        packet = self.compressor.encode(change.clone(), epoch_progress=task.progress, weights=weights)
        self.done += 1
        asleep = self.kind.startswith("sleeper") and self.done <= ASLEEP
        sent = packet if self.kind in ("honest", "flipped", "buffers") or asleep else self._lie(packet, held)
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
        return answers.write(head, sent.data, buffers, sketch)

    def _lie(self, packet: Packet, held: np.ndarray) -> Packet:
        """Another packet beside an honest sketch."""
        spec, layout = self.settings.grid.compression, self.settings.layout
        at, values = read_values(packet, layout, spec)
        what = self.kind.removeprefix("sleeper ").removesuffix(" packet")
        if what == "knowing" and at is not None:
            at, values = self._knowing(at, values, held)
        else:
            noise = self.dice.standard_normal(len(values)).astype(np.float32)
            noise *= np.float32(np.linalg.norm(values) / max(float(np.linalg.norm(noise)), 1e-9))
            values = {"turned": -values, "random": noise, "five times": 5 * values, "overturning": -8 * values}[what]
        if isinstance(spec, TopK | Dgc) and at is not None:
            sent, values = sparse.write(layout, at, values.astype(np.float32), CODINGS[spec.values])
            self.held = held.copy()
            self.held[at] -= values
            return sent
        other = compressor_of(self.settings.recipe, layout, gradients=self.settings.gradients)
        return other.encode(torch.from_numpy(values.astype(np.float32)), epoch_progress=0.0)

    def _knowing(self, at: np.ndarray, values: np.ndarray, held: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
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


class NetCrowd:
    """Nodes against the server's real code, one task after the other; some are away for a while."""

    def __init__(
        self, kinds: list[str], grid: Grid, *, seed: int = 0, hidden: int = 64, lr: float = 0.1, gradients: bool = False, away: float = 0.0
    ) -> None:
        self.net, self.kinds, self.away = Net(seed, hidden), kinds, away
        self.settings = self.net.settings(grid, lr=lr, momentum=0.9 if gradients else 0.0, gradients=gradients, seed=seed)
        self.hall = Hall(TorchLearner(), seed=seed)
        self.run = self.hall.begin("net", self.settings, self.net.first)
        self.dice = np.random.default_rng(seed)
        self.nodes = []
        for i, kind in enumerate(kinds):
            key = base64.b64encode(hashlib.sha256(f"{seed} {i}".encode()).digest()).decode()
            self.nodes.append(
                Node(self.hall.enrol(key, f"{kind} {i}"), kind, self.settings, np.random.default_rng(derive(seed, "node", i)))
            )
        self.off = np.zeros(len(kinds), bool)
        self._version: tuple[int, bytes] = -1, b""
        self._done: dict[int, tuple[Tensor, np.ndarray]] = {}

    def version(self, number: int) -> bytes:
        if self._version[0] != number:
            row = self.hall.desk.do(lambda tx: versions.get(tx, self.run, number))
            self._version = number, bytes(row.data)
        return self._version[1]

    def work(self, version: bytes, task: Task) -> tuple[Tensor, np.ndarray]:
        """Of one task the same for all who do it honestly, so it is done once."""
        if task.task not in self._done:
            self._done[task.task] = self.net.work(version, task, self.settings)
        return self._done[task.task]

    def turn(self) -> bool:
        busy = False
        for i, node in enumerate(self.nodes):
            if self.away:
                self.off[i] = self.dice.random() < (0.8 * self.away if not self.off[i] else 1 - 0.8 * (1 - self.away))
            if self.off[i]:
                continue
            try:
                work = self.hall.ask(node.id, Ask(want=1, holds=node.stuck[-8:]))
            except Denied:
                continue
            node.told(work)
            for task in work.tasks:
                busy = True
                if self.away and self.dice.random() < 0.05:
                    node.stuck.append(task.result)
                    continue
                version = self.version(task.version.number)
                change, buffers = self.work(version, task)
                said = self.hall.answer(node.id, task.result, node.answer(task, change, buffers, version))
                if said.state != "returned":
                    node.settled(task.result, said.state, "")
            self.hall.now += 1.0
            self.hall.office.turn()
        return busy

    def play(self, most: int = 3000) -> float:
        for _ in range(most):
            if self.hall.run(self.run).state != "open":
                break
            if not self.turn():
                self.hall.now += 30.0
        assert self.hall.run(self.run).state == "done", self.counts
        return self.accuracy

    @property
    def accuracy(self) -> float:
        """Of the newest version."""
        return self.net.accuracy(self.version(self.hall.run(self.run).version))

    @property
    def counts(self) -> dict[str, int]:
        return self.hall.counts(self.run)

    def banned(self) -> list[str]:
        return [row["name"] for row in self.known() if row["banned"]]

    def known(self) -> list[dict[str, Any]]:
        return self.hall.desk.do(nodes.everyone)

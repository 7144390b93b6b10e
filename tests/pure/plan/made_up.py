"""A job and a machine that nobody has measured: numbers that are easy to follow by hand."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from laminar.core.errors import LaminarError
from laminar.plan.desktops import Desktops
from laminar.plan.facts import Curve, Exchange, JobFacts, MachineFacts, ModelCost, OperatorCost, Packing, Pass, StageCost, StagesCost, Taken
from laminar.plan.known import How
from laminar.plan.machine import Link, Machine, Node
from laminar.train.compression import AnyCompression
from laminar.train.splitting import Branches, Pipeline

MS = 1e-3
ROW = 0.01 * MS  # seconds of a module for a row


def facts(**more: Any) -> MachineFacts:
    lines = {
        (link, kind, n): Curve(((0.0, 0.05 * MS), (1e6, 0.05 * MS + 1e6 / (4e9 if link == "memory" else 1e9))))
        for link in ("memory", "gloo")
        for kind in ("sum", "gather", "swap")
        for n in (2, 4, 8)
    }
    found: dict[str, Any] = {
        "cores": 4,
        "memory": 8 << 30,
        "lines": lines,
        "posts": {"memory": Curve(((0.0, 0.02 * MS), (1e6, 0.2 * MS))), "gloo": Curve(((0.0, 0.1 * MS), (1e6, 1.0 * MS)))},
        "shared_step": {n: Curve(((0.0, 0.05 * MS), (1e6, 0.3 * MS))) for n in (2, 4)},
        "wire": Curve(((0.0, 0.1 * MS), (1e6, 1.0 * MS))),
        "apply": Curve(((0.0, 0.05 * MS), (1e6, 0.5 * MS))),
        "crowd": {1: 1.0, 2: 1.0, 4: 1.1},
        "hidden": 0.3,
        "spread": 0.05,
        "process_bytes": 100_000_000,
    }
    return MachineFacts(**(found | more))


def machine(cores: int = 4, memory: int = 8 << 30, **more: Any) -> Machine:
    return Machine((Node("desk", cores, memory),), **more)


def desktops(count: int = 4, memory: int = 8 << 30, **more: Any) -> Desktops:
    nodes = tuple(Node(f"pc-{i}", 1, memory) for i in range(count))
    return Desktops(nodes, **({"link": Link(1e7, 0.01), "server": 1e8} | more))


@dataclass
class MadeUp:
    """A row of modules of `width`, each of which can be split over columns: then it takes its share of the time, and a sum."""

    modules: tuple[str, ...] = ("a", "b", "c", "d")
    batch: int = 64
    width: int = 256
    row: float = ROW
    untraceable: str | None = None
    machine_facts: MachineFacts = field(default_factory=facts)
    job_facts: dict[str, Any] = field(default_factory=dict)
    asked: list[Any] = field(default_factory=list)
    threads: list[int] = field(default_factory=list)  # that costs were asked for

    def job(self) -> JobFacts:
        weights = self.width * self.width * len(self.modules)
        given: dict[str, Any] = {
            "layer": "base",
            "batch": self.batch,
            "samples": 6400,
            "epochs": 2,
            "optimizer": "adam",
            "slots": 2,
            "parameters": weights,
            "row_bytes": 4 * self.width,
            "untrained": 0,
            "kept_per_row": 4 * self.width * len(self.modules),
            "gather": 0.0005 * MS,
            "loop": 0.05 * MS,
            "step": Curve(((0.0, 0.02 * MS), (1e6, 0.3 * MS))),
            "biggest": tuple((f"{name}.weight", 4 * self.width**2) for name in self.modules[:2]),
        }
        return JobFacts(**(given | self.job_facts))

    def machine(self, world: int) -> MachineFacts:
        return self.machine_facts

    def whole(self, rows: int, how: How = "module", threads: int = 1) -> Pass:
        more = 1.1 if how == "program" else 1.0
        each = rows * self.row * more * len(self.modules) / threads**0.7
        return Pass(rows, each, 2 * each)

    def parts(self, rows: int, threads: int = 1) -> ModelCost | None:
        """Where it cannot be traced: each module, and a tenth of the pass between them."""
        if self.untraceable is None:
            return None
        whole, count = self.whole(rows, "module", threads), len(self.modules)
        there, back, kept = 0.9 * whole.forward / count, 0.9 * whole.backward / count, 4 * rows * self.width
        found = [
            OperatorCost(name, name, (i - 1,) if i else (), there, back, 0.0, kept=kept, trained=(i,))
            for i, name in enumerate(self.modules)
        ]
        rest = OperatorCost("between modules", "", (count - 1,), 0.1 * whole.forward, 0.1 * whole.backward, 0.0)
        return ModelCost(rows, (*found, rest))

    def packing(self, how: AnyCompression) -> Packing:
        size = 4 * self.job().parameters
        share = {"none": 1.0, "fp16": 0.5, "int8": 0.26, "topk": 0.01, "dgc": 0.001, "powersgd": 0.02}[how.kind]
        sent = round(size * share)
        if how.kind == "none":
            return Packing(sent)
        return (
            Packing(sent, 1e-9 * size, 0.0, (sent // 2, sent - sent // 2))
            if how.kind == "powersgd"
            else Packing(sent, 1e-9 * size, 4e-10 * size)
        )

    def _row(self, threads: int) -> float:
        """Threads help as they do in whole passes."""
        self.threads.append(threads)
        return self.row / threads**0.7

    def cost(
        self, mesh: Mapping[str, int], split: Mapping[str, str], module: Mapping[str, Mapping[str, str]], rows: int, threads: int = 1
    ) -> ModelCost:
        self.asked.append((dict(mesh), dict(split), {path: dict(table) for path, table in module.items()}))
        row = self._row(threads)
        found = []
        trained = 0
        gradients = []
        for i, name in enumerate(self.modules):
            table = module.get(name, split)
            parts = {dim: mesh[axis] for dim, axis in table.items()}
            if len(set(table.values())) < len(table):
                raise LaminarError("L012", "two dimensions on one axis", hint="another axis")
            own = rows // parts.get("batch", 1) or 1
            seconds = own * row / parts.get("hidden", 1)
            size = 4 * own * self.width
            after = (Exchange("sum", table["hidden"], size),) if "hidden" in table else ()
            kept = size
            if "batch" in table:
                gradients.append(Exchange("sum", table["batch"], 4 * self.width**2 // parts.get("hidden", 1)))
            trained += 4 * self.width**2 // parts.get("hidden", 1)
            found.append(OperatorCost(f"{name}.mm", name, (i - 1,) if i else (), seconds, seconds, seconds, (), after, after, kept, size))
        return ModelCost(rows, tuple(found), tuple(gradients), trained)

    def check(
        self, mesh: Mapping[str, int], split: Mapping[str, str], module: Mapping[str, Mapping[str, str]], rows: int, threads: int = 1
    ) -> None:
        """Nothing was measured."""

    def stages(self, how: Pipeline | Branches, batch: int, threads: int = 1) -> StagesCost:
        lanes = how.lanes
        depth = how.depth if isinstance(how, Pipeline) else lanes
        if depth > len(self.modules):
            raise LaminarError("L012", f"the model cannot be cut into {depth} stages", hint="fewer")
        batches = how.batches(batch // how.parts) if isinstance(how, Pipeline) else 1
        rows = max(1, batch // (batches * how.parts))
        each = len(self.modules) / depth * rows * self._row(threads)
        size = 4 * rows * self.width
        stages = []
        for number in range(depth):
            source = (Taken(number - 1, size, True),) if number and isinstance(how, Pipeline) else ()
            weights = 4 * self.width**2 * len(self.modules) // depth
            stages.append(StageCost(number % lanes, each, each, each, source, kept=size, trained=weights, modules=f"s{number}"))
        return StagesCost(tuple(stages), lanes, batches)

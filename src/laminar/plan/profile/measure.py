"""Measure: all that a planner wants to know of a job and of this machine, measured when it is asked for, once.

    with Profile.open(job) as profile:
        profile.job(), profile.machine(2)                                    # what a step consists of beside the model; links
        profile.whole(64, "module"), profile.cost({"cols": 2}, {"hidden": "cols"}, {}, 64)

Operators are timed one by one, and a pass of all of them takes longer than their sum: caches, memory, the work between. So the times of
operators are multiplied by what makes the sum of the whole model, nothing split, equal to a pass that was measured at once; the same
factors are then used for its splits.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import Any, final

import msgspec

from laminar.core import digest
from laminar.core.errors import LaminarError
from laminar.core.figures import many
from laminar.core.heap import keep_freed_memory
from laminar.parallel.split.named import inside, paths_of
from laminar.parallel.split.prepare import rules_of
from laminar.parallel.split.rules import Rules
from laminar.parallel.stages.branches import find_blocks
from laminar.parallel.stages.flow import Flow
from laminar.parallel.stages.prepare import micro_batches
from laminar.plan.budget import Budget, OutOfTime
from laminar.plan.facts import JobFacts, MachineFacts, ModelCost, Packing, Pass, StagesCost
from laminar.plan.known import How
from laminar.plan.our_code import our_code
from laminar.plan.profile.busy import Quiet
from laminar.plan.profile.by_modules import ByModules
from laminar.plan.profile.job_facts import gradient_noise, job_facts, signature
from laminar.plan.profile.kept import Kept
from laminar.plan.profile.links import links_known, machine_facts
from laminar.plan.profile.meter import Meter, Tell, silent
from laminar.plan.profile.operators import Operators, last_place
from laminar.plan.profile.packing import packing
from laminar.plan.profile.passes import module_pass, program_pass
from laminar.plan.profile.stage_costs import stages_cost
from laminar.plan.profile.this_machine import this_machine, torch_version
from laminar.plan.profile.timing import Effort
from laminar.plan.profile.traced_job import TracedJob, rules
from laminar.train.compression import AnyCompression
from laminar.train.job import Job
from laminar.train.splitting import Branches, Pipeline


@dataclass(frozen=True)
class Scale:
    """By what times of operators are multiplied, there and back."""

    forward: float
    backward: float


@final
class Profile:
    """Known (plan/known.py). Nothing is printed; `tell(what, done, of)` hears what is being measured."""

    def __init__(self, job: Job, meter: Meter) -> None:
        self._job, self.meter = job, meter
        self._traced = TracedJob(job)
        self._facts: JobFacts | None = None
        self._machines: dict[int, MachineFacts] = {}
        self._costs: dict[Any, ModelCost] = {}
        self._uncalibrated: dict[tuple[int, int], ModelCost] = {}  # by rows and threads
        self._stages: dict[Any, StagesCost] = {}
        self._checked: dict[Any, Scale] = {}  # of rules that were held against a worker
        self.scales: dict[tuple[int, bool, int], Scale] = {}  # by rows, whether it is for stages, and threads

    @classmethod
    def open(
        cls,
        job: Job,
        *,
        path: Path | None = None,
        tell: Tell = silent,
        even_if_busy: bool = False,
        again: bool = False,
        effort: Effort | None = None,
    ) -> Profile:
        """`path`: where measurements are kept, if not with the user's own; `again`: those there are not used."""
        keep_freed_memory()  # as every process that trains does
        kept = Kept.open(path)
        if again:
            kept.start_anew()
        return cls(job, Meter(kept, quiet=Quiet(even_if_busy=even_if_busy), tell=tell, effort=effort))

    def __enter__(self) -> Profile:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None) -> None:
        self.meter.kept.close()

    # What it is measured on

    @property
    def cores(self) -> int:
        return this_machine().cores

    @property
    def machine_name(self) -> str:
        here = this_machine()
        return f"{here.processor}, {here.cores} cores, {round(here.memory / 2**30)} GiB"

    @property
    def quiet(self) -> Quiet:
        """Is anybody else busy here?"""
        return self.meter.quiet

    def within(self, budget: Budget) -> None:
        """From now on: what is not known is OutOfTime when it is over."""
        self.meter.budget = budget

    @property
    def torch_version(self) -> str:
        return torch_version()

    @cached_property
    def untraceable(self) -> str | None:
        """Why the model is known by its modules only."""
        self.meter.tell("tracing the model", 0, 1)
        try:
            self._traced.training, self._traced.judging  # noqa: B018 - they are traced here
            for call in (*self._traced.training.calls, *self._traced.judging.calls):
                call.function  # noqa: B018 - which every worker of a mesh has to find by its name: not a kernel
        except LaminarError as error:
            return error.message
        finally:
            self.meter.tell("tracing the model", 1, 1)
        return None

    @property
    def looked_into(self) -> bool:
        """Is it known by now whether it can be traced? That takes its time."""
        return "untraceable" in self.__dict__

    @cached_property
    def _signature(self) -> str:
        return signature(self._job)

    @cached_property
    def _about(self) -> str:
        """With what was traced, for what goes by that."""
        parts = [self._signature, self._traced.digest if self.untraceable is None else ""]
        return digest.of_json(parts)

    def digest(self) -> str:
        """The same for models of which the same is known."""
        return self._signature

    @property
    def notes(self) -> list[str]:
        found = list(self.meter.kept.notes)
        if not self.looked_into:
            found.append("there was no time to look into the model: nothing that splits or cuts it was priced; a larger budget gives it")
        elif self.untraceable is not None:
            lost = "no plan splits its operators (mesh), cuts it (pipeline) or shares out its branches"
            found.append(f"{self.untraceable}; {self._modules.told()}; what is lost: {lost}")
        elif odd := list(self._operators.odd):
            found.append(
                f"{len(odd)} operators do not work by themselves, and are taken for copies of what they give: {', '.join(odd[:3])}"
            )
        if count := self.meter.kept.disturbed:
            found.append(f"{many(count, 'figure', 'was')} measured while other programs were at work, and may be far off")
        return found

    # The job and the machine

    def job(self) -> JobFacts:
        if self._facts is None:
            self._facts = job_facts(self._job, self.meter)
        return self._facts

    def packing(self, how: AnyCompression) -> Packing:
        """The gradient of the whole model, made small: what is sent of it, and what that takes."""
        return packing(self._job, how, self.meter)

    def noise(self) -> float | None:
        """The gradient noise scale in samples; None: it cannot be told, or there is no time to."""
        try:
            return gradient_noise(self._job, self.meter)
        except OutOfTime:
            return None

    @property
    def knows_links(self) -> bool:
        """Or can processes of this machine only be priced together after some have been started to measure that?"""
        return links_known(min(2, self.cores), self.meter)

    def machine(self, world: int) -> MachineFacts:
        world = max(world, min(2, self.cores))  # what is known of two is known of one
        if world not in self._machines:
            self._machines[world] = machine_facts(world, self.meter)
        return self._machines[world]

    # The model

    @cached_property
    def _operators(self) -> Operators:
        return Operators(self._traced, self.meter)

    def flow(self) -> Flow:
        """The traced model, nothing split. L209 if it cannot be traced."""
        return self._traced.flow

    def dimensions(self) -> list[str]:
        """Names of dimensions that its tensors have; none where nothing can be split."""
        return sorted(inside(self._traced.names, "")) if self.untraceable is None else []

    def modules(self) -> dict[str, list[str]]:
        """Those that have trained tensors of their own, and so may be split in a way of their own, with the dimensions they have."""
        if self.untraceable is not None:
            return {}
        flow, there = self.flow(), set(paths_of(self._job.model))
        tensors, trained = flow.placed.traced.tensors, self._traced.trained
        found = [op.call.path for op in flow.operations if any(tensors.get(node) in trained for node in op.operands)]
        return {path: sorted(inside(self._traced.names, path)) for path in dict.fromkeys(found) if path in there}

    def kinds(self) -> dict[str, str]:
        """Of the modules: blocks that differ by their number alone are of one kind."""
        named = dict(self._job.model.named_modules())
        shapes = {path: [list(one.shape) for one in named[path].parameters()] for path in self.modules()}
        return {path: f"{re.sub(r'[0-9]+', '#', path)} {shape}" for path, shape in shapes.items()}

    def branches(self) -> int:
        """Side by side, at most."""
        if self.untraceable is not None:
            return 1
        return max((len(block.branches) for block in find_blocks(self.flow())), default=1)

    def whole(self, rows: int, how: How = "module", threads: int = 1) -> Pass:
        """A pass of so many rows, there and back."""
        return self._pass(rows, "module" if how == "module" or self.untraceable is not None else how, threads)

    def _pass(self, rows: int, how: str, threads: int = 1) -> Pass:
        job, effort = self._job, self.meter.effort

        def measure() -> list[list[float]]:
            if how == "module":
                return module_pass(job, rows, effort)
            placed, tensors = self.flow().placed, self._traced.tensors()
            return program_pass(job, placed, rows, effort, at={}, tensors=tensors, staged=how == "staged")

        key: dict[str, Any] = {"what": "pass", "how": how, "rows": rows}
        key |= {"job": self._signature} if how == "module" else {"job": self._about, "code": our_code("parallel/split")}
        forward, backward = self.meter.one(f"a pass of {rows} rows", key, measure, threads=threads)
        return Pass(rows, forward[0], backward[0])

    def cost(
        self, mesh: Mapping[str, int], split: Mapping[str, str], module: Mapping[str, Mapping[str, str]], rows: int, threads: int = 1
    ) -> ModelCost:
        """As one worker of a mesh runs it; on none, as one process does. L012 for rules that the model does not allow."""
        return self._cost(rules(mesh, split, module), rows, threads, staged=False)

    def dry(
        self, mesh: Mapping[str, int], split: Mapping[str, str], module: Mapping[str, Mapping[str, str]], rows: int, threads: int = 1
    ) -> Pass:
        """A worker of a mesh by itself, its exchanges made up: what it computes, at once."""
        found = rules(mesh, split, module)
        placed, _ = self._traced.placed(found)
        key = {"what": "dry", "job": self._about, "rows": rows, "rules": [list(found.mesh.items()), dict(found.split), dict(found.modules)]}
        key["code"] = our_code("parallel/split")
        job, effort, tensors, at = self._job, self.meter.effort, self._traced.tensors(), last_place(placed.mesh)

        def measure() -> list[list[float]]:
            return program_pass(job, placed, rows, effort, at=at, tensors=tensors, staged=False)

        forward, backward = self.meter.one("a worker alone", key, measure, threads=threads)
        return Pass(rows, forward[0], backward[0])

    def check(
        self, mesh: Mapping[str, int], split: Mapping[str, str], module: Mapping[str, Mapping[str, str]], rows: int, threads: int = 1
    ) -> None:
        """Operators are measured one by one, with all they need in the cache, and `scale` corrects what that leaves out of the whole
        model. Rules that a search has found among thousands are those whose operators are mostly wrong in their favour."""
        wanted, dry = rules(mesh, split, module), self.dry(mesh, split, module, rows, threads)
        cost = self._operators.cost(self._traced.placed(wanted)[0], rows, threads=threads)
        self._checked[_named(wanted), threads] = Scale(dry.forward / max(cost.forward, 1e-9), dry.backward / max(cost.backward, 1e-9))
        self._costs = {key: cost for key, cost in self._costs.items() if key[0] != _named(wanted)}

    def stages(self, how: Pipeline | Branches, batch: int, threads: int = 1) -> StagesCost:
        """In stages as the executor would cut them. L012 for what the model does not allow."""
        key = (repr(how), batch, threads)
        if key not in self._stages:
            job = replace(self._job, recipe=msgspec.structs.replace(self._job.recipe, batch=batch))
            self._refuse_whole()
            flows = self._traced.flows(rules_of(how))
            most, _ = micro_batches(job, how, flows[0])  # what cannot be need not be measured
            cost = self._cost(rules_of(how), most * how.parts, threads, staged=True)
            self._stages[key] = stages_cost(job, how, flows, cost)
        return self._stages[key]

    def _cost(self, wanted: Rules, rows: int, threads: int = 1, *, staged: bool) -> ModelCost:
        key = (_named(wanted), rows, staged, threads)
        if key not in self._costs:
            self._costs[key] = self._scaled(wanted, rows, threads, staged=staged)
        return self._costs[key]

    def _scaled(self, wanted: Rules, rows: int, threads: int, *, staged: bool) -> ModelCost:
        if self.untraceable is not None:
            if wanted.mesh or wanted.split or wanted.modules:
                self._refuse_whole()
            return self._modules.cost(rows, threads, self.whole(rows, threads=threads))
        scale = (None if staged else self._checked.get((_named(wanted), threads))) or self.scale(rows, threads, staged=staged)
        split = bool(wanted.split or wanted.modules or wanted.mesh)
        placed = self._traced.placed(wanted)[0] if split else None
        cost = self._operators.cost(placed, rows, threads=threads) if placed is not None else self._unsplit(rows, threads)
        operators = tuple(
            replace(one, forward=one.forward * scale.forward, inputs=one.inputs * scale.backward, weights=one.weights * scale.backward)
            for one in cost.operators
        )
        return replace(cost, operators=operators)

    def scale(self, rows: int, threads: int = 1, *, staged: bool = False) -> Scale:
        """Of the times of operators, for passes of so many rows."""
        key = (rows, staged, threads)
        if key not in self.scales:
            cost, whole = self._unsplit(rows, threads), self._pass(rows, "staged" if staged else "program", threads)
            self.scales[key] = Scale(whole.forward / max(cost.forward, 1e-9), whole.backward / max(cost.backward, 1e-9))
        return self.scales[key]

    def _unsplit(self, rows: int, threads: int) -> ModelCost:
        if (rows, threads) not in self._uncalibrated:
            self._uncalibrated[rows, threads] = self._operators.cost(self.flow().placed, rows, threads=threads)
        return self._uncalibrated[rows, threads]

    @cached_property
    def _modules(self) -> ByModules:
        return ByModules(self._job, self.meter)

    def parts(self, rows: int, threads: int = 1) -> ModelCost | None:
        """By modules, where it is known by now that the model cannot be traced, and as long as there is time."""
        if not self.looked_into or self.untraceable is None:
            return None
        try:
            return self._modules.cost(rows, threads, self.whole(rows, threads=threads))
        except OutOfTime:
            return None

    def _refuse_whole(self) -> None:
        if self.untraceable is not None:
            raise LaminarError("L209", self.untraceable, hint='strategy = "sync" splits by data and takes any model')


def _named(wanted: Rules) -> tuple[Any, ...]:
    tables = tuple((path, tuple(table.items())) for path, table in wanted.modules.items())
    return tuple(wanted.mesh.items()), tuple(wanted.split.items()), tables

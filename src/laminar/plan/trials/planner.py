"""Planner: a job's plans. What is measured, searched and corrected by the ledger, together."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from laminar.core.clock import SYSTEM, Clock
from laminar.core.figures import many, more_than
from laminar.plan.budget import ENDLESS, Budget, OutOfTime
from laminar.plan.candidates import Space
from laminar.plan.desktops import Desktops, GridPrice
from laminar.plan.explain import Turn, conclusion, turning_points
from laminar.plan.kept_plans import By, KeptAnswer, answer
from laminar.plan.ledger import Ledger
from laminar.plan.machine import Machine, this_machine
from laminar.plan.our_code import TRAINING, our_code
from laminar.plan.plan import Plan
from laminar.plan.price import Pricer
from laminar.plan.profile.measure import Profile
from laminar.plan.search import BIGGEST, Found, Inside, Search, Tell, no_room, no_time
from laminar.plan.steps_needed import StepsModel
from laminar.train.job import Job
from laminar.train.snapshot import trainable

BUDGET: Final = 60.0  # seconds of measuring and searching
LEAST_BUDGET: Final = 0.05  # in which not even one plan has a price
TRACED: Final = 0.012  # seconds that it takes to trace a module twice, as it is trained and as it is judged, about
Hear = Callable[[Plan, float], None]  # the best plan so far, and the seconds that it took to find it
PROCESS: Final = 150_000_000  # bytes that a worker takes before it has a model, at the very least
OTHER_BATCHES: Final = (0.5, 2.0, 4.0)  # times that of the recipe


@dataclass(frozen=True)
class Wishes:
    """What the user wants of a search."""

    workers: int | None = None  # at most; None: as many as the machine has cores
    machine: Machine | None = None  # None: the one at hand
    batch: int | None = None  # None: others than the recipe's are tried, too
    budget: float = BUDGET
    seed: int = 0
    only_same: bool = False
    desktops: Desktops | None = None  # of a grid that can be commanded from the machine at hand
    grid: GridPrice | None = None  # who knows what desktops take, where there are any


@dataclass(frozen=True)
class Planned:
    found: Found
    pricer: Pricer
    machine: Machine
    steps: StepsModel
    notes: tuple[str, ...] = ()
    budget: Budget = ENDLESS

    def turns(self) -> list[Turn]:
        """What would change the answer. A grid is played anew for that, if there is time."""
        plans = [plan for plan in self.found.plans if not (self.budget.over and plan.kind == "grid")]
        return turning_points(_elsewhere(self.pricer, self.machine), plans) if plans[:1] == self.found.plans[:1] else []

    def answer(
        self, stack: str, layer: str, by: By, *, measured: Mapping[int, float], turns: Sequence[Turn] = (), chosen: int = 0
    ) -> KeptAnswer:
        """To be kept. `measured`: seconds of a step by number of the plan; `chosen`: the one that is the answer."""
        found = self.found
        return answer(
            stack,
            layer,
            by,
            found.plans,
            machine=self.machine.name,
            conclusion=conclusion(found.plans, found.left_out, found.refused),
            to_target=self.steps.source,
            left_out=found.left_out,
            notes=self.notes,
            turns=[str(turn) for turn in turns],
            chosen=chosen,
            measured=measured,
        )


def plan_job(
    job: Job,
    profile: Profile,
    ledger: Ledger,
    wishes: Wishes,
    *,
    clock: Clock = SYSTEM,
    tell: Tell = lambda *_: None,
    hear: Hear = lambda *_: None,
) -> Planned:
    """The budget is for all of it. L015 where it was too small for any answer."""
    if not wishes.budget >= LEAST_BUDGET:  # nor is nan a time
        raise no_time(wishes.budget, 0)
    if wishes.machine is not None:
        refuse_hopeless(job, wishes.machine)
    budget = Budget(wishes.budget, clock)
    profile.within(budget)
    try:
        return _planned(job, profile, ledger, wishes, budget, tell, hear)
    except OutOfTime:
        raise no_time(wishes.budget, 0, links=not profile.knows_links) from None


def _planned(job: Job, profile: Profile, ledger: Ledger, wishes: Wishes, budget: Budget, tell: Tell, hear: Hear) -> Planned:
    samples = len(job.data.train)
    base = min(job.recipe.batch, samples)  # no batch has more rows than there are
    recipe = msgspec.structs.replace(job.recipe, batch=min(wishes.batch or base, samples))
    here = this_machine(profile.machine(min(2, profile.cores)))
    machine = wishes.machine or dataclasses.replace(here, grid=wishes.desktops)
    profile.job()  # without which nothing has a price; noise only changes the order
    steps = StepsModel.same() if wishes.only_same else StepsModel.of(profile.noise())
    pricer = Pricer(
        profile,
        machine,
        steps,
        base_batch=base,
        threads=recipe.threads,
        corrections=ledger.corrections(
            profile.machine_name, profile.torch_version, our_code(*TRAINING), also_busy=profile.quiet.even_if_busy
        ),
        grid=wishes.grid,
    )
    space = Space(
        workers=wishes.workers or machine.cores,
        recipe=recipe,
        samples=samples,
        several=not machine.one_node,
        stragglers=machine.stragglers.slow_share > 0 or machine.stragglers.spread > 0.3,
        only_same=wishes.only_same,
        tensors=len(trainable(job.model)),
        **_desktops(machine.grid if wishes.grid is not None else None, profile, recipe.batch),
    )
    found = Search(
        pricer,
        space,
        look=lambda: _look(job, profile, budget),
        batches=[] if wishes.batch is not None or wishes.only_same else _others(recipe.batch, samples),
        budget=budget,
        seed=wishes.seed,
        tell=tell,
        hear=lambda plan: hear(plan, budget.spent),
    ).run()
    notes = [*profile.notes, *ledger.notes]
    if machine.grid is not None and machine.grid.source:
        notes.append(f"the grid: {machine.grid.source}")
    if recipe.accumulate > 1:
        notes.append(f"a step of {recipe.accumulate} batches is priced as that many steps")
    if recipe.threads is None and machine.nodes[0].cores > profile.cores:
        most = f"a process is priced with {many(profile.cores, 'thread')} at most, and many processes as {profile.cores} disturb each other"
        notes.append(f"{most}: there are no more cores here to measure it with")
    return Planned(found, pricer, machine, steps, tuple(notes), budget)


def _look(job: Job, profile: Profile, budget: Budget) -> Inside:
    """Into the model. A trace cannot be broken off, so it is not begun where there is too little time for it."""
    if budget.left < TRACED * sum(1 for _ in job.model.modules()):
        raise OutOfTime
    return Inside(profile.dimensions(), profile.branches(), profile.modules(), profile.kinds(), by_modules=profile.untraceable is not None)


def refuse_hopeless(job: Job, machine: Machine) -> None:
    """L014, before anything is measured, where no worker has room for as little as its share of the parameters."""
    tensors = [*job.model.named_parameters(), *job.model.named_buffers()]
    share = sum(tensor.nbytes for _, tensor in tensors) // max(1, machine.cores)
    room = max(node.memory for node in machine.nodes)
    if PROCESS + share > room:
        biggest = sorted(((name, tensor.nbytes) for name, tensor in tensors), key=lambda one: -one[1])[:BIGGEST]
        needed, there = more_than(PROCESS + share, room)
        needs = f"a worker takes {needed} or more ({PROCESS / 1e9:.2f} GB of it without a model)"
        raise no_room(f"{needs}, and the largest node has {there}", biggest)


def _desktops(grid: Desktops | None, profile: Profile, batch: int) -> dict[str, Any]:
    """What a search has to know of a grid: how many there are, and how long a step takes the one in the middle."""
    if grid is None:
        return {}
    usual = sorted(grid.nodes, key=lambda node: node.speed)[len(grid.nodes) // 2]
    whole = profile.whole(batch, "module", max(1, min(usual.cores, profile.cores)))
    return {"desktops": len(grid.nodes), "desktop_step": whole.seconds / usual.speed}


def _others(batch: int, samples: int) -> list[int]:
    found = [round(batch * times) for times in OTHER_BATCHES]
    return [one for one in found if 2 <= one <= samples // 8]


def _elsewhere(pricer: Pricer, machine: Machine) -> Sequence[tuple[str, Pricer]]:
    """Machines that differ from the one at hand in one thing."""
    found: list[tuple[str, Machine]] = []
    if not machine.one_node:
        for times, what in ((10.0, "a link ten times as fast"), (0.1, "a link ten times as slow")):
            link = dataclasses.replace(machine.link, bandwidth=machine.link.bandwidth * times)
            found.append((what, dataclasses.replace(machine, link=link)))
    calm = machine.stragglers
    found.append(
        (
            "one step in ten taking four times as long",
            dataclasses.replace(machine, stragglers=dataclasses.replace(calm, slow_share=0.1, slow_factor=4.0)),
        )
    )
    if machine.grid is not None and len(machine.grid.nodes) > 1:
        fewer = dataclasses.replace(machine.grid, nodes=machine.grid.nodes[::2])
        found.append(("half of the desktops", dataclasses.replace(machine, grid=fewer)))
    half = tuple(dataclasses.replace(node, cores=max(1, node.cores // 2)) for node in machine.nodes)
    found.append(("half of the cores", dataclasses.replace(machine, nodes=half)))
    return [(what, pricer.on(other)) for what, other in found]

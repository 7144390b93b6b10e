"""Search: the fastest plans of all that can be run, within a budget of time.

Every candidate with its degrees is priced (there are some dozens of them). Then, for the best meshes, the tables of single modules: all
combinations where these are few, a seeded walk through them elsewhere (anneal.py). Then the best ones with other batches. No torch here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final, final

import msgspec

from laminar.core.clock import Clock
from laminar.core.errors import LaminarError
from laminar.plan.anneal import Best, anneal, size_of, try_all
from laminar.plan.candidates import Space, allowed, candidates
from laminar.plan.cuts import cut_by_speed, module_costs
from laminar.plan.plan import Plan
from laminar.plan.price import Pricer, Refused
from laminar.plan.search_modules import MeshWalk, choices_for
from laminar.train.on_grid import Grid
from laminar.train.splitting import Mesh, Pipeline
from laminar.train.strategies import AnyStrategy

SMALL: Final = 300  # combinations of tables up to which all are tried
EVALUATIONS: Final = 400  # of a walk
BIGGEST: Final = 3  # tensors that are named where there is no room
MESHES: Final = 2  # whose modules are looked at
WITH_OTHER_BATCHES: Final = 6  # plans

Tell = Callable[[str, int, int], None]  # what, how many are behind, of how many


@dataclass(frozen=True)
class Walked:
    """A search over the modules of a mesh."""

    mesh: dict[str, int]
    split: dict[str, str]  # that all modules had before
    evaluated: int
    space: int
    gain: float  # of the mesh's own table over the best one
    whole: bool  # all of them were priced


@dataclass
class Found:
    plans: list[Plan] = field(default_factory=list)  # best first
    refused: list[Refused] = field(default_factory=list)
    walked: list[Walked] = field(default_factory=list)
    left_out: int = 0  # that there was no time for
    seconds: float = 0.0

    @property
    def best(self) -> Plan:
        return self.plans[0]


@final
class Search:
    def __init__(
        self,
        pricer: Pricer,
        space: Space,
        *,
        modules: Sequence[str] = (),
        batches: Sequence[int] = (),
        budget: float = 60.0,
        seed: int = 0,
        clock: Clock,
        tell: Tell = lambda *_: None,
    ) -> None:
        """`modules`: those that may be split in their own ways. `batches`: to be tried beside that of the recipe."""
        self._pricer, self._space, self._modules, self._batches = pricer, space, list(modules), list(batches)
        self._budget, self._seed, self._clock, self._tell = budget, seed, clock, tell
        self._began = clock.monotonic()
        self.found = Found()

    def _late(self) -> bool:
        return self._clock.monotonic() - self._began >= self._budget

    def run(self) -> Found:
        found, batch = self.found, self._space.recipe.batch
        ways = list(candidates(self._space))
        for number, how in enumerate(ways):
            self._tell("plans", number, len(ways))
            if number and self._late():  # the first one is one process: it is always good to know
                found.left_out += len(ways) - number
                break
            self._add(self._pricer.price(how, batch))
        if not found.plans:
            raise self._nothing(len(ways))
        self._cut_by_speed(batch)
        self._rank()
        self._split_modules(batch)
        self._other_batches()
        self._rank()
        found.seconds = self._clock.monotonic() - self._began
        return found

    def _add(self, priced: Plan | Refused) -> None:
        if isinstance(priced, Plan):
            self.found.plans.append(priced)
        else:
            self.found.refused.append(priced)

    def _rank(self) -> None:
        """What one process learns comes first where times are equal; then what needs fewer workers."""
        self.found.plans.sort(key=lambda plan: (plan.seconds_to_target, not plan.same_result, plan.workers, plan.name))

    def _nothing(self, ways: int) -> LaminarError:
        if self._late() and len(self.found.refused) < ways:
            return no_time(self._budget, ways)
        least = min(self.found.refused, key=lambda one: one.memory or float("inf"))
        return no_room(f"of {ways} plans the one that needs least would take {least.why}", self._pricer.known.job().biggest)

    def _cut_by_speed(self, batch: int) -> None:
        """Pipelines over nodes of unlike speed, with stages that fit them."""
        known = self._pricer.known
        for plan in [plan for plan in self.found.plans if isinstance(plan.strategy, Pipeline)]:
            how = plan.strategy
            assert isinstance(how, Pipeline)
            places = self._pricer.places(how)
            speeds = [1.0 / places.slow(lane * (how.workers // how.lanes)) for lane in range(how.lanes)]
            if how.depth != how.lanes or max(speeds) < 1.1 * min(speeds) or self._late():
                continue
            cut = cut_by_speed(module_costs(known.cost({}, {}, {}, batch)), speeds)
            if cut and "" not in cut:
                self._add(self._pricer.price(msgspec.structs.replace(how, cut=cut), batch))

    # Tables of single modules

    def _split_modules(self, batch: int) -> None:
        meshes = [plan for plan in self.found.plans if isinstance(plan.strategy, Mesh)][:MESHES]
        for number, plan in enumerate(meshes):
            if self._late() or not self._modules:
                break
            self._tell("modules", number, len(meshes))
            how = plan.strategy
            assert isinstance(how, Mesh)
            places = self._pricer.places(how)
            names = [
                name for name in self._space.dimensions if name in ("hidden", "channels", "height", "width", "length", "heads", "vocab")
            ]
            choices = choices_for(how, self._modules, names)
            walk = MeshWalk(self._pricer.known, places, how, choices, batch)
            whole = size_of(choices.options) <= SMALL
            best: Best = (
                try_all(walk, choices.options)
                if whole
                else anneal(walk, choices.options, choices.starts(), evaluations=EVALUATIONS, seed=self._seed, enough=self._late)
            )
            self._pricer.priced += best.evaluated
            chosen = choices.strategy(how, best.state)
            gain = plan.raw_seconds / best.cost
            self.found.walked.append(Walked(dict(how.mesh), dict(how.split), best.evaluated, best.space, gain, whole))
            if chosen != how and gain > 1.0:
                self._add(self._pricer.price(chosen, batch))

    def _other_batches(self) -> None:
        """The steps that it takes depend on the batch, and so does the time of one."""
        for plan in list(self.found.plans[:WITH_OTHER_BATCHES]):
            for batch in self._batches:
                how = _with_room(plan.strategy, batch)
                if how is None or self._late() or not allowed(self._space, how):
                    continue
                self._tell("batches", len(self.found.plans), len(self.found.plans) + 1)
                self._add(self._pricer.price(how, batch))


def no_time(budget: float, ways: int) -> LaminarError:
    some = f", of {ways} that there are" if ways else ""
    return LaminarError("L015", f"no plan was priced in {budget:g} seconds{some}", hint=f"--budget {max(10.0, 10 * budget):.0f}")


def no_room(why: str, biggest: Sequence[tuple[str, int]]) -> LaminarError:
    tensors = ", ".join(f"{name} {size / 1e6:,.1f} MB" for name, size in biggest)
    return LaminarError(
        "L014", f"no plan fits: {why}; the largest tensors: {tensors}", hint="more workers or nodes, a smaller batch, or smaller modules"
    )


def _with_room(how: AnyStrategy, batch: int) -> AnyStrategy | None:
    """The same, if a batch of so many rows can be shared so."""
    if isinstance(how, Grid):  # whose tasks are of whole batches
        return how
    rows = getattr(how, "microbatches", 1) or 1
    return how if batch >= rows * how.workers else None


def cheapest_same(plans: Sequence[Plan]) -> list[Plan]:
    """Those that learn what one process learns, with one of each kind and number of workers, best first."""
    found: dict[tuple[str, int], Plan] = {}
    for plan in plans:
        if plan.same_result:
            found.setdefault((plan.kind, plan.workers), plan)
    return list(found.values())

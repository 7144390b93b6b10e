"""Search: the fastest plans of all that can be run, within a budget of time.

Every candidate with its degrees is priced (there are some dozens of them): first what need not look into the model, so that there is an
answer early, then what splits it. Then, for the best meshes, the tables of modules, alike ones together where they are many: all
combinations where these are few, a seeded walk through them elsewhere (anneal.py). Then the best ones with other batches. Whatever there
is no time for is left out and counted. No torch here.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, final

import msgspec

from laminar.core.errors import LaminarError
from laminar.plan.anneal import Best, anneal, size_of, try_all
from laminar.plan.budget import Budget, OutOfTime
from laminar.plan.candidates import Space, allowed, by_data, by_model, grids
from laminar.plan.cuts import cut_by_speed, module_costs
from laminar.plan.plan import Plan
from laminar.plan.price import Pricer, Refused
from laminar.plan.search_modules import Group, MeshWalk, choices_for, groups_of
from laminar.train.on_grid import Grid
from laminar.train.splitting import Mesh, Pipeline
from laminar.train.strategies import AnyStrategy

SMALL: Final = 300  # combinations of tables up to which all are tried
EVALUATIONS: Final = 400  # of a walk
BIGGEST: Final = 3  # tensors that are named where there is no room
MESHES: Final = 2  # whose modules are looked at
WITH_OTHER_BATCHES: Final = 6  # plans
FOR_MODULES: Final = 0.5  # of the time that is left when all candidates have a price
DRAWN: Final = 20  # plans that keep their timelines, the best ones: those of a deep model on many workers are long

Tell = Callable[[str, int, int], None]  # what, how many are behind, of how many


@dataclass(frozen=True)
class Inside:
    """What a look into the model tells: by which dimensions it can be split; how many branches it has side by side; its modules that may
    have tables of their own, and of which kind each is."""

    dimensions: Collection[str] = ()
    branches: int = 1
    modules: Mapping[str, Collection[str]] = field(default_factory=dict)  # with the dimensions that they have
    kinds: Mapping[str, str] = field(default_factory=dict)  # of modules
    by_modules: bool = False  # it cannot be traced, so passes are known by its modules


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
        look: Callable[[], Inside],
        batches: Sequence[int] = (),
        budget: Budget | None = None,
        seed: int = 0,
        tell: Tell = lambda *_: None,
        hear: Callable[[Plan], None] = lambda _: None,
    ) -> None:
        """`look`: into the model, which takes its time or is OutOfTime; `space` knows nothing of it yet. `batches`: to be tried beside that
        of the recipe.
        `hear`: told of the best plan so far, whenever there is a better one."""
        self._pricer, self._space, self._look, self._batches = pricer, space, look, list(batches)
        self._budget, self._seed, self._tell, self._hear = budget or Budget(), seed, tell, hear
        self._groups: Mapping[Group, Collection[str]] = {}
        self.found = Found()

    def run(self) -> Found:
        found, batch = self.found, self._space.recipe.batch
        self._price_all("plans", by_data(self._space), batch)
        with contextlib.suppress(OutOfTime):
            self._look_inside()
        self._price_all("plans that split the model", by_model(self._space), batch)
        self._price_all("plans for the grid", grids(self._space), batch)
        if not found.plans:
            raise self._nothing()
        self._cut_by_speed(batch)
        self._rank()
        self._split_modules(batch)
        self._other_batches()
        self._rank()
        found.seconds = self._budget.spent
        return found

    def _look_inside(self) -> None:
        if self._budget.over:
            return
        inside = self._look()
        self._groups = groups_of(inside.modules, inside.kinds)
        self._space = dataclasses.replace(self._space, dimensions=inside.dimensions, branches=inside.branches)
        if inside.by_modules:
            self._price_again()

    def _price_again(self) -> None:
        """What was priced before it was known of which parts a pass consists; but for those that make no steps at once."""
        before, self.found.plans = self.found.plans, []
        for number, plan in enumerate(before):
            self._tell("plans by modules", number, len(before))
            try:
                again = self._pricer.price(plan.strategy, plan.batch) if plan.ran or plan.drawn else plan
            except OutOfTime:
                again = plan
            (self.found.refused if isinstance(again, Refused) else self.found.plans).append(again)  # type: ignore[arg-type]

    def _price_all(self, what: str, ways: Iterable[AnyStrategy], batch: int) -> None:
        some = list(ways)
        for number, how in enumerate(some):
            self._tell(what, number, len(some))
            self._price(how, batch)
        if some:
            self._tell(what, len(some), len(some))

    def _price(self, how: AnyStrategy, batch: int) -> None:
        """One process is priced in any case if it can be: that is always good to know."""
        if self._budget.over and self.found.plans:
            self.found.left_out += 1
            return
        try:
            priced = self._pricer.price(how, batch)
        except OutOfTime:
            self.found.left_out += 1
            return
        if isinstance(priced, Refused):
            self.found.refused.append(priced)
            return
        best = min((plan.seconds_to_target for plan in self.found.plans), default=float("inf"))
        self.found.plans.append(priced)
        if priced.seconds_to_target < best:
            self._hear(priced)
        if len(self.found.plans) % DRAWN == 0:
            self._rank()

    def _rank(self) -> None:
        """What one process learns comes first where times are equal; then what needs fewer workers."""
        plans = self.found.plans
        plans.sort(key=lambda plan: (plan.seconds_to_target, not plan.same_result, plan.workers, plan.name))
        plans[DRAWN:] = [dataclasses.replace(plan, ran=(), drawn=True) if plan.ran else plan for plan in plans[DRAWN:]]

    def _nothing(self) -> LaminarError:
        found = self.found
        if found.left_out:
            return no_time(self._budget.seconds, len(found.refused) + found.left_out)
        least = min(found.refused, key=lambda one: one.memory or float("inf"))
        alone = self._pricer.known.machine(1).process_bytes
        why = f"of {len(found.refused)} plans the one that needs least would take {least.why}"
        why += f" (a process without a model: {alone / 1e9:.2f} GB)"
        return no_room(why, self._pricer.known.job().biggest)

    def _cut_by_speed(self, batch: int) -> None:
        """Pipelines over nodes of unlike speed, with stages that fit them."""
        known = self._pricer.known
        for plan in [plan for plan in self.found.plans if isinstance(plan.strategy, Pipeline)]:
            how = plan.strategy
            assert isinstance(how, Pipeline)
            places = self._pricer.places(how)
            speeds = [1.0 / places.slow(lane * (how.workers // how.lanes)) for lane in range(how.lanes)]
            if how.depth != how.lanes or max(speeds) < 1.1 * min(speeds) or self._budget.over:
                continue
            try:
                cut = cut_by_speed(module_costs(known.cost({}, {}, {}, batch, self._pricer.threads(how.workers))), speeds)
            except OutOfTime:
                break
            if cut and "" not in cut:
                self._price(msgspec.structs.replace(how, cut=cut), batch)

    # Tables of single modules

    def _split_modules(self, batch: int) -> None:
        meshes = [plan for plan in self.found.plans if isinstance(plan.strategy, Mesh)][:MESHES]
        for number, plan in enumerate(meshes):
            if self._budget.over or not self._groups:
                break
            how = plan.strategy
            assert isinstance(how, Mesh)
            names = [
                name for name in self._space.dimensions if name in ("hidden", "channels", "height", "width", "length", "heads", "vocab")
            ]
            choices = choices_for(how, self._groups, names)
            threads = self._pricer.threads(how.workers)
            walk = MeshWalk(self._pricer.known, self._pricer.places(how), how, choices, batch, threads)
            part, size = self._budget.part(FOR_MODULES / (len(meshes) - number)), size_of(choices.options)

            def spent(walk: MeshWalk = walk, part: Budget = part, size: int = size) -> float:
                self._tell("tables for single modules", walk.full + walk.delta, min(size, EVALUATIONS))
                return part.share()

            best: Best = (
                try_all(walk, choices.options, spent=spent)
                if size <= SMALL
                else anneal(walk, choices.options, choices.starts(), evaluations=EVALUATIONS, seed=self._seed, spent=spent)
            )
            self._pricer.priced += best.evaluated
            chosen = choices.strategy(how, best.state)
            gain = plan.raw_seconds / best.cost
            whole = best.evaluated == best.space
            self.found.walked.append(Walked(dict(how.mesh), dict(how.split), best.evaluated, best.space, gain, whole))
            if chosen != how and gain > 1.0:
                with contextlib.suppress(OutOfTime):
                    self._pricer.known.check(chosen.mesh, chosen.split, chosen.module, batch, threads)
                self._price(chosen, batch)

    def _other_batches(self) -> None:
        """The steps that it takes depend on the batch, and so does the time of one."""
        for plan in list(self.found.plans[:WITH_OTHER_BATCHES]):
            for batch in self._batches:
                how = _with_room(plan.strategy, batch)
                if how is not None and allowed(self._space, how, batch):
                    self._tell("batches", len(self.found.plans), len(self.found.plans) + 1)
                    self._price(how, batch)


def no_time(budget: float, ways: int, *, links: bool = False) -> LaminarError:
    """`links`: the time was over while these were measured, by processes that are started for it; half of that is of no use."""
    if links:
        said = f"no plan was priced in {budget:g} seconds: what processes of this machine can do together has to be measured first"
        hint = f"--budget {max(60.0, 10 * budget):.0f}; that takes about 20 seconds, once, and is kept only as a whole"
        return LaminarError("L015", said, hint=hint)
    some = f", of {ways} that there are" if ways else ""
    return LaminarError(
        "L015",
        f"no plan was priced in {budget:g} seconds{some}",
        hint=f"--budget {max(10.0, 10 * budget):.0f}; what was measured until now is kept",
    )


def no_room(why: str, biggest: Sequence[tuple[str, int]]) -> LaminarError:
    tensors = ", ".join(f"{name} {_size(size)}" for name, size in biggest)
    return LaminarError(
        "L014", f"no plan fits: {why}; the largest tensors: {tensors}", hint="more workers or nodes, a smaller batch, or smaller modules"
    )


def _size(count: int) -> str:
    return f"{count / 1e6:,.1f} MB" if count >= 1e5 else f"{count / 1e3:,.1f} kB"


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

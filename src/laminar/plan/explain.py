"""Explain: why a plan takes as long as it does, where two of them differ, and what would change the answer. No torch here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from laminar.core.errors import LaminarError
from laminar.plan.budget import OutOfTime
from laminar.plan.plan import WORDS, Plan
from laminar.plan.price import Pricer, Refused

COMPUTED: Final = ("load", "forward", "backward", "inputs", "weights", "optimizer", "computing")  # what a worker does by itself
PLAINLY: Final = {"forward": "forward", "backward": "backward", "load": "gather", "optimizer": "optimizer", "pack": "pack"}  # names
CORRECTED: Final = "what earlier runs took beside that"  # a step as it is told is that of the simulation, corrected by the ledger
STARTS: Final = 0.1  # of the time to the target, from which on it is said how long workers take to begin


def seconds(value: float) -> str:
    if value < 0:
        return f"-{seconds(-value)}"
    return f"{1e6 * value:.0f} us" if value < 1e-4 else f"{1e3 * value:.2f} ms" if value < 1 else f"{value:.2f} s"


def conclusion(plans: Sequence[Plan], left_out: int = 0, refused: Sequence[Refused] = ()) -> str:
    """What to do, in a sentence. `left_out`: plans that there was no time for; `refused`: those that cannot be."""
    best = plans[0]
    solo = next((plan for plan in plans if plan.kind == "solo"), None)  # with the best batch for it
    if best.kind == "solo":
        others = sorted((plan for plan in plans if plan.kind != "solo"), key=lambda plan: plan.batch != best.batch)
        if not others:
            return "one process is all there was time to look at" if left_out else "one process is all there is"
        next_one = others[0]
        times = next_one.seconds_to_target / best.seconds_to_target
        start = f", {seconds(next_one.start)} of it until they have begun" if next_one.start > STARTS * next_one.seconds_to_target else ""
        return f"one process is fastest: {next_one.workers} workers ({next_one.kind}) would take {times:.2f}x as long{start}"
    if solo is None:
        full = any(one.strategy.kind == "solo" and one.memory for one in refused)
        why = "one process has no room for the model" if full else "one process was not priced in the time that there was"
        return f"{best.kind} with {best.workers} workers is fastest; {why}"
    gain = solo.seconds_to_target / best.seconds_to_target
    return f"{best.kind} with {best.workers} workers is fastest: {gain:.2f}x as fast as one process"


@dataclass(frozen=True)
class Difference:
    """Of one kind of work, on the critical paths of two plans."""

    what: str
    first: float
    second: float

    @property
    def more(self) -> float:
        return self.second - self.first


def differences(first: Plan, second: Plan) -> list[Difference]:
    """What takes longer in which, the largest difference first. Of workers that make no steps at once only computing is known as such: then
    what the other one computes is summed up, too."""
    one, other = first.spent, second.spent
    if ("computing" in one) != ("computing" in other):
        one, other = _summed(one), _summed(other)
    found = [Difference(WORDS.get(kind, kind), one.get(kind, 0.0), other.get(kind, 0.0)) for kind in dict.fromkeys([*one, *other])]
    if _correction(first) or _correction(second):
        found.append(Difference(CORRECTED, _correction(first), _correction(second)))
    return sorted(found, key=lambda one: -abs(one.more))


def _correction(plan: Plan) -> float:
    """Seconds that the ledger makes a step longer, or shorter: without them the parts are not the whole that is told."""
    return plan.step_seconds - plan.raw_seconds


def _summed(spent: Mapping[str, float]) -> dict[str, float]:
    found: dict[str, float] = {}
    for kind, seconds_ in spent.items():
        into = "computing" if kind in COMPUTED else kind
        found[into] = found.get(into, 0.0) + seconds_
    return found


def path(plan: Plan, most: int = 8) -> list[tuple[str, float]]:
    """Names of what the step waits for longest, and seconds of it."""
    from laminar.plan.critical import critical_path
    from laminar.plan.simulate import simulate

    behind = [(CORRECTED, more)] if (more := _correction(plan)) else []
    if not plan.ran:
        return [*((WORDS.get(kind, kind), spent) for kind, spent in plan.spent.items()), *behind]
    found: dict[str, float] = {}
    for ran in critical_path(simulate(one.task for one in plan.ran)):
        word = WORDS.get(ran.task.kind, ran.task.kind)
        name = f"{word}: {ran.task.name}" if ran.task.name and ran.task.name != PLAINLY.get(ran.task.kind) else word
        found[name] = found.get(name, 0.0) + ran.end - ran.begin
    return [*sorted(found.items(), key=lambda one: -one[1])[:most], *behind]


def with_timeline(plans: Sequence[Plan], number: int, pricer: Pricer | None = None) -> Plan:
    """The plan of this number, from 1. `pricer`: who prices it again where its timeline was not kept. L008 if its workers make no steps at
    once, which is what a timeline shows."""
    plan = plans[number - 1]
    if plan.drawn and not plan.ran and pricer is not None:
        again = pricer.price(plan.strategy, plan.batch)
        return again if isinstance(again, Plan) else plan
    if not plan.ran:
        other = next((i for i, one in enumerate(plans, 1) if one.ran or one.drawn), None)
        raise LaminarError(
            "L008",
            f"plan {number} is {plan.kind}, which has no steps that all make at once, so there is no timeline",
            hint=f"--plan {other} is the fastest that has one" if other else "--same-result offers only plans that have one",
        )
    return plan


@dataclass(frozen=True)
class Turn:
    """Something that would have to be otherwise for another plan to be the best."""

    what: str
    winner: str

    def __str__(self) -> str:
        return f"with {self.what}, {self.winner} would be faster"


def turning_points(pricers: Sequence[tuple[str, Pricer]], plans: Sequence[Plan], most: int = 5) -> list[Turn]:
    """The best plans again on machines that differ in one thing each; where another one wins. What would have to be measured for that and
    is not is left out."""
    chosen = _distinct(plans)[:most]
    found = []
    for what, pricer in pricers:
        try:
            again = [one for plan in chosen if not isinstance(one := pricer.price(plan.strategy, plan.batch), Refused)]
        except (OutOfTime, LaminarError):
            continue
        if not again:
            continue
        best = min(again, key=lambda plan: plan.seconds_to_target)
        if best.strategy != plans[0].strategy:
            found.append(Turn(what, best.name))
    return found


def _distinct(plans: Sequence[Plan]) -> list[Plan]:
    """One of each kind and number of workers."""
    found: dict[tuple[str, int], Plan] = {}
    for plan in plans:
        found.setdefault((plan.kind, plan.workers), plan)
    return list(found.values())

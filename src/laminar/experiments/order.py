"""Order: which trial comes next. Pure: it asks only the trials on disk, so an interrupted experiment goes on where it was.

Rounds: every variant is trained once before any is trained twice, in an order drawn anew each round, so that a machine that gets slower
(heat, other users) hits all variants alike. Warm-ups come before the first round. A trial on a busy machine is repeated, a few times.

Halving (Jamieson and Talwalkar, "Non-stochastic best arm identification and hyperparameter optimization", AISTATS 2016): all variants are
trained for some epochs; the best 1/keep of them go on to keep times as many, and so on. A trial that goes on does so from its checkpoint.
The benchmark goes on whatever it is worth: without it there would be nothing that the best are better than.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Final

import msgspec

from laminar.core.errors import LaminarError
from laminar.core.figures import many
from laminar.experiments.record import Description, Trial

WARM_UP: Final = "warm-up"  # why a trial is not counted
BUSY_TRIES: Final = 3  # of one trial, the last of which counts whatever others do


class Next(msgspec.Struct, frozen=True, kw_only=True):
    """A trial to be run. `until`: epochs after which it is to stop and wait; None: the end."""

    variant: str
    repeat: int
    warm_up: bool = False
    until: int | None = None
    last_try: bool = False  # it counts even on a busy machine


def standing(trials: Iterable[Trial]) -> dict[tuple[str, int], Trial]:
    """What is known of each variant and repeat: the last that counts or failed."""
    return {
        (one.variant, one.repeat): one for one in trials if one.counted or (one.outcome == "failed" and not one.why_not.startswith(WARM_UP))
    }


def round_of(variants: Sequence[str], repeat: int, seed: int | None) -> list[str]:
    """The order of one round; the same for the same seed. As listed without one."""
    order = list(variants)
    if seed is not None:
        random.Random(f"{seed}/{repeat}").shuffle(order)
    return order


def left(
    description: Description,
    trials: Sequence[Trial],
    seed: int | None = 0,
    *,
    first: Collection[str] = (),
    more: Sequence[Collection[str]] = (),
) -> list[Next]:
    """What is to be run, in order. Failed trials are done: what fails once would fail again.

    `first`: variants that have all of their repeats before the others have any. `more`: the variants of each further round.
    """
    variants = [one.id for one in description.variants]
    known = standing(trials)
    warmed: dict[str, int] = {}
    tries: dict[tuple[str, int], int] = {}
    for one in trials:
        if one.why_not.startswith(WARM_UP):
            warmed[one.variant] = warmed.get(one.variant, 0) + 1
        elif not one.counted:
            tries[one.variant, one.repeat] = tries.get((one.variant, one.repeat), 0) + 1
    found = []
    for number in range(description.warm_up):
        for id in round_of(variants, -1 - number, seed):
            if warmed.get(id, 0) <= number and any((id, repeat) not in known for repeat in range(description.repeats)):
                found.append(Next(variant=id, repeat=number, warm_up=True))
    blocks = [[id for id in variants if id in first], [id for id in variants if id not in first]]
    rounds = [(repeat, block) for block in blocks for repeat in range(description.repeats)]
    rounds += [(description.repeats + number, [id for id in variants if id in some]) for number, some in enumerate(more)]
    for repeat, block in rounds:
        for id in round_of(block, repeat, seed):
            if (id, repeat) not in known:
                found.append(Next(variant=id, repeat=repeat, last_try=tries.get((id, repeat), 0) + 1 >= BUSY_TRIES))
    return found


def left_after_one_warm_up(
    description: Description,
    trials: Sequence[Trial],
    seed: int | None = None,
    *,
    first: Collection[str] = (),
    more: Sequence[Collection[str]] = (),
) -> list[Next]:
    """The same with one warm-up in all, of the variant that is listed first, for what is loaded and started once. Without a seed rounds
    are as listed, for variants of which one stands on another."""
    bottom = description.variants[0].id
    ahead = left(msgspec.structs.replace(description, warm_up=0), trials, seed, first=first, more=more)
    warmed = any(one.why_not.startswith(WARM_UP) for one in trials)
    return [Next(variant=bottom, repeat=0, warm_up=True), *ahead] if ahead and description.warm_up and not warmed else ahead


def longest_seconds(trials: Iterable[Trial]) -> dict[str, float]:
    """By variant, the longest that one of its trials took. Variants whose trials all failed are not in it."""
    found: dict[str, float] = {}
    for one in trials:
        if one.outcome == "done" and one.counted:
            found[one.variant] = max(found.get(one.variant, 0.0), 0.0 if one.sum_of else one.wall)
    return found


def another_trial(longest: Mapping[str, float], variant: str, seconds: float) -> bool:
    """Is there time for a trial of this variant? One of which nothing is known is tried while there is any."""
    return longest.get(variant, 0.0) < seconds


def another_round(longest: Mapping[str, float], seconds: float) -> bool:
    """Is there time for one more trial of each variant? `longest`: what a trial of each has taken at most; `seconds`: what is left.

    A round is run as a whole or not at all. A trial that the end of the time cut off would have been a long one, and leaving out long
    ones would make their variant look faster than it is.
    """
    return bool(longest) and sum(longest.values()) <= seconds


def rungs(epochs: int, *, first: int, keep: int) -> list[int]:
    """Epochs after which trials are compared, the last being the end: `rungs(20, first=1, keep=3)` is 1, 3, 9, 20."""
    found = []
    at = first
    while at < epochs:
        found.append(at)
        at *= keep
    return [*found, epochs]


def left_halving(
    description: Description,
    trials: Sequence[Trial],
    *,
    epochs: Callable[[str], int],
    first: int,
    keep: int,
    score: Callable[[Trial, int], float | None],
    seed: int = 0,
) -> list[Next]:
    """The rest of the rung that is under way; empty when the last is done. `score`: of a trial at a rung, more is better."""
    variants = [one.id for one in description.variants]
    known = {one.variant: one for one in trials if one.counted or one.outcome == "failed"}
    steps = rungs(max(map(epochs, variants), default=1), first=first, keep=keep)
    alive = round_of(variants, 0, seed)
    for number, until in enumerate(steps):
        missing = [id for id in alive if not _reached(known.get(id), min(until, epochs(id)))]
        if missing:
            return [Next(variant=id, repeat=0, until=None if until >= epochs(id) else until) for id in missing]
        if number + 1 == len(steps):
            break
        scored = [(score(known[id], until), place, id) for place, id in enumerate(alive) if known[id].outcome != "failed"]
        ranked = sorted(((value, -place, id) for value, place, id in scored if value is not None), reverse=True)
        if scored and not ranked:
            raise LaminarError(
                "L016",
                f"[halving]: after {many(until, 'epoch')} its measure is not known of any of {many(len(scored), 'trial')}: none can go on",
                hint='measure = "loss" in [halving]: it is known of every trial',
            )
        best = [id for _, _, id in ranked[: max(1, len(alive) // keep)]]
        alive = best + [id for _, _, id in scored if id == description.benchmark and id not in best]
    return []


def later_halving(variants: int, until: int, *, steps: Sequence[int], keep: int) -> int:
    """Trials of the rungs that come after the one at `until` epochs; one more each where the benchmark is not among the best."""
    alive, found = variants, 0
    for step in steps[:-1]:
        alive = max(1, alive // keep)
        found += alive if step >= until else 0
    return found


def _reached(trial: Trial | None, epochs: int) -> bool:
    if trial is None:
        return False
    return trial.outcome in ("done", "failed") or len(trial.curve) >= epochs


class Spent(msgspec.Struct, frozen=True, kw_only=True):
    """What an experiment may use, and has used in this go."""

    seconds: float
    trials: int


def over_budget(spent: Spent, *, hours: float | None, trials: int | None) -> str:
    """Why no other trial is begun; empty while there is budget left."""
    if hours is not None and spent.seconds >= hours * 3600:
        return f"the budget of {hours:g} hours is used up" if hours >= 0.1 else f"the budget of {hours * 3600:.0f} seconds is used up"
    if trials is not None and spent.trials >= trials:
        return f"the budget of {trials:,} trials is used up"
    return ""


def expected_seconds(ahead: Sequence[Next], trials: Sequence[Trial], later: int = 0) -> float | None:
    """How long what is ahead will take: each variant as long as it took before, unknown ones as long as the others on average.

    `later`: trials that come after these, and nobody knows of which variants.
    """
    walls: dict[str, list[float]] = {}
    for one in trials:
        if one.wall > 0 and not one.reused and not one.sum_of and not one.why_not.startswith(WARM_UP):
            walls.setdefault(one.variant, []).append(one.wall)
    if not walls:
        return None
    means = {id: sum(some) / len(some) for id, some in walls.items()}
    usual = sum(means.values()) / len(means)
    return sum(means.get(one.variant, usual) for one in ahead) + later * usual

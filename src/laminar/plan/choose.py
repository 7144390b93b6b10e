"""Choose: which of some plans is the fastest, by trials that differ from time to time. No torch here.

One trial of each does not tell: the machine is now slower, now faster. So plans are tried in turns, there and back (A B C, C B A …), which
takes a drift of the machine out of the comparison, and only as long as it matters:

    clearly slower     than the best, by so much that trials do not differ by chance: it is not tried again
    as good as equal   what is within 3 % of the best after two trials each need not be told apart

A plan's time is the mean of the faster half of its trials: what disturbs only adds, and the very fastest may be luck. How often a plan is
chosen so that is more than 5 % slower than the best: tests/pure/plan/test_choose.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean
from typing import Final

Times = Sequence[Sequence[float]]  # of each plan, in the order in which they were predicted: seconds of its trials, in order
ROUNDS: Final = 3
FAR: Final = {1: 1.6, 2: 1.2}  # by trials of each: times as long as the best, beyond which a plan is out
CLOSE: Final = 1.03


def usual(trials: Sequence[float]) -> float:
    """Seconds of a plan, from those of its trials."""
    return fmean(sorted(trials)[: (len(trials) + 1) // 2])


def fastest(times: Times) -> int:
    """Of those that were tried; the one that was predicted to be faster where they are equal. ValueError if none was."""
    return min((usual(some), number) for number, some in enumerate(times) if some)[1]


def next_trial(times: Times, failed: Sequence[int] = (), rounds: int = ROUNDS) -> int | None:
    """The plan to be tried next; None: it is known well enough which is the fastest. `failed`: those that cannot be tried. `rounds`: trials
    of each, at most."""
    there = [number for number in range(len(times)) if number not in failed]
    if (untried := next((number for number in there if not times[number]), None)) is not None:
        return untried
    if len(there) < 2:
        return None
    best = min(there, key=lambda number: (usual(times[number]), number))
    rivals = [number for number in there if number != best and not _slower(times[number], times[best])]
    if all(_alike(times[number], times[best]) for number in rivals):
        return None
    fewest = min(len(times[number]) for number in (best, *rivals))
    if fewest >= rounds:
        return None
    some = sorted(number for number in (best, *rivals) if len(times[number]) == fewest)
    return some[-1] if fewest % 2 else some[0]


def _slower(one: Sequence[float], best: Sequence[float]) -> bool:
    count = min(len(one), len(best))
    return count in FAR and usual(one) > FAR[count] * usual(best)


def _alike(one: Sequence[float], best: Sequence[float]) -> bool:
    return min(len(one), len(best)) > 1 and usual(one) <= CLOSE * usual(best)

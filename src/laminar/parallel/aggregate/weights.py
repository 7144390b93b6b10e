"""Weights: how much each gradient of a step counts.

Within a step weights are shared out by work and age. The step as a whole is as long as its freshest gradient deserves. So one gradient
alone is weighed by its age (the rate divided by staleness: Zhang et al. 2015, arXiv 1511.05950), and a few old ones among fresh ones
take their small share without making the step shorter. FedBuff (arXiv 2106.06639) divides by the count instead, which shortens it.
"""

from __future__ import annotations

from collections.abc import Sequence


def age(staleness: int, ageing: float) -> float:
    """1 for a fresh gradient, less for an older one: 1 / (1 + s)^a."""
    return float((1 + staleness) ** -ageing)


def share(staleness: int, ageing: float, workers: int) -> float:
    """Of one of so many workers that all do the same from the same start: 1 / workers. At an equal pace each is `workers - 1` steps old, so
    only what is older counts for less."""
    return min(1.0, age(staleness, ageing) / age(workers - 1, ageing)) / workers


def weigh(work: Sequence[float], ages: Sequence[float]) -> list[float]:
    """Weights above 0; their sum is the largest of `ages`."""
    worth = [amount * old for amount, old in zip(work, ages, strict=True)]
    total, longest = sum(worth), max(ages)
    return [value / total * longest for value in worth]

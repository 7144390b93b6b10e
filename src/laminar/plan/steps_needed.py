"""Steps needed: how many samples it takes to a target, relative to one process that trains with the recipe's batch. No torch here.

A larger batch needs fewer steps and more samples: `steps = S_min (1 + B_crit / B)`, so `samples = S_min (B + B_crit)` (McCandlish et al.,
arXiv 1812.06162). B_crit is the gradient noise scale, or comes from runs; how widely it differs: Shallue et al., arXiv 1811.03600.

The rest are priors, stated so that they can be doubted, and used until something better was measured:

    staleness    samples times sqrt(1 + s), where gradients are s versions old on average: the bound for delayed gradients (Langford et al.,
                 NIPS 2009), which the analysis of ps-lite uses, too
    averaging    every step is one of W batches: W B instead of B. Between averages workers drift apart: 5 % more for every doubling of
                 the period H. Small, since H = 500 lost nothing in DiLoCo (arXiv 2311.08105); above 0, since plain averages
                 lose something at scale (Ortiz et al., arXiv 2110.08133). At worst averages are of no use, and every worker
                 needs all the samples by itself: W times as many (one average at the end: Zinkevich et al., NIPS 2010)
    quorum       a step of the share q of a batch of B learns as one of a batch of q B, and the samples of the rest are lost
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

PRIOR: Final = 1024.0  # samples: where larger batches ceased to pay in many small tasks; it differs widely, so measuring is better
DRIFT: Final = 0.05  # more samples for each doubling of the steps between averages
WIDEST: Final = 100.0  # times the largest batch that was run: as far as runs can say anything about B_crit


@dataclass(frozen=True)
class StepsModel:
    critical_batch: float  # samples
    measured: bool
    source: str  # for people

    @classmethod
    def of(cls, noise: float | None) -> StepsModel:
        """From the gradient noise scale in samples, if it was measured."""
        if noise is not None and noise > 0 and math.isfinite(noise):
            return cls(noise, True, f"a gradient noise scale of {noise:,.0f} samples, measured")
        return cls(PRIOR, False, f"a critical batch of {PRIOR:,.0f} samples, assumed")

    @classmethod
    def same(cls) -> StepsModel:
        """Where all learn what one process learns, in as many steps: nothing has to be known."""
        return cls(PRIOR, False, "the recipe's own number of steps: all of these learn the same")

    def factor(
        self, batch: float, base_batch: float, *, staleness: float = 0.0, every: int = 1, workers: int = 1, quorum: float = 1.0
    ) -> float:
        """Samples that it takes, relative to one process with `base_batch`.

        `every` and `workers` are of averaging, where each worker has whole batches; elsewhere workers share one. `quorum`: the share of
        each batch that goes into a step.
        """
        found = self._samples(batch * quorum) / quorum / self._samples(base_batch)
        if workers > 1:
            together = self._samples(batch * workers) / self._samples(base_batch) * (1.0 + DRIFT * math.log2(max(1, every)))
            found = min(together, found * workers)
        return found * math.sqrt(1.0 + max(0.0, staleness))

    def _samples(self, batch: float) -> float:
        """Up to a constant."""
        return batch + self.critical_batch


def fit(runs: Sequence[tuple[int, float]]) -> StepsModel:
    """From runs to the target: batch, and samples that it took. Least squares of the relative error, which is that of steps and samples.

    ValueError if there are fewer than two different batches: then nothing can be said.
    """
    usable = [(batch, samples) for batch, samples in runs if batch > 0 and samples > 0 and math.isfinite(samples)]
    batches = sorted({batch for batch, _ in usable})
    if len(batches) < 2:
        raise ValueError(f"runs with {len(batches)} different batches, but at least two are needed to see what a larger one costs")
    # samples = a * batch + b, each row divided by its samples: (batch / samples) a + (1 / samples) b = 1
    xx = sum((batch / samples) ** 2 for batch, samples in usable)
    xy = sum(batch / samples**2 for batch, samples in usable)
    yy = sum(1 / samples**2 for _, samples in usable)
    x, y = sum(batch / samples for batch, samples in usable), sum(1 / samples for _, samples in usable)
    a, b = yy * x - xy * y, xx * y - xy * x  # both times the determinant, which is above 0
    widest = WIDEST * batches[-1]
    critical = widest if a <= 0 else max(0.0, min(widest, b / a))  # no limit in sight; or none of it was ever of use
    return StepsModel(critical, True, f"a critical batch of {critical:,.0f} samples, from {len(usable)} runs to the target")

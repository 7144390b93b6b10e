"""LTTB: fewer points that look the same. Steinarsson, "Downsampling Time Series for Visual Representation" (2013).

Of each of n - 2 buckets the point is kept that makes the largest triangle with the one kept before and the middle of the bucket after.
Beside it the lowest and highest of all are kept: a spike that a person looks for must not vanish.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def thin(x: Floats, y: Floats, points: int) -> NDArray[np.int64]:
    """Which points to show, in order: at most `points` (3 or more) and the two extremes. What is not finite is left out."""
    finite = np.flatnonzero(np.isfinite(x) & np.isfinite(y))
    if finite.size <= max(points, 3):
        return finite
    fx, fy = x[finite] - x[finite[0]], y[finite]  # near 0, or the sums below lose digits
    edges = np.linspace(1, fx.size - 1, max(points, 3) - 1).astype(np.int64)  # of the buckets between the first point and the last
    sums_x, sums_y = np.concatenate([[0.0], np.cumsum(fx)]), np.concatenate([[0.0], np.cumsum(fy)])
    chosen = [0]
    for start, end, after in zip(edges[:-1], edges[1:], [*edges[2:], fx.size], strict=True):
        count = after - end
        next_x, next_y = (sums_x[after] - sums_x[end]) / count, (sums_y[after] - sums_y[end]) / count
        at = chosen[-1]
        here_x, here_y = fx[start:end], fy[start:end]
        areas = np.abs((fx[at] - next_x) * (here_y - fy[at]) - (fx[at] - here_x) * (next_y - fy[at]))
        chosen.append(int(start) + int(np.argmax(areas)))
    chosen += [fx.size - 1, int(np.argmin(fy)), int(np.argmax(fy))]
    return finite[np.unique(chosen)]

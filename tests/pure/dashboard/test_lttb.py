"""LTTB: fewer points, the same curve."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from laminar.dashboard.lttb import thin


@given(st.lists(st.floats(-1e6, 1e6) | st.just(float("nan")), max_size=400), st.integers(3, 60))
def test_points_are_in_order_and_few_and_the_extremes_are_among_them(values, points):
    y = np.array(values, dtype=float)
    x = np.arange(y.size, dtype=float)
    kept = thin(x, y, points)
    assert list(kept) == sorted(set(kept.tolist()))
    assert len(kept) <= points + 2
    finite = np.flatnonzero(np.isfinite(y))
    if finite.size:
        assert kept[0] == finite[0] and kept[-1] == finite[-1]
        assert y[kept].min() == y[finite].min() and y[kept].max() == y[finite].max()
    else:
        assert kept.size == 0


def test_one_spike_in_a_million_points_stays_and_so_does_the_shape():
    x = np.arange(1_000_000) + 1.79e9  # seconds since 1970: large numbers with small differences
    y = np.sin(np.arange(1_000_000) / 60_000)
    y[123_456] = 9.0
    kept = thin(x, y, 500)
    assert 123_456 in kept and len(kept) <= 502
    drawn = np.interp(x, x[kept], y[kept])
    away = np.abs(drawn - y)
    away[122_000:125_000] = 0  # beside the spike a line goes up to it
    assert away.max() < 0.02


def test_the_published_choice():
    """Of three buckets the point with the largest triangle: by hand."""
    x = np.arange(8.0)
    y = np.array([0.0, 0.0, 5.0, 0.0, 0.0, -4.0, 0.0, 0.0])
    assert thin(x, y, 4).tolist() == [0, 2, 5, 7]

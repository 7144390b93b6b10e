"""Figures: numbers as people read them, never wider than a column of a table."""

from __future__ import annotations


def number(value: float | None) -> str:
    """`0.9375`, `12.5`, `14,203`; `3.2e+21` where digits would say nothing."""
    if value is None:
        return "-"
    size = abs(value)
    if size >= 1e7 or 0 < size < 5e-5:
        return f"{value:.1e}"
    return f"{value:.4f}" if size < 10 else f"{value:,.1f}" if size < 1000 else f"{value:,.0f}"

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


def many(count: int, noun: str, verb: str = "") -> str:
    """`1 image`, `2,000 classes`; with a verb (is, was, has) `1 image is`, `2 images are`."""
    if count == 1:
        return f"1 {noun} {verb}".rstrip()
    plural = {"is": "are", "was": "were", "has": "have"}.get(verb, verb)
    return f"{count:,} {noun}{'es' if noun.endswith('s') else 's'} {plural}".rstrip()


def more_than(size: int, room: int, count: int = 1) -> tuple[str, str]:
    """Bytes as `0.241 GB` and `0.240 GB`, where `count` of the first are more than the second: with as many digits as show it."""
    for digits in range(2, 10):
        step = 10 ** (9 - digits)
        needed, there = round(size / step), round(room / step)  # what is written, so that halves are rounded alike
        if count * needed > there:
            break
    return f"{needed * step / 1e9:.{digits}f} GB", f"{there * step / 1e9:.{digits}f} GB"

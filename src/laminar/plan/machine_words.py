"""Words of a machine file that are numbers with units: "1Gbit/s", "125MB/s", "0.2ms"."""

from __future__ import annotations

import re
from typing import Final

_NUMBER: Final = re.compile(r"\s*(\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)\s*(\S*)\s*", re.ASCII)
_PREFIX: Final = {"": 1.0, "k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "Ki": 2.0**10, "Mi": 2.0**20, "Gi": 2.0**30, "Ti": 2.0**40}
_RATE: Final = re.compile(r"([kKMGT]?i?)(bit/s|bps|B/s)")
LEAST_RATE: Final = 0.125  # bytes a second, one bit; far beyond these bounds times would become infinite
MOST_RATE: Final = 1e15
LONGEST: Final = 3600.0  # seconds
_TIME: Final = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ns": 1e-9}


def bytes_a_second(text: str) -> float | str:
    """Or, as text, why it is none. A small b may be a bit or a byte, so it is refused."""
    found = _NUMBER.fullmatch(text)
    if found is None:
        return "which does not begin with a number"
    unit = _RATE.fullmatch(found[2])
    if unit is None or unit[1] not in _PREFIX:
        if re.fullmatch(r"[kKMGT]?i?b/s", found[2]):
            return "where b may be bits or bytes: write bit/s or B/s"
        return f"whose unit {found[2]!r} is none of bit/s, kbit/s, Mbit/s, Gbit/s, B/s, kB/s, MB/s, GB/s"
    value = float(found[1]) * _PREFIX[unit[1]]
    value = value if unit[2] == "B/s" else value / 8
    if 0 < value < LEAST_RATE:  # of nothing at all there is more to say
        return "which is less than 1bit/s"
    return value if value <= MOST_RATE else "which is more than 1000TB/s"


def seconds(text: str) -> float | str:
    """Or, as text, why it is none."""
    found = _NUMBER.fullmatch(text)
    if found is None:
        return "which does not begin with a number"
    if found[2] not in _TIME:
        return f"whose unit {found[2]!r} is none of s, ms, us, ns"
    value = float(found[1]) * _TIME[found[2]]
    return value if value <= LONGEST else "which is more than an hour"

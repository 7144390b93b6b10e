"""Quantities: cpu and memory as Kubernetes writes them (500m, 2, 4Gi), as numbers."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Final

from laminar.core.errors import LaminarError

MIB: Final = 1 << 20
SMALLEST: Final = 256 * MIB  # torch alone needs more to be loaded
_QUANTITY: Final = re.compile(r"(\d+(?:\.\d*)?|\.\d+)(m|[kMGTPE]|[KMGTPE]i|[eE][+-]?\d{1,2})?", re.A)
_FACTORS: Final = {"m": Decimal("0.001"), "": Decimal(1)}
_FACTORS.update({letter: Decimal(1000) ** power for power, letter in enumerate("kMGTPE", 1)})
_FACTORS.update({letter + "i": Decimal(1024) ** power for power, letter in enumerate("KMGTPE", 1)})


def quantity(text: str) -> Decimal | None:
    """The number that a quantity stands for; None if it is none."""
    found = _QUANTITY.fullmatch(text)
    if found is None:
        return None
    suffix = found[2] or ""
    factor = _FACTORS.get(suffix)
    return Decimal(found[1]) * (factor if factor is not None else Decimal(10) ** int(suffix[1:]))


def cores(text: str) -> Decimal:
    """Processor cores, whole thousandths."""
    found = quantity(text)
    if found is None or found <= 0 or (found * 1000) % 1 != 0:
        raise LaminarError("L008", f"--cpu {text}: expected cores, whole or in thousandths", hint="--cpu 2, or --cpu 500m for half a core")
    return found


def memory(text: str) -> int:
    """Bytes."""
    found = quantity(text)
    if found is None or found <= 0:
        raise LaminarError("L008", f"--memory {text}: expected bytes as Kubernetes writes them", hint="--memory 4Gi, or --memory 512Mi")
    if found < SMALLEST:
        unit = "" if not text.isdigit() else f"; did you mean {text}Gi?"
        raise LaminarError(
            "L008", f"--memory {text} is {int(found)} bytes, and torch needs {SMALLEST // MIB}Mi at least{unit}", hint="--memory 4Gi"
        )
    return int(found)


def mebibytes(bytes: int) -> str:
    return f"{max(1, bytes // MIB)}Mi"

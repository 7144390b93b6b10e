"""This machine: what tells one from another where it was measured how long something takes. No torch here."""

from __future__ import annotations

import platform
from dataclasses import dataclass
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from laminar.core.memory import physical
from laminar.parallel.threads import cores_here


@dataclass(frozen=True)
class Machine:
    processor: str
    cores: int
    memory: int  # bytes

    def to_json(self) -> dict[str, Any]:
        # a kernel that keeps a little more for itself makes no other machine
        return {"processor": self.processor, "cores": self.cores, "gib": round(self.memory / 2**30)}


@cache
def this_machine() -> Machine:
    return Machine(_processor(), cores_here(), physical() or 0)


@cache
def torch_version() -> str:
    """Without loading it."""
    try:
        return version("torch")
    except PackageNotFoundError:
        return "none"


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    named = next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "")
    return named or platform.processor() or platform.machine()

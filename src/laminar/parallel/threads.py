"""Threads of each process of a team: asked by whoever starts it, and by the planner, which prices what will be run. No torch here."""

from __future__ import annotations

import os


def cores_here() -> int:
    """That this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def threads_each(said: int | None, workers: int, cores: int | None = None) -> int:
    """`said`: by the recipe. Otherwise the cores are shared out: those of this machine, which is the chief's, or so many."""
    return said or max(1, (cores_here() if cores is None else cores) // workers)

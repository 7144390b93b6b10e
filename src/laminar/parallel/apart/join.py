"""Joining: a worker that is not the chief's own takes part in a training under way, until it is over or the worker is told to leave."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from laminar.parallel.apart.worker_process import Did, work
from laminar.train.borrowed import Interrupts


def join(told: dict[str, Any], *, named: Callable[[str], None]) -> tuple[Did, bool]:
    """`told` is an invitation (invitation.py). What was done, and whether Ctrl-C ended it: that hands in what is computed first."""
    with Interrupts() as interrupts:
        did = work(told, "", leave=lambda: interrupts.asked, named=named)
        return did, interrupts.asked

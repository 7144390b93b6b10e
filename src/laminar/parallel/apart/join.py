"""Joining: a worker that is not the chief's own takes part in a training under way, until it is over or the worker is told to leave."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from laminar.core.errors import LaminarError
from laminar.core.interrupts import Interrupts
from laminar.parallel.apart import invitation
from laminar.parallel.apart.calls import Over
from laminar.parallel.apart.worker_process import Did, work


def join(told: dict[str, Any], *, named: Callable[[str], None]) -> tuple[Did, bool]:
    """`told` is an invitation (invitation.py). What was done, and whether Ctrl-C ended it: that hands in what is computed first."""
    with Interrupts() as interrupts:
        try:
            chief = f"its build (process {told['pid']} on {told['host']})"
            did = work(told, "", leave=lambda: interrupts.asked, named=named, over=lambda: not invitation.holds(told), chief=chief)
        except Over as error:
            raise LaminarError(
                "L006",
                "the training ended before this worker could take part in it",
                hint="laminar status says whether the layer is built; laminar build starts what is not",
            ) from error
        return did, interrupts.asked

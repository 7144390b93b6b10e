"""Waiting: what a run waits for when it does not come forward, and the command that helps. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from laminar.core.kernel_files import KernelName

SOME: Final = 3  # answers that were refused, or tasks that failed, before that is taken for a rule
IN_PROGRESS: Final = "in progress"


@dataclass(frozen=True)
class Wait:
    kind: str  # each is told once
    why: str
    help: str


def waits_for(run: dict[str, Any], nodes: dict[str, int]) -> Wait | None:
    """None: it goes on. `run` and `nodes` as the server tells them (server/overview.py: run_told, company)."""
    name, known, banned = run["name"], nodes["known"], nodes["banned"]
    if run["state"] == "paused":
        return Wait("paused", "the run is paused" + (f": {run['why']}" if run["why"] else ""), f"laminar grid resume {name}")
    if run["state"] != "open":
        return None
    if not known:
        return Wait("nobody", "no node has joined the grid", "laminar grid join URL --token-file FILE, as `laminar grid serve` prints it")
    if banned == known:
        return Wait("banned", f"the grid has banned {_all(known)}", "laminar grid nodes says why; laminar grid ban NODE --undo")
    if not nodes["near"] and not run["results"].get(IN_PROGRESS):
        return Wait("away", f"of {known - banned} nodes none is here", "laminar grid nodes; on a node: laminar grid join")
    if run["kernels"] and nodes["near"] and not nodes["able"] and not run["results"].get(IN_PROGRESS):
        wanted = [KernelName(stem, sha256) for sha256, stem in run["kernels"].items()]
        lack = "its only node here lacks" if nodes["near"] == 1 else f"of {nodes['near']} nodes here none has"
        return Wait(
            "kernel",
            f"{lack} the kernel{'s' if len(wanted) > 1 else ''} {', '.join(map(str, wanted))}",
            f"on a node: laminar grid join --kernels DIR, with {' and '.join(f'{one.stem}.c' for one in wanted)} of this project in DIR",
        )
    if nodes["near"] and nodes["spent"] == nodes["near"] and not run["results"].get(IN_PROGRESS):
        help = "laminar grid nodes --json shows quotas; let more nodes join, or serve with more --bytes-a-day if that is set"
        return Wait("spent", f"{_all(nodes['spent'])} had their tasks or their bytes for today", help)
    refused = sum(run["refused"].values())
    if refused >= SOME and not run["applied"]:
        reasons = ", ".join(f"{what} {number}" for what, number in sorted(run["refused"].items()))
        return Wait("refused", f"all answers so far were refused ({reasons})", "laminar grid tasks")
    if run["failed"] >= SOME and not run["applied"]:
        return Wait("failed", "no node has been able to do a task so far", "laminar grid tasks says what nodes said")
    return None


def _all(number: int) -> str:
    return "its only node" if number == 1 else f"all {number} nodes"

"""The brief: what every server and worker of a training apart is told when it is started, and where servers listen."""

from __future__ import annotations

import secrets
from pathlib import Path
from typing import Any

import msgspec

from laminar.parallel.apart import plan as plans
from laminar.parallel.apart.own_state import Attempt
from laminar.parallel.crew import Staff
from laminar.stack.open_job import Description


def make_brief(
    plan: plans.Plan, description: Description, attempt: Attempt, folder: Path, threads: int, addresses: list[str]
) -> dict[str, Any]:
    return {
        "plan": plans.to_json(plan),
        "job": description.to_json(),
        "attempt": msgspec.to_builtins(attempt),
        "token": secrets.token_hex(16),
        "addresses": addresses,
        "folder": str(folder),
        "threads": threads,
    }


def addresses(plan: plans.Plan, short: Path, staff: Staff | None) -> list[str]:
    """Of each server. `short`: a folder for sockets, whose paths must be short."""
    how, shards = plan.how, range(len(plan.shards))
    host = how.host if staff is None else staff.host
    if how.port is not None:
        return [f"{host}:{how.port + shard}" for shard in shards]
    if staff is None or staff.one_machine:
        return [f"unix:{short / str(shard)}" for shard in shards]
    return [f"{host}:0" for _ in shards]  # any that is free: a server says which

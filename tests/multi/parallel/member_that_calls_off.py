"""A worker of a sync training that does not find its team at first, and neither does any other: nobody died."""

from __future__ import annotations

from typing import Any

from laminar.parallel.meeting import Broken
from laminar.parallel.sync.links import join
from laminar.parallel.team_member import be_member, leave
from laminar.train.job import Job
from laminar.train.team import Team


def _join(job: Job, told: dict[str, Any], rank: int) -> Team:
    missed = job.folder / f"missed-{rank}"
    if not missed.exists():
        missed.touch()
        raise Broken
    return join(told["link"], job, rank, told["size"], told["timeout"])


if __name__ == "__main__":
    leave(be_member(_join))

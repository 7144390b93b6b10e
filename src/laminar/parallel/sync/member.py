"""A worker of a sync training: has the whole model, and finds its team by a link (links.py)."""

from __future__ import annotations

from typing import Any

from laminar.parallel.sync.links import join
from laminar.parallel.sync.row_facts import RowFacts
from laminar.parallel.team_member import be_member, leave
from laminar.train.job import Job
from laminar.train.team import Team


def _join(job: Job, told: dict[str, Any], rank: int) -> Team:
    facts = None if told["facts"] is None else RowFacts.from_json(told["facts"])
    return join(told["link"], job, rank, told["size"], told["timeout"], facts)


def main() -> int:
    return be_member(_join)


if __name__ == "__main__":
    leave(main())

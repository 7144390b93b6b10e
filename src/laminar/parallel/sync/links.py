"""Links: what lies between the members of a team, laid by the chief and taken up by each member.

    memory   a segment that all of them inherit; a word in it calls a meeting off
    gloo     a store that the chief serves, by which they find each other over the network

Not here: what is sent over them (shared_team.py, group_team.py).
"""

from __future__ import annotations

import os
from typing import Any, Protocol, final

from laminar.parallel import buffer_row
from laminar.parallel.crew import OWN_ADDRESS, Staff
from laminar.parallel.segment import Segment
from laminar.parallel.sync.group_team import GroupTeam
from laminar.parallel.sync.layout import Layout
from laminar.parallel.sync.process_group import BEGIN, Group, serve_store
from laminar.parallel.sync.row_facts import RowFacts
from laminar.parallel.sync.shared_team import SharedTeam
from laminar.parallel.sync.small_gradients import rule_behind
from laminar.train.job import Job
from laminar.train.optimizers import slots_of
from laminar.train.snapshot import buffers_of, trainable
from laminar.train.strategies import Sync


class Link(Protocol):
    told: dict[str, Any]  # to each member
    files: list[int]  # that members inherit

    def call_off(self) -> None:
        """Whoever waits for another need not."""

    def close(self) -> None: ...


def lay(job: Job, how: Sync, size: int, staff: Staff | None = None) -> Link:
    if how.link == "memory" and (staff is None or staff.one_machine):
        return MemoryLink(layout_of(job, size), inherited=staff is None)
    return GlooLink(how.host, how.port, bind=how.host) if staff is None else GlooLink(staff.host, how.port, bind=None)


def join(told: dict[str, Any], job: Job, rank: int, size: int, timeout: float, facts: RowFacts | None = None) -> SharedTeam | GroupTeam:
    """In a member: its team, all of which have come. `facts`: where statistics are those of whole batches."""
    if "segment" in told:
        team = SharedTeam(Segment.told(told), layout_of(job, size), rank, model=job.model, facts=facts)
        team.meeting.timeout = BEGIN  # some open their job sooner than others
        team.meeting.meet()
        team.meeting.timeout = timeout
        return team
    gpu = next(iter(trainable(job.model).values())).is_cuda
    bind = told["bind"] or os.environ.get(OWN_ADDRESS)
    group = Group(told["host"], told["port"], rank, size, bind=bind, timeout=timeout, gpu=gpu)
    between = None  # NCCL has no way among some members of a group
    if gpu and facts is not None:
        between = Group(told["host"], told["port"], rank, size, bind=bind, timeout=timeout, name="statistics")
    return GroupTeam(group, facts, between)


def layout_of(job: Job, size: int) -> Layout:
    """The same in the chief and in every worker: all of them open the same job."""
    return Layout.of(
        size,
        {name: tuple(p.shape) for name, p in trainable(job.model).items()},
        buffer_row.count(buffers_of(job).values()),
        [slot for slot in slots_of(rule_behind(job.recipe)) if slot != "count"],
    )


@final
class MemoryLink:
    def __init__(self, layout: Layout, *, inherited: bool) -> None:
        """`inherited`: members are children of this process. Others of this machine look into its open files."""
        self._segment = Segment.create(layout.total)
        self._words = self._segment.words(layout.words, layout.word_count)
        self.told: dict[str, Any] = {"segment": self._segment.fd, "bytes": self._segment.size, "of": None if inherited else os.getpid()}
        self.files = [self._segment.fd]

    def call_off(self) -> None:
        self._words[0] = 1

    def close(self) -> None:
        self._words.release()
        self._segment.close()


@final
class GlooLink:
    def __init__(self, host: str, port: int | None, *, bind: str | None) -> None:
        """`bind`: the address by which members call each other; None: each has been told its own."""
        self._store: Any = serve_store(host, port)
        self.told: dict[str, Any] = {"host": host, "port": self._store.port, "bind": bind}
        self.files: list[int] = []

    def call_off(self) -> None:
        """They find out by themselves: connections to whoever died are closed, and nobody is waited for longer than the timeout."""

    def close(self) -> None:
        self._store = None

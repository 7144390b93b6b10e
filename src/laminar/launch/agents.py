"""What the chief knows of an agent, and of the processes it has started."""

from __future__ import annotations

import signal
from collections import deque
from dataclasses import dataclass, field
from typing import Any, Protocol, final

from laminar.core.errors import LaminarError
from laminar.launch.messages import Answer
from laminar.launch.post import Post
from laminar.launch.shipment import Parcel
from laminar.parallel.crew import Member, Said
from laminar.parallel.wire.hub import Caller


@final
@dataclass(eq=False)
class AgentHere:
    slot: int
    life: str
    facts: dict[str, Any]
    address: str
    post: Post = field(default_factory=Post)
    caller: Caller | None = None  # None: the line is broken
    heard: float = 0.0
    broken: float = 0.0  # since when
    lost: str = ""  # why it will not come back
    bystander: bool = False  # it was lost only because the engine had lost another
    leaving: bool = False  # its machine is about to end
    members: dict[int, RemoteMember] = field(default_factory=dict)
    answers: dict[int, Answer] = field(default_factory=dict)
    parcels: dict[str, Parcel] = field(default_factory=dict)
    files: deque[tuple[Parcel, int]] = field(default_factory=deque)  # to be sent, from which byte on
    sent: int = 0
    sees_project: bool = False
    skew: float = 0.0  # seconds by which its clock is ahead of ours, as it seemed when it called

    @property
    def name(self) -> str:
        return f"agent {self.slot} on {self.facts['host']}"


class Signaller(Protocol):
    def signal(self, member: RemoteMember, number: signal.Signals) -> None: ...

    def wait_for(self, member: RemoteMember, timeout: float) -> bool: ...


@final
@dataclass(eq=False)
class RemoteMember(Member):
    number: int = field(kw_only=True)
    agent: AgentHere = field(kw_only=True)
    staff: Signaller = field(kw_only=True)
    pid: int | None = None
    exit_code: int | None = None
    lost: str = ""  # why its agent is gone

    @property
    def name(self) -> str:
        process = f"process {self.pid} on " if self.pid is not None else ""
        return f"{self.role} {self.rank} ({process}{self.agent.facts['host']})"

    @property
    def code(self) -> int | None:
        return self.exit_code

    def send(self, number: signal.Signals) -> None:
        self.staff.signal(self, number)

    def wait(self, timeout: float) -> bool:
        return self.staff.wait_for(self, timeout)

    def how_it_ended(self) -> str:
        return f"was lost with its machine's agent: {self.lost}" if self.lost else super().how_it_ended()

    def take(self, told: dict[str, Any]) -> Said | None:
        said = super().take(told)
        if self.error is not None and "error" in told:
            own = f"{self.role} {self.rank}"
            message = self.error.message.replace(own, f"{own} on {self.agent.facts['host']}", 1)
            self.error = LaminarError(self.error.code, message, hint=self.error.hint)
        return said

"""What a launcher is: it starts agents (agent.py) on machines that it knows, and says when it has lost one. Nothing of training.

A new kind of cluster is a new launcher; its contract is in testing/launcher_contract.py.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol


@dataclass(frozen=True)
class Call:
    """Where an agent is to call, and how it shows that it may."""

    address: str
    token: str = field(repr=False)


@dataclass(frozen=True)
class Trouble:
    """An agent that the engine has lost or cannot start."""

    slot: int
    why: str
    life: str = ""  # which agent of the slot, where the engine knows it (Hello.life)
    bystander: bool = False  # the engine ends it only because it has lost another one


class Launcher(Protocol):
    name: str  # for people and for provenance: local, ray, spark, env
    fixed: int | None  # agents there are, however many are asked for; None: as many as are asked for
    whole: bool  # does it end all agents that were asked for `together` when it loses one of them?

    def begin(self) -> None:
        """It may soon be asked for agents: what takes long to load may be loaded meanwhile. Nothing that cannot be taken back."""

    @property
    def own(self) -> bool:
        """Are all agents on this machine, on a cluster that is started for this command?"""

    @property
    def host(self) -> str:
        """An address of this machine that the agents' machines can call. Loopback where they are all here."""

    def start(self, agents: int, call: Call, *, together: bool) -> None:
        """Start agents with slots 0 to `agents` - 1; each runs `agent.serve(call.address, call.token, slot)`. Does not wait for them.

        `together`: they are of use only as a whole, so the engine may start all again when it loses one.
        L4xx where the engine is not installed, cannot be reached, or has no room.
        """

    def call_off(self) -> None:
        """For another thread, while `start` is under way: nobody needs these agents any more. `start` then ends soon, with an error."""

    def trouble(self) -> list[Trouble]:
        """What has happened to agents since the last call, as far as the engine knows. Each trouble is told once."""

    def comes_back(self) -> bool:
        """Does the engine start an agent again by itself when it has lost one, and has room for it as far as it knows?"""

    def most(self) -> int | None:
        """How many agents there can be at the same time, where the engine knows that it has no room for all that were asked for."""

    def stop(self) -> None:
        """End all agents, and whatever was started for them. May be called twice."""

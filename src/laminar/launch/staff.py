"""Staff: workers on the machines of a cluster, for the chief of a strategy, to whom they look like processes of its own (parallel/crew.py).

Agents are given the files of a job and start its processes. What those say arrives here, and what they write in the run's folder is
kept here: only the chief writes to the store. When an agent is lost, so are its processes: each is told as ended, with its
host and the reason. So nobody waits for a machine that is gone.
"""

from __future__ import annotations

import os
import secrets
import signal
import tempfile
import time
from collections import deque
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Final, final

from laminar.launch import shipment
from laminar.launch.agents import AgentHere, RemoteMember
from laminar.launch.messages import Changed, Ended, Leave, Leaving, News, Removed, Ship, Signal, Start, Started, Told
from laminar.launch.protocol import Launcher
from laminar.launch.run_files import RunFiles
from laminar.launch.switchboard import STARTING, Switchboard
from laminar.parallel.crew import NobodyHere, Said
from laminar.parallel.forked import Nursery

TURN: Final = 0.05  # seconds
PASSED_ON: Final = ("LAMINAR_DATA", "LAMINAR_CACHE")


@final
class ClusterStaff:
    """A context: when it ends, so do all agents."""

    def __init__(
        self,
        launcher: Launcher,
        agents: int,
        *,
        together: bool = False,
        starting: float = STARTING,
        port: int = 0,
        token: str | None = None,
        nursery: Nursery | None = None,
    ) -> None:
        """`nursery`: forks the processes of all agents, which are on this machine."""
        self._board = Switchboard(
            launcher,
            agents,
            together=together,
            starting=starting,
            port=port,
            token=token,
            warm=nursery is None,
            on_news=self._news,
            on_lost=self._lost,
        )
        self._nursery = nursery
        self._started = False
        self._used: dict[int, AgentHere] = {}  # by rank, of the last crew
        self._said: deque[Said] = deque()
        self._members = 0
        self._job: dict[str, Any] = {}
        self._run_files: RunFiles | None = None
        self._neighbours: tuple[tuple[str, ...], bool] | None = None  # for which agents it is known

    def start_up(self) -> None:
        """Ask for agents; may be done before, by another thread, than the context begins."""
        if not self._started:
            self._board.__enter__()
            self._started = True

    def call_off(self) -> None:
        """For another thread, while `start_up` is under way."""
        self._board.launcher.call_off()

    def __enter__(self) -> ClusterStaff:
        self.start_up()
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None) -> None:
        self._board.__exit__(kind, value, trace)

    @property
    def host(self) -> str:
        return self._board.launcher.host

    @property
    def one_machine(self) -> bool:
        """An agent that can read the chief's open files and its temporary ones is a neighbour."""
        lives = tuple(agent.life for agent in self._board.ready)
        if self._neighbours is None or self._neighbours[0] != lives:
            with tempfile.NamedTemporaryFile("w", prefix="laminar-", suffix=".here") as file:
                file.write(nonce := secrets.token_hex(16))
                file.flush()
                seen = self._board.look([file.name, f"/proc/{os.getpid()}/fd/{file.fileno()}"])
            self._neighbours = lives, bool(seen) and all(found == [nonce, nonce] for found in seen.values())
        return self._neighbours[1]

    def about(self) -> dict[str, Any]:
        agents = list(self._used.values()) or self._board.here  # of the last crew, which has made the layer
        hosts = sorted({str(agent.facts["host"]) for agent in agents})
        return {"launcher": self._board.launcher.name, "hosts": hosts, "workers": len(agents)}

    @property
    def idle(self) -> bool:
        return any(agent.parcels and not agent.members for agent in self._board.ready)

    def room(self, wanted: int, fewest: int | None = None) -> int:
        return self._board.room(wanted, fewest)

    def ship(self, job: Mapping[str, Any]) -> None:
        self._said.clear()  # of an earlier crew
        self._used = {}
        self._job = dict(job)
        store, root = Path(job["store"]), Path(job["path"]).parent
        self._run_files = RunFiles(store / "runs" / job["run"])
        shared = self._see(store)
        parcels = shipment.store_parcels(self._job)
        indexes, rows = shipment.lent_features(self._job)
        more = [] if all(shared.values()) else shipment.project_parcels(root, store)
        asked: dict[int, AgentHere] = {}
        for agent in self._board.ready:
            if agent.slot not in shared:  # it came since then: it is not given anything, so no process is started there
                agent.parcels = {}
                continue
            agent.sees_project = shared[agent.slot]
            agent.parcels = {parcel.path: parcel for parcel in [*parcels, *(indexes if agent.sees_project else more)]}
            files = [(parcel.path, parcel.sha256, parcel.size) for parcel in agent.parcels.values()]
            asked[self._board.ask(agent, partial(_shipped, files, rows if agent.sees_project else []))] = agent
        self._board.answers(asked, "files for the job")

    def _see(self, store: Path) -> dict[int, bool]:
        """Which agents see the project's own store, and so its folder?"""
        probe = store / "tmp" / f"seen-{secrets.token_hex(8)}"
        probe.parent.mkdir(parents=True, exist_ok=True)
        probe.write_text(nonce := secrets.token_hex(16))
        try:
            return {slot: found == [nonce] for slot, found in self._board.look([str(probe)]).items()}
        finally:
            probe.unlink(missing_ok=True)

    def start(self, module: str, role: str, rank: int, brief: Mapping[str, Any], *, threads: int) -> RemoteMember:
        ready = [agent for agent in self._board.ready if agent.parcels]
        if not ready:
            name = self._board.launcher.name
            raise NobodyHere("L406", f"no worker is left on {name}{self._board.why()}", hint="laminar build goes on from the checkpoint")
        agent = min(ready, key=lambda agent: (len(agent.members), agent.slot))
        if role == "worker":
            self._used[rank] = agent  # in the place of one that was lost
        while self._nursery is not None and self._nursery.loading:
            self._board.turn(TURN)
        self._members += 1
        member = RemoteMember(role, rank, number=self._members, agent=agent, staff=self)
        agent.members[member.number] = member
        store, root = str(Path(self._job["store"])), str(Path(self._job["path"]).parent)
        told = Start(
            member=member.number,
            module=module,
            role=role,
            rank=rank,
            brief=dict(brief),
            threads=threads,
            environment={name: os.environ[name] for name in PASSED_ON if name in os.environ},
            # the store first: it may lie in the project
            places={store: shipment.STORE} | ({} if agent.sees_project else {root: shipment.PROJECT}),
            follow=shipment.run_folder(self._job),
            nursery=self._nursery.address if self._nursery is not None else "",
        )
        self._board.order(agent, told)
        return member

    def signal(self, member: RemoteMember, number: signal.Signals) -> None:
        if not member.ended:
            self._board.order(member.agent, Signal(member=member.number, number=int(number)))

    def wait_for(self, member: RemoteMember, timeout: float) -> bool:
        until = time.monotonic() + timeout
        while not member.ended and time.monotonic() < until:
            self._board.turn(0.1)
        return member.ended

    def hear(self) -> Iterator[Said]:
        self._board.turn(0)
        while self._said:
            yield self._said.popleft()

    def fileno(self) -> int:
        return self._board.fileno()

    def _news(self, agent: AgentHere, said: News, payload: memoryview) -> None:
        match said:
            case Started(member=number, pid=pid):
                if number in agent.members:
                    agent.members[number].pid = pid
            case Told(member=number, told=told):
                if number in agent.members and (event := agent.members[number].take(told)) is not None:
                    self._said.append(event)
            case Ended(member=number, code=code):
                if number in agent.members:
                    agent.members[number].exit_code = code
                    self._end(agent, agent.members[number])
            case Leaving():
                for member in agent.members.values():
                    self._said.append(Said(member, {"leaving": "was told to leave: its machine is about to end"}))
                self._let_go(agent)
            case Changed() if self._run_files is not None:
                self._run_files.changed(said, payload)
            case Removed() if self._run_files is not None:
                self._run_files.removed(said)
            case _:
                pass

    def _lost(self, agent: AgentHere) -> None:
        for member in list(agent.members.values()):
            member.lost, member.bystander = agent.lost, agent.bystander
            self._end(agent, member)

    def _end(self, agent: AgentHere, member: RemoteMember) -> None:
        member.ended = True
        agent.members.pop(member.number, None)
        self._said.append(Said(member))
        self._let_go(agent)

    def _let_go(self, agent: AgentHere) -> None:
        if agent.leaving and not agent.members and not agent.lost:
            self._board.order(agent, Leave())


def _shipped(files: list[tuple[str, str, int]], lent: list[tuple[str, str]], question: int) -> Ship:
    return Ship(question=question, files=files, lent=lent)

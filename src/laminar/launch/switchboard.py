"""Switchboard: the chief's lines to its agents. Who is here, who is lost and why; orders to them, and their answers.

An agent is here when it has called. Its line may break for `BACK` seconds; then, or when the engine says so, it is lost. It knows
nothing of training: staff.py does that, check.py measures.
"""

from __future__ import annotations

import contextlib
import math
import secrets
import time
from collections.abc import Callable, Iterable, Mapping
from types import TracebackType
from typing import Any, Final, final

import msgspec

from laminar.core.errors import LaminarError
from laminar.core.figures import many
from laminar.launch.agents import AgentHere
from laminar.launch.facts import facts
from laminar.launch.messages import Answer, File, Hello, Leave, Leaving, Look, Message, News, Refused, Wanted, Welcome, news
from laminar.launch.patience import BACK, Patience
from laminar.launch.protocol import Call, Launcher, Trouble
from laminar.launch.workspace import CHUNK
from laminar.parallel.wire.hub import Caller, Hub

STARTING: Final = 120.0  # seconds until all agents are here
SILENCE: Final = 10.0  # seconds after which a line is taken for broken
STUCK: Final = 60.0  # seconds without progress of what was asked
BEAT: Final = 0.5
UNSEEN: Final = 16 << 20  # bytes on their way to one agent


@final
class Switchboard:
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
        warm: bool = False,
        on_news: Callable[[AgentHere, News, memoryview], None] = lambda *_: None,
        on_lost: Callable[[AgentHere], None] = lambda _: None,
    ) -> None:
        """`port`, `token`: where agents know already where to call, and how to show that they may. `warm`: they are to start processes."""
        self.launcher, self.wanted = launcher, agents
        self._together, self._starting, self._warm = together, starting, warm
        self._on_news, self._on_lost = on_news, on_lost
        self._port, self._token = port, token or secrets.token_hex(16)
        self.agents: dict[int, AgentHere] = {}
        self.troubles: dict[int, str] = {}  # of slots that have no agent
        self._ended: dict[str, Trouble] = {}  # by the life of an agent that the engine has ended
        self._questions = 0
        self._beaten = self._began = time.monotonic()
        self._version = facts()["laminar"]

    def __enter__(self) -> Switchboard:
        self._hub = Hub(f"{self.launcher.host}:{self._port}", self._token, payload_limit=2 * CHUNK)
        try:
            self._began = time.monotonic()
            self.launcher.start(self.wanted, Call(self._hub.address, self._token), together=self._together)
        except BaseException:
            self._hub.close()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None) -> None:
        for agent in self.here:
            self.order(agent, Leave())
        until = time.monotonic() + BACK
        with contextlib.suppress(LaminarError):
            while any(agent.caller is not None for agent in self.agents.values()) and time.monotonic() < until:
                self.turn(0.1)
        self.launcher.stop()
        self._hub.close()

    @property
    def here(self) -> list[AgentHere]:
        return [agent for _, agent in sorted(self.agents.items()) if not agent.lost]

    @property
    def ready(self) -> list[AgentHere]:
        """To be given something to do."""
        return [agent for agent in self.here if not agent.leaving]

    def fileno(self) -> int:
        return self._hub.fileno()

    def room(self, wanted: int, fewest: int | None = None) -> int:
        """How many agents are here, at most `wanted`. L406 if fewer than `fewest` came in time; at first that is all."""
        first = not self.agents
        needed = fewest if fewest is not None else wanted if first else 1
        since = self._began if first else time.monotonic()
        patience = Patience(wanted, needed, self.wanted, since, self._starting if first else None)
        comes_back = self.launcher.comes_back()
        while not patience.is_over(len(self.ready), len(self.troubles), time.monotonic(), comes_back=comes_back, most=self.launcher.most()):
            self.turn(0.1)
            comes_back = self.launcher.comes_back()
        there, waited = len(self.ready), time.monotonic() - since
        if there < needed:
            late = waited >= patience.limit(comes_back=comes_back)
            raise LaminarError(
                "L406",
                f"{many(there, 'worker')} of {wanted} {'came' if first else 'remained'} on {self.launcher.name}"
                f"{f' within {waited:.0f} s' if late else ', and no other will come'}{self.why()}",
                hint="laminar cluster check; or ask for fewer with --workers",
            )
        return min(there, wanted)

    def why(self) -> str:
        told = "; ".join(f"worker {slot}: {why}" for slot, why in sorted(self.troubles.items()))
        return f" ({told})" if told else ""

    # Asking

    def order(self, agent: AgentHere, message: Message, payload: bytes = b"") -> None:
        header = agent.post.out(msgspec.to_builtins(message), payload)
        if agent.caller is not None:
            self._hub.send(agent.caller, header, payload)

    def ask(self, agent: AgentHere, message: Callable[[int], Message]) -> int:
        """`message` of the number that the answer will have."""
        self._questions += 1
        self.order(agent, message(self._questions))
        return self._questions

    def answers(self, asked: Mapping[int, AgentHere], what: str) -> dict[int, Any]:
        """By question, of all who are not lost meanwhile. L406 if one cannot, or nothing moves."""
        moved, progress = time.monotonic(), -1
        while waiting := {n: agent for n, agent in asked.items() if n not in agent.answers and not agent.lost}:
            self.turn(0.05)
            self._send_files(waiting.values())
            now = sum(agent.post.seen + agent.sent for agent in asked.values())
            if now != progress:
                moved, progress = time.monotonic(), now
            elif time.monotonic() - moved > STUCK:
                agent = next(iter(waiting.values()))
                raise LaminarError("L406", f"{agent.name} did not answer for {STUCK:g} s: {what}", hint="laminar cluster check")
        found = {}
        for n, agent in asked.items():
            if n in agent.answers:
                answer = agent.answers.pop(n)
                if answer.wrong:
                    raise LaminarError("L406", f"{agent.name}: {what}: {answer.wrong}", hint="laminar cluster check")
                found[n] = answer.answer
        return found

    def look(self, files: list[str]) -> dict[int, list[str | None]]:
        """What each agent finds in these small files, by slot."""
        asked = {self.ask(agent, lambda n: Look(question=n, files=files)): agent for agent in self.ready}
        return {asked[n].slot: answer for n, answer in self.answers(asked, "a look at files").items()}

    def _send_files(self, agents: Iterable[AgentHere]) -> None:
        """As much as goes without piling up."""
        for agent in agents:
            while agent.files and agent.caller is not None and agent.post.unseen_bytes < UNSEEN:
                parcel, at = agent.files[0]
                with open(parcel.source, "rb") as file:
                    file.seek(at)
                    data = file.read(CHUNK)
                last = at + len(data) >= parcel.size
                self.order(agent, File(path=parcel.path, at=at, last=last), data)
                agent.sent += len(data) + 1
                if last:
                    agent.files.popleft()
                else:
                    agent.files[0] = parcel, at + len(data)

    # The lines

    def turn(self, timeout: float) -> None:
        """Hear what there is, and look at the clock."""
        for heard in self._hub.turn(timeout):
            agent = self.agents.get(int(heard.caller.who)) if heard.caller.who else None
            if heard.header is None:
                if agent is not None and agent.caller is heard.caller:
                    agent.caller, agent.broken = None, time.monotonic()
            elif agent is None:
                self._hello(heard.caller, heard.header)
            elif agent.caller is heard.caller:
                agent.heard = time.monotonic()
                self._hear(agent, heard.header, heard.payload)
        self._look_at_the_clock()

    def _hear(self, agent: AgentHere, header: dict[str, Any], payload: memoryview) -> None:
        try:
            taken = agent.post.take(header)
            if taken is None:
                return
            match said := news(taken):
                case Answer(question=question):
                    agent.answers[question] = said
                case Wanted(paths=paths):
                    agent.files.extend((agent.parcels[path], 0) for path in paths)
                case Leaving():
                    agent.leaving = True
                    self.troubles[agent.slot] = "its machine was told to end"
                    self._on_news(agent, said, payload)
                case _:
                    self._on_news(agent, said, payload)
        except (msgspec.ValidationError, KeyError, TypeError, ValueError) as error:
            self._lose(agent, f"it does not speak our language: {error}")

    def _look_at_the_clock(self) -> None:
        now = time.monotonic()
        for trouble in self.launcher.trouble():
            self._hear_trouble(trouble)
        beat = now - self._beaten >= BEAT
        for agent in self.here:
            if agent.caller is not None and now - agent.heard > SILENCE:
                self._hub.drop(agent.caller)
                agent.caller, agent.broken = None, now
            if agent.caller is None and agent.life in self._ended:
                self._lose(agent, self._ended[agent.life].why)
            elif agent.caller is None and now - agent.broken > BACK:
                self._lose(agent, self.troubles.get(agent.slot) or f"it was not heard of for {math.floor(now - agent.heard)} s")
            elif beat and agent.caller is not None:
                self._hub.send(agent.caller, agent.post.beat())
        if beat:
            self._beaten = now

    def _hear_trouble(self, trouble: Trouble) -> None:
        """What is told of an agent that has another in its place by now says nothing of that one."""
        agent = self.agents.get(trouble.slot)
        if trouble.life:
            self._ended[trouble.life] = trouble
            if agent is not None and agent.life != trouble.life and not agent.lost:
                return
        self.troubles[trouble.slot] = trouble.why
        if agent is not None and not agent.lost and (agent.caller is None or trouble.bystander):
            self._lose(agent, trouble.why, bystander=trouble.bystander)

    def _hello(self, caller: Caller, header: dict[str, Any]) -> None:
        try:
            said = msgspec.convert(header, Hello)
        except msgspec.ValidationError:
            self._hub.drop(caller)
            return
        known = self.agents.get(said.slot)
        same = known is not None and known.life == said.life
        ended = self._ended[said.life].why if said.life in self._ended else ""
        if why := self._unfit(said) or ended or ("it was given up" if known is not None and same and known.lost else ""):
            self.troubles[said.slot] = why
            self._hub.send(caller, Refused(why=why))
            return
        if known is None or not same:
            if known is not None and not known.lost:
                self._lose(known, self.troubles.get(said.slot, "the engine started another in its place"))
            known = self.agents[said.slot] = AgentHere(said.slot, said.life, said.facts, said.address)
            known.skew = float(said.facts["time"]) - time.time()
            self.troubles.pop(said.slot, None)
        elif known.caller is not None:
            self._hub.drop(known.caller)
        known.caller, known.heard = caller, time.monotonic()
        caller.who = str(said.slot)
        self._hub.send(caller, Welcome(seen=known.post.seen, warm=self._warm))
        known.post.was_seen(said.seen)
        for again, payload in known.post.again():
            self._hub.send(caller, again, payload)

    def _unfit(self, said: Hello) -> str:
        if not 0 <= said.slot < self.wanted:
            return f"there is no worker {said.slot}"
        if said.facts.get("laminar") != self._version:
            return f"Laminar {said.facts.get('laminar')} on {said.facts.get('host')}, but {self._version} here"
        return ""

    def _lose(self, agent: AgentHere, why: str, *, bystander: bool = False) -> None:
        agent.lost = self.troubles[agent.slot] = why
        agent.bystander = bystander
        if agent.caller is not None:
            self._hub.drop(agent.caller)
            agent.caller = None
        self._on_lost(agent)

"""Launched by the environment: torchrun, Slurm or Kubernetes have started this command once for each rank already.

Rank 0 is the chief, and the others become agents. Rank 0 tells where it listens through torchrun's store; without one (Slurm) all
go by MASTER_ADDR and MASTER_PORT and show the token that LAMINAR_TOKEN holds.
"""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final, final

from laminar.core.errors import LaminarError
from laminar.launch.agent import TOKEN, serve
from laminar.launch.local_agents import LocalAgents
from laminar.launch.protocol import Call, Trouble

PORT: Final = 29500  # torchrun's own default
PATIENCE: Final = 120.0  # seconds that ranks wait for rank 0
OVER: Final = "over"


@dataclass(frozen=True)
class Place:
    """This process among those that were started together."""

    rank: int
    size: int
    master: str
    port: int
    store: bool  # does torchrun serve a store at that place?
    attempt: int  # how often they were started again
    nodes: int = 1  # machines they are on, as far as it is known

    @property
    def key(self) -> str:
        return f"laminar/{self.attempt}/call"


def place_of(environment: Mapping[str, str]) -> Place | None:
    """None: nobody has started several of us."""
    if "TORCHELASTIC_RUN_ID" in environment:
        return Place(
            rank=_number(environment, "RANK"),
            size=_number(environment, "WORLD_SIZE"),
            master=environment.get("MASTER_ADDR", "127.0.0.1"),
            port=_number(environment, "MASTER_PORT", PORT),
            store=environment.get("TORCHELASTIC_USE_AGENT_STORE") == "True",
            attempt=_number(environment, "TORCHELASTIC_RESTART_COUNT", 0),
            nodes=_number(environment, "GROUP_WORLD_SIZE", 1),
        )
    if "SLURM_PROCID" in environment and _number(environment, "SLURM_STEP_NUM_TASKS", _number(environment, "SLURM_NTASKS", 1)) > 1:
        master = environment.get("MASTER_ADDR") or first_host(environment.get("SLURM_STEP_NODELIST", "127.0.0.1"))
        return Place(
            rank=_number(environment, "SLURM_PROCID"),
            size=_number(environment, "SLURM_STEP_NUM_TASKS", _number(environment, "SLURM_NTASKS", 1)),
            master=master,
            port=_number(environment, "MASTER_PORT", PORT),
            store=False,
            attempt=_number(environment, "SLURM_RESTART_COUNT", 0),
            nodes=_number(environment, "SLURM_STEP_NUM_NODES", _number(environment, "SLURM_NNODES", 1)),
        )
    if "RANK" in environment and "WORLD_SIZE" in environment:  # by hand
        return Place(
            rank=_number(environment, "RANK"),
            size=_number(environment, "WORLD_SIZE"),
            master=environment.get("MASTER_ADDR", "127.0.0.1"),
            port=_number(environment, "MASTER_PORT", PORT),
            store=False,
            attempt=0,
        )
    return None


def need_place(environment: Mapping[str, str]) -> Place:
    found = place_of(environment)
    if found is None:
        raise LaminarError(
            "L407", "there is no rank in the environment", hint="torchrun --nnodes 4 … -m laminar build, or srun laminar build --on env"
        )
    return found


def _number(environment: Mapping[str, str], name: str, default: int | None = None) -> int:
    text = environment.get(name)
    if text is None and default is not None:
        return default
    try:
        found = int(text or "")
    except ValueError:
        found = -1
    if found < 0:
        raise LaminarError("L407", f"{name} is {text!r} in the environment, expected a number", hint="torchrun and srun set it")
    return found


def first_host(hosts: str) -> str:
    """Of Slurm's short form: `node[003-006,009],gpu1` begins with node003."""
    head, bracket, rest = hosts.partition("[")
    if not bracket or "," in head:
        return head.split(",")[0]
    return head + rest.split("]")[0].split(",")[0].split("-")[0]


@final
class EnvironmentLauncher:
    """Rank 0's side. The other ranks are here already; only its own agent is started."""

    name = "env"
    own = False
    whole = False

    def __init__(self, place: Place) -> None:
        self._place = place
        self._own = LocalAgents()
        self._store: Any = None
        self.fixed: int | None = place.size
        self.token = os.environ.get(TOKEN) or (None if place.store else _no_token())
        self.port = 0 if place.store else place.port

    def begin(self) -> None:
        """There is nothing to load."""

    @property
    def host(self) -> str:
        try:
            found = socket.gethostbyname(self._place.master)
        except OSError as error:
            raise LaminarError("L407", f"MASTER_ADDR {self._place.master}: {error}", hint="set it to the host of rank 0") from error
        if self._place.nodes > 1 and found.startswith("127."):  # usual on Debian, where a machine's own name is 127.0.1.1
            raise LaminarError(
                "L407",
                f"MASTER_ADDR {self._place.master} is {found} here, where the ranks of other machines cannot call",
                hint="set MASTER_ADDR to an address of rank 0, or take its name out of the line of 127.0.1.1 in /etc/hosts",
            )
        return found

    def start(self, agents: int, call: Call, *, together: bool) -> None:  # noqa: ARG002
        if self._place.store:
            token = "" if TOKEN in os.environ else call.token
            self._store = _store(self._place)
            self._store.set(self._place.key, json.dumps({"address": call.address, "token": token}))
        self._own.start_one(0, call)

    def call_off(self) -> None:
        """The others are here already."""

    def trouble(self) -> list[Trouble]:
        return self._own.trouble()

    def comes_back(self) -> bool:
        return False

    def most(self) -> int | None:
        return None

    def stop(self) -> None:
        self._own.stop()


def be_an_agent(place: Place) -> str:
    """In the other ranks: until the chief says that it is over. Returns what went wrong."""
    if place.store:
        try:
            told = json.loads(_store(place).get(place.key))
        except (RuntimeError, ValueError) as error:
            return f"rank 0 did not say where it listens within {PATIENCE:g} s: {str(error).splitlines()[0]}"
        address, token = told["address"], told["token"] or os.environ.get(TOKEN) or _no_token()
    else:
        address, token = f"{place.master}:{place.port}", os.environ.get(TOKEN) or _no_token()
    os.environ.pop(TOKEN, None)  # it is not for the processes that an agent starts
    return serve(address, token, place.rank, warned=True)


def _store(place: Place) -> Any:
    import torch.distributed

    dist: Any = torch.distributed
    try:
        return dist.TCPStore(place.master, place.port, None, False, timedelta(seconds=PATIENCE))
    except RuntimeError as error:
        raise LaminarError(
            "L407",
            f"torchrun's store at {place.master}:{place.port} does not answer: {str(error).splitlines()[0]}",
            hint="look at rank 0's machine",
        ) from error


def _no_token() -> str:
    raise LaminarError(
        "L407",
        f"{TOKEN} is not set, by which ranks know each other",
        hint=f"export {TOKEN}=$(python -c 'import secrets; print(secrets.token_hex(16))') before srun, which passes it on",
    )

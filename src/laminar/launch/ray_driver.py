"""Ray's driver: the process of a build that speaks with Ray. It has agents placed and replaced, and tells the launcher (ray.py) of them.

Told by lines of JSON which cluster, and how many agents. When that line ends, however the launcher did, it ends the actors
and whatever of Ray it has started.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import re
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any, Final, final

import ray
from ray.exceptions import ActorDiedError, ActorUnavailableError, RayActorError, RayError, RayTaskError
from ray.util.placement_group import PlacementGroup, placement_group, placement_group_table, remove_placement_group
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

from laminar.core import interrupts
from laminar.core.errors import LaminarError
from laminar.launch.ray import EMBEDDED, LaminarAgent
from laminar.launch.ray_places import PENDING, PLACED, Places
from laminar.parallel.crew import CALLED_OFF, Brief, read_brief, tell_error

NOT_USED: Final = ("start_monitor", "start_log_monitor", "start_api_server")
UNLUCKY: Final = "Starting Ray client server failed"
BUNDLE: Final = {"CPU": 1}
OBJECTS: Final = 128 << 20  # bytes of an object store that nothing is put into
LOOK: Final = 0.25  # seconds
SOON: Final = 0.05  # seconds between looks for room: it is there at once, or not for long
ENDING: Final = 20.0  # seconds that Ray has to end what it has started
AGAIN: Final = 20  # times that one slot's agent is replaced: more are no bad luck
PAUSE: Final = 1.0  # seconds between two agents of a slot
LONGEST: Final = 300  # letters of Ray's reasons


@final
class Agents:
    """The actors, by slot."""

    def __init__(self, brief: Brief, told: dict[str, Any], placing: float) -> None:
        self._brief, self._call = brief, (told["address"], told["token"])
        self._wanted: int = told["agents"]
        self._group: PlacementGroup = placement_group([dict(BUNDLE)] * self._wanted, strategy="SPREAD", name="laminar")
        # From now on: behind ray:// the line above starts a process on the cluster, which may take longer than to find room.
        self._places = Places(time.monotonic() + placing)
        self._has_room = False
        self._actors: dict[int, Any] = {}
        self._slots: dict[Any, int] = {}  # by the future of its agent's end
        self._begun = [0] * self._wanted  # agents that a slot had
        self._due: dict[int, float] = {}  # when a slot gets its next agent

    def look(self, seconds: float) -> None:
        """Wait for news at most so long, and tell it. L406 if there is no room."""
        if not self._has_room:
            self._look_for_room(seconds)
            return
        ended, _ = ray.wait(list(self._slots), timeout=seconds) if self._slots else ([], [])
        for future in ended:
            self._ended(self._slots.pop(future), future)
        for slot in [slot for slot, when in self._due.items() if when <= time.monotonic()]:
            del self._due[slot]
            self._start(slot)
        if max(self._begun) > 1:
            self._look_for_places()

    def end(self) -> None:
        for actor in self._actors.values():
            with contextlib.suppress(RayError):
                ray.kill(actor)
        remove_placement_group(self._group)

    def _state(self) -> str:
        """Not by `PlacementGroup.wait`, which does not wait for less than a second, and may miss a group that is there."""
        return str(placement_group_table(self._group).get("state", PENDING))

    def _look_for_room(self, seconds: float) -> None:
        state = self._state()
        if state == PLACED:
            self._has_room = True
            for slot in range(self._wanted):
                self._start(slot)
            self._brief.say({"placed": self._wanted})
        elif not self._places.have_no_room(state, time.monotonic()):
            time.sleep(min(seconds, SOON))
        else:
            has, free = (found.get("CPU", 0) for found in (ray.cluster_resources(), ray.available_resources()))
            raise LaminarError(
                "L406",
                f"there is no room for {self._wanted} workers: {_cpus(self._wanted)} were asked for, one for each, "
                f"and the cluster has {_cpus(has)}, of which {free:g} are free",
                hint="ask for fewer with --workers, or wait for other jobs (ray status)",
            )

    def _look_for_places(self) -> None:
        """Ray looks for another place for a bundle whose node is gone; if there is none, nobody need wait for it."""
        before = self._places.crowded
        self._places.look(self._state(), time.monotonic())
        if self._places.crowded != before:
            self._brief.say({"crowded": self._places.crowded})

    def _start(self, slot: int) -> None:
        self._begun[slot] += 1
        place = PlacementGroupSchedulingStrategy(placement_group=self._group, placement_group_bundle_index=slot)
        made = ray.remote(LaminarAgent).options(num_cpus=1, max_restarts=0, scheduling_strategy=place).remote()
        self._actors[slot] = made
        self._slots[made.serve.remote(*self._call, slot)] = slot

    def _ended(self, slot: int, future: Any) -> None:
        """An agent that was lost is replaced; one that could not work would not do better again."""
        again = False
        try:
            why = ray.get(future)
        except RayTaskError as error:
            why = f"{type(error.cause).__name__}: {error.cause}"
        except RayActorError as error:
            why, again = reason(error), not error.actor_init_failed and self._begun[slot] < AGAIN
        except RayError as error:
            why = reason(error)
        if why:
            self._brief.say({"slot": slot, "trouble": str(why)[:LONGEST]})
        if again:
            self._due[slot] = time.monotonic() + PAUSE
            self._places.lost(time.monotonic())


def reason(error: Exception) -> str:
    """Of Ray's many lines, those that say why: not numbers and names, which are indented."""
    if isinstance(error, ActorUnavailableError):
        found = re.search(r"RPC error: (.+?) rpc_code", str(error))
        return f"Ray does not reach it any more{f' ({found[1]})' if found else ''}"
    lines = [line.strip() for line in str(error).splitlines() if line and not line[0].isspace()]
    if lines[0] == ActorDiedError.BASE_ERROR_MSG:
        lines = lines[1:]
    return re.sub(r" (Node Id: )?[0-9a-f]{32,}\.?| The actor never ran.*", "", " ".join(lines))


def _cpus(number: float) -> str:
    return f"{number:g} CPU{'' if number == 1 else 's'}"


def connect(address: str, cpus: int | None) -> None:
    """L407 if Ray does not let us."""
    options: dict[str, Any] = {"log_to_driver": bool(os.environ.get("LAMINAR_DEBUG")), "logging_level": "warning"}
    try:
        if address == EMBEDDED:
            own = {"num_cpus": cpus, "num_gpus": 0, "object_store_memory": OBJECTS, "_node_ip_address": "127.0.0.1"}
            start_own(include_dashboard=False, **own, **options)
        else:
            reach(address, **options)
    except (ConnectionError, RuntimeError, ValueError, OSError, RayError) as error:
        where = "a cluster of our own on this machine" if address == EMBEDDED else f"the cluster at {address}"
        raise LaminarError(
            "L407",
            f"{where} cannot be used: {' '.join(str(error).split())[:LONGEST]}",
            hint="ray status on the head; --on ray://HOST:10001 from a machine that is none of its nodes",
        ) from error


def reach(address: str, **options: Any) -> None:
    """One that runs. Behind ray:// its head forks a server for us, in a process with threads of gRPC, which crashes now and then."""
    try:
        ray.init(address=address, **options)
    except ConnectionError as error:
        if UNLUCKY not in str(error):
            raise
        ray.init(address=address, **options)


def start_own(**options: Any) -> None:
    """A cluster on this machine, without what nobody uses; with it where Ray will not start otherwise."""
    try:
        with _without_what_nobody_uses():
            ray.init(address=EMBEDDED, **options)
    except Exception:
        ray.shutdown()
        ray.init(address=EMBEDDED, **options)


@contextlib.contextmanager
def _without_what_nobody_uses() -> Iterator[None]:
    """A cluster of our own needs no autoscaler, nobody to gather its logs and, without a dashboard, no server for its usage statistics:
    three processes whose start takes a third of Ray's own. `ray start` has options for that (--no-monitor), ray.init has none, so the
    methods that start them are replaced while it runs. A Ray that has no such methods is left as it is."""
    node = getattr(sys.modules.get("ray._private.node"), "Node", None)
    replaced = {name: found for name in NOT_USED if (found := getattr(node, name, None)) is not None}
    for name in replaced:
        setattr(node, name, lambda *_, **__: None)
    try:
        yield
    finally:
        for name, method in replaced.items():
            setattr(node, name, method)


def orders(file: int) -> queue.Queue[dict[str, Any] | None]:
    """What the launcher says; None when it is over. Heard by a thread: Ray, which may be waiting for something, must not outlive it."""
    heard: queue.Queue[dict[str, Any] | None] = queue.Queue()

    def listen() -> None:
        with open(file, "rb") as lines:
            for line in lines:
                heard.put(json.loads(line))
        heard.put(None)
        time.sleep(ENDING)
        os._exit(CALLED_OFF)

    threading.Thread(target=listen, daemon=True).start()
    return heard


def run(brief: Brief) -> None:
    told, heard = brief.told, orders(brief.told["orders"])
    agents: Agents | None = None
    try:
        if (first := heard.get()) is None:
            return
        connect(first["connect"], first["cpus"])
        brief.say({"nodes": sorted({str(node["NodeManagerAddress"]) for node in ray.nodes() if node["Alive"]})})
        while True:
            if agents is None or not heard.empty():
                if (order := heard.get()) is None:
                    return
                agents = Agents(brief, order, told["placing"])
            agents.look(LOOK)
    finally:
        if agents is not None:
            with contextlib.suppress(RayError, RuntimeError):
                agents.end()
        ray.shutdown()


def main() -> None:
    interrupts.hear()  # Ray's own processes begin as it expects
    brief = read_brief(dies_with_chief=False)
    if (log := brief.told["log"]) is not None:
        os.dup2(log, 1)
        os.dup2(log, 2)
    try:
        run(brief)
    except Exception as error:
        with contextlib.suppress(BrokenPipeError):
            tell_error(brief, "Ray", error)
        sys.exit(4)


if __name__ == "__main__":
    main()

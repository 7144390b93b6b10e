"""Check: what a cluster is like, found out by the agents that a build would use, without training anything."""

from __future__ import annotations

import itertools
import secrets
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeVar

from laminar.core.errors import LaminarError
from laminar.launch.agents import AgentHere
from laminar.launch.measure import new_key
from laminar.launch.messages import Look, Measure
from laminar.launch.protocol import Launcher
from laminar.launch.switchboard import Switchboard

PAIRS: Final = 45  # that are measured, at least if there are so many: all of ten workers
BYTES: Final = 16 << 20
T = TypeVar("T")
SKEW: Final = 1.0  # seconds between clocks after which histories of several machines cannot be compared


@dataclass(frozen=True)
class WorkerFound:
    slot: int
    host: str
    pid: int
    cores: int
    memory: int | None
    laminar: str
    python: str
    torch: str | None
    skew: float  # seconds by which its clock is ahead of ours
    round_trip: float  # seconds from the chief
    sees_project: bool


@dataclass(frozen=True)
class Distance:
    first: int
    second: int
    latency: float  # seconds there and back
    bandwidth: float  # bytes per second


@dataclass
class Report:
    on: str
    wanted: int
    seconds: float  # until all were here
    workers: list[WorkerFound] = field(default_factory=list)
    distances: list[Distance] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)


def check(launcher: Launcher, workers: int, project: Path, *, starting: float) -> Report:
    """L406 and L407 as for a build."""
    began = time.monotonic()
    with Switchboard(launcher, workers, starting=starting) as board:
        board.room(workers, fewest=1)
        report = Report(launcher.name, workers, time.monotonic() - began)
        report.workers = _workers(board, project)
        report.distances, cannot = _distances(board)
        here = {agent.slot for agent in board.here}
        missing = {slot: board.troubles.get(slot, f"did not come within {starting:g} s") for slot in range(workers) if slot not in here}
        report.problems = [f"worker {slot}: {why}" for slot, why in sorted({**board.troubles, **missing}.items())] + cannot
    report.problems += _problems(report)
    return report


def _workers(board: Switchboard, project: Path) -> list[WorkerFound]:
    probe = project / f".laminar-seen-{secrets.token_hex(8)}"
    try:
        probe.write_text(nonce := secrets.token_hex(16))
        seen = board.look([str(probe)])
    except OSError:
        nonce, seen = "", {}
    finally:
        probe.unlink(missing_ok=True)
    found = []
    for agent in board.here:
        facts = agent.facts
        found.append(
            WorkerFound(
                slot=agent.slot,
                host=facts["host"],
                pid=facts["pid"],
                cores=facts["cores"],
                memory=facts["memory"],
                laminar=facts["laminar"],
                python=facts["python"],
                torch=facts["torch"],
                skew=agent.skew,
                round_trip=_round_trip(board, agent),
                sees_project=seen.get(agent.slot) == [nonce],
            )
        )
    return found


def _round_trip(board: Switchboard, agent: AgentHere) -> float:
    times = []
    for _ in range(3):
        began = time.perf_counter()
        board.answers({board.ask(agent, lambda n: Look(question=n, files=[])): agent}, "a question")
        times.append(time.perf_counter() - began)
    return statistics.median(times)


def pairs(workers: Sequence[T], most: int = PAIRS) -> list[tuple[T, T]]:
    """Neighbours in a ring first, so that everybody is in one; then others, as far as there is time."""
    size = len(workers)
    ring = [(i, (i + 1) % size) for i in range(size if size > 2 else size - 1)]
    chosen = [tuple(sorted(pair)) for pair in ring]
    chosen += [pair for pair in itertools.combinations(range(size), 2) if pair not in set(chosen)][: max(0, most - len(chosen))]
    return [(workers[one], workers[other]) for one, other in sorted(chosen)]


def _distances(board: Switchboard) -> tuple[list[Distance], list[str]]:
    """What was measured, and which pairs could not be."""
    found, cannot = [], []
    for one, other in pairs(board.here):
        key = new_key()
        try:
            listening = board.ask(one, partial(_measure, listen=True, key=key))
            address = board.answers({listening: one}, "a place to be called at").get(listening)
            if address is None:
                continue
            calling = board.ask(other, partial(_measure, listen=False, key=key, address=address, bytes=BYTES))
            measured = board.answers({calling: other}, f"a call to {one.name} at {address}").get(calling)
        except LaminarError as error:
            ends = [f"worker {agent.slot} on {agent.facts['host']}" for agent in (other, one)]
            cannot.append(f"{ends[0]} does not reach {ends[1]}: {error.message}")
            continue
        if measured is not None:
            found.append(Distance(one.slot, other.slot, measured["latency"], measured["bandwidth"]))
    return found, cannot


def _measure(question: int, **fields: Any) -> Measure:
    return Measure(question=question, **fields)


def _problems(report: Report) -> list[str]:
    found = []
    for name in ("torch", "python"):
        versions = sorted({str(getattr(worker, name)) for worker in report.workers})
        if len(versions) > 1:
            found.append(f"different versions of {name}: {', '.join(versions)}")
    found += [f"worker {w.slot} on {w.host} has no torch" for w in report.workers if w.torch is None]
    found += [f"the clock of {w.host} is {w.skew:+.1f} s from ours" for w in report.workers if abs(w.skew) > SKEW]
    return found

"""Links: what processes of this machine can do together, measured by real ones that are started for it and ended in every case.

What they do is in link_member.py. Never more than there are cores: those would wait for each other's turn, which says nothing of links.
"""

from __future__ import annotations

import contextlib
import math
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from laminar.core.errors import LaminarError
from laminar.parallel.crew import Crew
from laminar.parallel.segment import Segment
from laminar.parallel.sync.process_group import serve_store
from laminar.plan.budget import ENDLESS, Budget, OutOfTime
from laminar.plan.facts import Curve, MachineFacts
from laminar.plan.our_code import our_code
from laminar.plan.profile.link_exchanges import segment_sizes
from laminar.plan.profile.meter import Meter, Tell
from laminar.plan.profile.this_machine import this_machine
from laminar.plan.profile.timing import Effort

MODULE: Final = "laminar.plan.profile.link_member"
MEASURED_BY: Final = tuple(
    f"plan/profile/{name}.py" for name in ("in_step", "link_compute", "link_exchanges", "link_member", "link_servers")
)
SIZES: Final = (1 << 10, 1 << 14, 1 << 17, 1 << 20, 1 << 23)  # bytes
HOST: Final = "127.0.0.1"
TICK: Final = 0.5  # seconds
START: Final = 3.0  # seconds until a team has begun, where that was not measured
PATIENCE: Final = 90.0  # seconds in which one part of them must be done
# Where there is one core: orders of magnitude, bytes a second and seconds at least, since two processes cannot be measured there.
ASSUMED: Final = {"memory": (1e9, 1e-4), "gloo": (3e8, 1e-3)}
# Seconds that a member waits for its turn where there are twice as many as cores: gloo sleeps until the system wakes it (4 KiB among 4 on
# 2 cores took 5 ms longer than among 2), a meeting in shared memory gives the core away at once.
TURN: Final = {"memory": 2e-4, "gloo": 5e-3}


def machine_facts(world: int, meter: Meter) -> MachineFacts:
    """For teams of up to so many members."""
    here = this_machine()
    counts = measured_counts(world, here.cores)
    raw = {count: _raw(count, meter) for count in counts}
    first = raw[counts[0]]
    found: dict[str, Any] = {"wire": Curve.measured(_points(first["wire"]))} if "wire" in first else {}
    lines = {
        (link, kind, count): Curve.measured(_points(some))
        for count, one in raw.items()
        for link, kinds in one.get("lines", {}).items()
        for kind, some in kinds.items()
    }
    steps = {count: Curve.measured(_points(one["shared_step"])) for count, one in raw.items() if "shared_step" in one}
    posts = {link: Curve.measured(_points(some)) for link, some in first.get("posts", {}).items()}
    if world > 1 and here.cores == 1:
        lines, steps, posts = _assumed()
    return MachineFacts(
        cores=here.cores,
        memory=here.memory,
        lines=lines | more_lines(lines, world, here.cores),
        posts=posts,
        shared_step=steps | more_steps(steps, world, here.cores),
        apply=Curve.measured(_points(first["apply"])),
        crowd={1: 1.0} | {int(count): ratio for one in raw.values() for count, ratio in one.get("crowd", {}).items()},
        hidden=first.get("hidden", 0.0),
        spread=first["spread"],
        start=first.get("start", START) if world > 1 else 0.0,
        process_bytes=first["process_bytes"],
        library_bytes=first.get("library_bytes", 0),
        **found,
    )


def measured_counts(world: int, cores: int) -> list[int]:
    """Numbers of members that are measured: powers of two, and as many as there may be."""
    most = min(world, cores)
    return sorted({most, *(1 << k for k in range(1, most.bit_length()) if 1 << k <= most)}) if most > 1 else [1]


def counts_beyond(world: int, cores: int) -> list[int]:
    """And those that are not."""
    return sorted({world, *(1 << k for k in range(1, world.bit_length() + 1) if cores < 1 << k <= world)} - set(range(cores + 1)))


Lines = Mapping[tuple[str, str, int], Curve]


def more_lines(lines: Lines, world: int, cores: int) -> dict[tuple[str, str, int], Curve]:
    """For more members than cores: all of them copy, a few at a time, so it takes as many turns as there are members for each core; a
    gathering also has more parts for each to read. And every turn has to be waited for."""
    found = {}
    for members in counts_beyond(world, cores):
        for (link, kind, count), curve in lines.items():
            if count == max(known for (name, what, known) in lines if (name, what) == (link, kind)):
                times = (members - 1) / (count - 1) if kind == "gather" else 1.0
                found[link, kind, members] = _in_turns(curve, members / count, times, TURN[link])
    return found


def more_steps(steps: Mapping[int, Curve], world: int, cores: int) -> dict[int, Curve]:
    """The same of shared steps."""
    most = max(steps, default=0)
    return {members: _in_turns(steps[most], members / most, 1.0, TURN["memory"]) for members in counts_beyond(world, cores) if most}


def _in_turns(curve: Curve, turns: float, times: float, wait: float) -> Curve:
    return Curve(tuple((size, seconds * times * turns + wait * (turns - 1)) for size, seconds in curve.points))


def _assumed() -> tuple[dict[tuple[str, str, int], Curve], dict[int, Curve], dict[str, Curve]]:
    curves = {link: Curve(tuple((float(size), least + size / pace) for size in SIZES)) for link, (pace, least) in ASSUMED.items()}
    lines = {(link, kind, 2): curve for link, curve in curves.items() for kind in ("sum", "gather", "swap")}
    return lines, {2: curves["memory"]}, curves


def _points(told: list[list[float]]) -> dict[float, float]:
    """Disturbances only add: where a larger one took less, the smaller one was disturbed."""
    found: dict[float, float] = {}
    least = math.inf
    for size, seconds in reversed(told):
        found[size] = least = min(least, seconds)
    return found


def links_known(world: int, meter: Meter) -> bool:
    """Nothing has to be measured for teams of up to so many members."""
    return all(meter.knows(_key(count)) for count in measured_counts(world, this_machine().cores))


def _key(count: int) -> dict[str, Any]:
    return {"what": "links", "members": count, "sizes": SIZES, "code": our_code("parallel", "train/optimizers.py", *MEASURED_BY)}


def _raw(count: int, meter: Meter) -> dict[str, Any]:
    what = f"links among {count}" if count > 1 else "a process alone"
    found: dict[str, Any] = meter.one(what, _key(count), lambda: measure_links(count, meter.effort, what, meter.tell, meter.budget))
    return found


def measure_links(count: int, effort: Effort, what: str, tell: Tell, budget: Budget = ENDLESS) -> dict[str, Any]:
    """By so many processes. Whatever happens, none of them is left. OutOfTime where that takes too long: half of it is of no use."""
    with contextlib.ExitStack() as held, tempfile.TemporaryDirectory(prefix="laminar-plan-") as folder:
        segments = [Segment.create(size) for size in segment_sizes(count, SIZES[-1])]
        for segment in segments:
            held.callback(segment.close)
        store = serve_store(HOST, None)
        crew = held.enter_context(Crew(threads=1))
        for rank in range(count):
            brief = {
                "size": count,
                "segments": [[segment.fd, segment.size] for segment in segments],
                "host": HOST,
                "port": store.port,
                "socket": str(Path(folder) / "hub"),
                "seconds": effort.lines,
                "steps": effort.steps,
                "sizes": SIZES,
            }
            crew.start(MODULE, "worker", rank, brief, files=[segment.fd for segment in segments])
        began = heard = time.monotonic()
        start: float | None = None  # the first of them speaks when all have found each other
        while crew.alive:
            for said in crew.hear(TICK):
                heard = time.monotonic()
                if said.event is not None:
                    start = heard - began if start is None else start
                    tell(what, said.event["behind"], said.event["of"])
                elif said.member.done is None:
                    raise said.member.error or _lost(f"a process that measured links {said.member.how_it_ended()}")
            if crew.alive and budget.over:
                raise OutOfTime(what)
            if time.monotonic() - heard > PATIENCE:
                raise _lost(f"processes that measure links have said nothing for {PATIENCE:g} s")
        found: dict[str, Any] = next(member.done for member in crew.members if member.rank == 0)
        del store
    return found | ({"start": start} if start is not None else {})


def _lost(what: str) -> LaminarError:
    return LaminarError("L608", what, hint="look at the machine's log, then try again")

"""A process that measures links, with as many others as there are; started by links.py and by nobody else.

All do the same at the same time, with the very parts that training is made of (link_exchanges.py, link_servers.py, link_compute.py). The
first one tells what was found.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from typing import Any, Final

import torch

import laminar.train.loop  # noqa: F401 - as every worker has loaded it
from laminar.core.heap import keep_freed_memory
from laminar.parallel.crew import CALLED_OFF, read_brief, tell_error
from laminar.parallel.meeting import Broken, precise_naps
from laminar.parallel.team_member import leave
from laminar.plan.profile import link_compute, link_exchanges, link_servers
from laminar.plan.profile.in_step import InStep

MEASURING: Final = "measuring"  # what is said meanwhile
USUAL: Final = 300_000_000  # bytes of a process, where the system does not tell


def measure(told: dict[str, Any], say: Callable[[dict[str, Any]], None]) -> dict[str, Any]:
    resident, common = _resident()
    found: dict[str, Any] = {"process_bytes": resident, "library_bytes": common}
    team = InStep(told)
    parts: dict[str, Callable[[InStep], Any]] = {"apply": link_servers.apply}
    if team.size > 1:
        parts |= {
            "lines": link_exchanges.lines,
            "posts": link_exchanges.posts,
            "shared_step": link_exchanges.shared_step,
            "wire": link_servers.wire,
            "hidden": link_compute.hidden,
        }
    for number, (name, part) in enumerate(parts.items()):
        if not team.rank:
            say({"event": MEASURING, "behind": number, "of": 1 + len(parts)})
        found[name] = part(team)
    return found | link_compute.mixed(team)


def _resident() -> tuple[int, int]:
    """Bytes in memory, and those of them that are of files: libraries, which other processes have as well."""
    try:
        with open("/proc/self/statm") as file:
            _, resident, common, *_ = map(int, file.read().split())
            return resident * os.sysconf("SC_PAGE_SIZE"), common * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError):
        return USUAL, 0


def main() -> int:
    brief = read_brief()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the chief is told, and ends all
    precise_naps()
    keep_freed_memory()
    torch.set_num_threads(1)
    try:
        found = measure(brief.told, brief.say)
        brief.say({"done": found if not brief.told["rank"] else True})
        return 0
    except Broken:
        return CALLED_OFF
    except Exception as error:
        tell_error(brief, f"process {brief.told['rank']} of those that measure links", error)
        return 1


if __name__ == "__main__":
    leave(main())

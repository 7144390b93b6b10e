"""Memory that there is, and that can still be had: by the machine's account, and by that of the container (or systemd slice) that this
process is in.

Whoever takes more than a machine has is refused, or made to wait. Whoever takes more than a control group may have is killed without a
word: so the groups' limits are asked for, too. Of both versions, and of all groups above, since the narrowest decides.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

# For each version: where groups are, the limit, what is used, and of that what the system would give up for others.
_V1: Final = ("sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
_V2: Final = ("sys/fs/cgroup", "memory.max", "memory.current", "inactive_file")


def available(root: Path = Path("/")) -> int | None:
    """Bytes that are free or can be made so; None where the system does not tell."""
    found = [*_of_groups(root, _left)]
    with contextlib.suppress(OSError, StopIteration, ValueError), (root / "proc/meminfo").open() as file:
        found.append(next(int(line.split()[1]) * 1024 for line in file if line.startswith("MemAvailable")))
    return min(found, default=None)


def limit(root: Path = Path("/")) -> int | None:
    """Bytes that the control groups of this process may have at most; None: as many as there are."""
    return min(_of_groups(root, _most), default=None)


def total(root: Path = Path("/")) -> int | None:
    """Bytes that this process can have at most: those of the machine, or fewer where its control groups say so."""
    return min((size for size in (physical(), limit(root)) if size is not None), default=None)


def physical() -> int | None:
    """Bytes of the machine; None where the system does not tell."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (ValueError, OSError, AttributeError):
        return None


def _of_groups(root: Path, ask: Callable[[Path, str, str, str], int]) -> Iterator[int]:
    """What is asked of each group that this process is in and that has a limit."""
    try:
        lines = (root / "proc/self/cgroup").read_text().splitlines()
    except OSError:  # not Linux
        return
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if controllers and "memory" not in controllers.split(","):
            continue
        place, *names = _V1 if controllers else _V2
        top, group = root / place, Path(path.lstrip("/"))
        # In a container the path may be one outside, and its own group is at the top.
        for folder in dict.fromkeys([top / group, *(top / above for above in group.parents), top]):
            with contextlib.suppress(OSError, ValueError):  # no such group, or no limit: "max"
                yield ask(folder, *names)


def _most(folder: Path, limit: str, _used: str, _reclaimable: str) -> int:
    return int((folder / limit).read_text())


def _left(folder: Path, limit: str, used: str, reclaimable: str) -> int:
    most, now = int((folder / limit).read_text()), int((folder / used).read_text())
    stat = dict(line.split(" ", 1) for line in (folder / "memory.stat").read_text().splitlines())
    return max(0, most - now + int(stat.get(reclaimable, 0)))

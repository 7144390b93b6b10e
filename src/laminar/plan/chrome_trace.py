"""A Chrome trace: tasks on the clock in the Trace Event Format, for chrome://tracing and ui.perfetto.dev. No torch here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from laminar.plan.tasks import Ran

PROCESS: Final = 1
MICRO: Final = 1e6  # its times are in microseconds
NOWHERE: Final = -1  # the row of tasks that hold nothing


def chrome_trace(ran: Sequence[Ran], names: Mapping[int, str], *, title: str = "laminar plan") -> dict[str, Any]:
    """A thread for every resource. `names`: of resources; a task that holds several is shown on each of them."""
    found = {resource for one in ran for resource in one.task.resources} | set(names)
    rows = sorted(found) + ([NOWHERE] if any(not one.task.resources for one in ran) else [])
    threads = {resource: number for number, resource in enumerate(rows, 1)}
    events = [_about("process_name", 0, {"name": title})]
    for resource, thread in threads.items():
        events.append(
            _about("thread_name", thread, {"name": "waiting" if resource == NOWHERE else names.get(resource, f"resource {resource}")})
        )
        events.append(_about("thread_sort_index", thread, {"sort_index": thread}))
    for one in ran:
        events += [_event(one, threads[resource]) for resource in dict.fromkeys(one.task.resources or (NOWHERE,))]
    return {"traceEvents": events, "displayTimeUnit": "ms"}


def _about(what: str, thread: int, args: dict[str, Any]) -> dict[str, Any]:
    return {"ph": "M", "name": what, "pid": PROCESS, "tid": thread, "args": args}


def _event(one: Ran, thread: int) -> dict[str, Any]:
    return {
        "ph": "X",
        "name": one.task.name or one.task.kind,
        "cat": one.task.kind,
        "pid": PROCESS,
        "tid": thread,
        "ts": round(one.begin * MICRO, 3),
        "dur": round((one.end - one.begin) * MICRO, 3),
        "args": {"key": ".".join(map(str, one.task.key)), "waited_us": round((one.begin - one.ready) * MICRO, 3)},
    }

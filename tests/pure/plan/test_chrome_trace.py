"""Traces for chrome://tracing: what the format wants, and all of the time."""

from __future__ import annotations

import json
from typing import Any

from laminar.plan.chrome_trace import chrome_trace
from laminar.plan.tasks import Ran, Task

RAN = [
    Ran(Task((0, 0), 0.002, (0,), kind="forward", name='forward "of" <a>'), 0.0, 0.0, 0.002),
    Ran(Task((0, 1), 0.003, (1,), kind="forward"), 0.0, 0.0, 0.003),
    Ran(Task((1,), 0.001, (0, 1, 7), ((0, 0), (0, 1)), "exchange", "add up"), 0.003, 0.0035, 0.0045),
    Ran(Task((2,), 0.0, (), ((1,),), "wait"), 0.0045, 0.0045, 0.0045),
]
NAMES = {0: "worker 0", 1: "worker 1", 5: "never used"}


def events(ph: str) -> list[dict[str, Any]]:
    found = chrome_trace(RAN, NAMES)
    assert json.loads(json.dumps(found)) == found
    assert found["displayTimeUnit"] == "ms"
    return [event for event in found["traceEvents"] if event["ph"] == ph]


def test_every_event_has_what_the_format_wants() -> None:
    for event in events("X"):
        assert event.keys() >= {"name", "cat", "ph", "ts", "dur", "pid", "tid"}
        assert event["name"] and event["ts"] >= 0 and event["dur"] >= 0
    assert {event["ph"] for event in chrome_trace(RAN, NAMES)["traceEvents"]} == {"X", "M"}


def test_a_thread_for_every_resource_with_its_name_in_order() -> None:
    names = {event["tid"]: event["args"]["name"] for event in events("M") if event["name"] == "thread_name"}
    assert list(names.values()) == ["worker 0", "worker 1", "never used", "resource 7", "waiting"]
    assert len(set(names)) == 5
    order = {event["tid"]: event["args"]["sort_index"] for event in events("M") if event["name"] == "thread_sort_index"}
    assert sorted(order, key=order.__getitem__) == list(names)


def test_times_are_microseconds_and_a_task_is_on_all_that_it_holds() -> None:
    added = [event for event in events("X") if event["name"] == "add up"]
    assert len({event["tid"] for event in added}) == 3
    assert {(event["ts"], event["dur"], event["cat"]) for event in added} == {(3500.0, 1000.0, "exchange")}
    assert added[0]["args"] == {"key": "1", "waited_us": 500.0}


def test_a_task_without_a_name_is_called_by_its_kind() -> None:
    assert [event["name"] for event in events("X") if event["args"]["key"] == "0.1"] == ["forward"]


def test_nothing_at_all() -> None:
    assert [event["name"] for event in chrome_trace([], {})["traceEvents"]] == ["process_name"]

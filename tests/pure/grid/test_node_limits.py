"""The owner comes first: when a node rests, and what may be allowed."""

from __future__ import annotations

from datetime import datetime

import pytest

from laminar.core.errors import LaminarError
from laminar.data.spec import DataSpec
from laminar.grid.node.limits import Limits, Machine, read, rests
from laminar.grid.node.sources import check_source


def at(clock: str, **more: object) -> Machine:
    return Machine(now=datetime.fromisoformat(f"2026-11-16T{clock}:00"), **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("clock", "works"),
    [("18:00", True), ("23:59", True), ("00:00", True), ("07:59", True), ("08:00", False), ("12:00", False), ("17:59", False)],
)
def test_hours_may_go_over_midnight(clock: str, works: bool) -> None:
    assert (rests(read(hours="18-8"), at(clock)) == "") == works


@pytest.mark.parametrize(("clock", "works"), [("08:29", False), ("08:30", True), ("17:00", False)])
def test_hours_may_have_minutes(clock: str, works: bool) -> None:
    assert (rests(read(hours="8:30-17"), at(clock)) == "") == works


@pytest.mark.parametrize(
    ("limits", "machine", "said"),
    [
        (Limits(), {"paused": True}, "paused by its owner"),
        (Limits(), {"on_battery": True}, "battery"),
        (Limits(battery=True), {"on_battery": True}, ""),
        (Limits(only_idle=True), {"untouched": 10.0}, "somebody is at the machine"),
        (Limits(only_idle=True), {"untouched": 1000.0, "others": 0.9}, "other programs use more than 25%"),
        (Limits(only_idle=True), {"untouched": 1000.0, "others": None}, ""),
        (Limits(only_idle=True), {"untouched": None, "others": 0.0}, "cannot be found out"),
        (Limits(), {"untouched": 0.0, "others": 1.0}, ""),
        (Limits(memory=4 << 30), {"free": 500 << 20}, "less free memory than 512 MB"),
        (Limits(memory=4 << 30), {"free": 513 << 20}, ""),
        (Limits(), {"free": 255 << 20}, "less free memory than 256 MB"),
        (Limits(), {"room": 255 << 20}, "its disk has less room than 256 MB"),
        (Limits(), {"room": 256 << 20}, ""),
    ],
)
def test_a_node_rests_and_says_why(limits: Limits, machine: dict[str, object], said: str) -> None:
    found = rests(limits, at("12:00", **machine))
    assert said in found and bool(said) == bool(found)


@pytest.mark.parametrize("machine", [{"untouched": 3.0}, {"untouched": 999.0, "others": 0.3}, {"untouched": 999.0, "free": 1 << 20}])
def test_a_reason_stays_the_same_while_figures_change(machine: dict[str, float]) -> None:
    """Or the owner would be told twice a second."""
    said = [rests(Limits(only_idle=True), at("12:00", **{**machine, key: value * 1.1})) for key, value in machine.items() for _ in "ab"]
    assert said[0] and set(said) == {rests(Limits(only_idle=True), at("12:00", **machine))}


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"cpu": "0%"}, "--cpu 0%"),
        ({"cpu": "101%"}, "--cpu 101%"),
        ({"cpu": "half"}, "--cpu half"),
        ({"memory": "4 apples"}, "--memory 4 apples"),
        ({"memory": "1M"}, "512 MiB or more"),
        ({"hours": "25-8"}, "--hours 25-8"),
        ({"hours": "8-8"}, "--hours 8-8"),
        ({"hours": "evening"}, "--hours evening"),
        ({"hours": "8:75-9"}, "--hours 8:75-9"),
    ],
)
def test_what_cannot_be_allowed_is_said(given: dict[str, str], said: str) -> None:
    with pytest.raises(LaminarError) as caught:
        read(**given)  # type: ignore[arg-type]
    assert caught.value.code == "L008" and said in caught.value.message and caught.value.hint


def test_sizes_may_be_written_as_people_write_them() -> None:
    assert read(memory="4G").memory == 4 * 10**9
    assert read(cpu="50%").cpu == 0.5


@pytest.mark.parametrize(
    "source",
    [
        "digits",
        "mnist",
        "fashion-mnist",
        "index:https://example.org/index.json",
        "index:ftp://example.org/index.json",
        "index:ftp://example.org/index.json,https://example.org/index.json#sha256=" + "0" * 64,
        ["mnist", "index:https://example.org/index.json"],
    ],
)
def test_public_data_may_be_asked_for(source: str | list[str]) -> None:
    check_source(DataSpec(source=source))


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        (DataSpec(source="python:models:rows"), "runs code"),
        (DataSpec(source="folder:/home/me/photos"), "a file of this machine"),
        (DataSpec(source="csv:/etc/passwd"), "a file of this machine"),
        (DataSpec(source="index:/home/me/index.json"), "a place on this machine"),
        (DataSpec(source="index:" + "file" + ":///etc/index.json"), "a place on this machine"),
        (DataSpec(source="index:https://example.org/index.json", mirrors=["/srv/photos"]), "'/srv/photos' is a place"),
        (DataSpec(source="index:https://a.example/index.json,file" + ":///etc/index.json#sha256=" + "0" * 64), "a place on this machine"),
        (DataSpec(source=["digits", "folder:/home/me/photos"]), "'folder:/home/me/photos' is a file of this machine"),
        (DataSpec(source="digits", args={"x": 1}), "args"),
    ],
)
def test_code_and_files_of_the_owner_may_not(spec: DataSpec, said: str) -> None:
    with pytest.raises(LaminarError) as caught:
        check_source(spec)
    assert caught.value.code == "L504" and said in caught.value.message and caught.value.hint

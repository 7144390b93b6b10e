"""Links are measured by real processes, of which none is left, whatever happens."""

from __future__ import annotations

import itertools
import os
import signal
import threading
from pathlib import Path

import pytest

from laminar.core.errors import LaminarError
from laminar.plan.facts import Curve, MachineFacts
from laminar.plan.profile import links
from laminar.plan.profile.busy import Quiet, Reading
from laminar.plan.profile.kept import Kept
from laminar.plan.profile.links import MODULE, SIZES, counts_beyond, machine_facts, measure_links, measured_counts, more_lines
from laminar.plan.profile.meter import Meter
from laminar.plan.profile.this_machine import Machine
from laminar.plan.profile.timing import SHORT


def meter(path: Path, heard: list[tuple[str, int, int]] | None = None) -> Meter:
    clock = itertools.count()
    quiet = Quiet(read=lambda: Reading(float(next(clock)), 0.0, 0.0), sleep=lambda _: None)
    return Meter(Kept(path), quiet=quiet, effort=SHORT, tell=lambda *said: heard.append(said) if heard is not None else None)


def rises(curve: Curve) -> bool:
    seconds = [taken for _, taken in curve.points]
    return [size for size, _ in curve.points] == list(SIZES) and seconds == sorted(seconds) and seconds[0] >= 0 and seconds[-1] > 0


@pytest.fixture
def two_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(links, "this_machine", lambda: Machine("a processor", 2, 8 << 30))


@pytest.mark.usefixtures("two_cores")
@pytest.mark.slow
def test_two_processes_and_more_than_there_are_cores(tmp_path: Path) -> None:
    heard: list[tuple[str, int, int]] = []
    one = meter(tmp_path / "kept.sqlite", heard)
    found = machine_facts(2, one)
    assert set(found.lines) == {(link, kind, 2) for link in ("memory", "gloo") for kind in ("sum", "gather", "swap")}
    assert set(found.posts) == {"memory", "gloo"}
    for curve in [*found.lines.values(), *found.posts.values(), *found.shared_step.values(), found.wire, found.apply]:
        assert rises(curve)
    assert set(found.crowd) == {1, 2} and found.crowd[2] >= 1.0
    assert 0.0 <= found.hidden <= 1.0 and found.spread > 0
    assert 50_000_000 < found.process_bytes < 2_000_000_000
    assert 0.0 < found.start < 120.0
    assert (found.cores, found.memory) == (2, 8 << 30)
    assert one.measured == 1 and ("links among 2", 0, 7) in heard

    more = machine_facts(8, one)
    assert one.measured == 1  # never with more processes than cores
    assert {count for _, _, count in more.lines} == {2, 4, 8} == set(more.shared_step)
    assert more.lines["memory", "sum", 2] == found.lines["memory", "sum", 2]
    assert more.lines["memory", "sum", 4](1 << 20) > 2 * found.lines["memory", "sum", 2](1 << 20)
    assert more.lines["gloo", "gather", 4](1 << 23) > 6 * found.lines["gloo", "gather", 2](1 << 23)

    again = meter(tmp_path / "kept.sqlite")
    assert machine_facts(2, again) == found
    assert again.measured == 0


def test_one_process_alone(tmp_path: Path) -> None:
    one = meter(tmp_path / "kept.sqlite")
    found: MachineFacts = machine_facts(1, one)
    assert found.lines == {} and found.crowd == {1: 1.0}
    assert rises(found.apply) and found.spread > 0


def test_one_core_is_not_measured_with_two_processes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(links, "this_machine", lambda: Machine("a processor", 1, 8 << 30))
    asked: list[int] = []
    alone = {"process_bytes": 1, "apply": [[1024, 1e-5], [1 << 20, 1e-4]], "spread": 0.1, "crowd": {}}
    monkeypatch.setattr(links, "measure_links", lambda count, *_: asked.append(count) or alone)
    found = machine_facts(4, meter(tmp_path / "kept.sqlite"))
    assert asked == [1]
    assert {count for _, _, count in found.lines} == {2, 4} and set(found.posts) == {"memory", "gloo"}


def test_which_numbers_of_members_are_measured() -> None:
    assert measured_counts(1, 8) == [1]
    assert measured_counts(2, 8) == [2]
    assert measured_counts(6, 8) == [2, 4, 6]
    assert measured_counts(100, 8) == [2, 4, 8]
    assert counts_beyond(6, 8) == []
    assert counts_beyond(8, 2) == [4, 8]
    assert counts_beyond(6, 2) == [4, 6]
    assert counts_beyond(3, 1) == [2, 3]


def test_more_members_are_reckoned_from_the_most_that_were_measured() -> None:
    lines = {("memory", "gather", count): Curve(((0.0, 1e-3 * count), (1e6, 1e-2 * count))) for count in (2, 4)}
    found = more_lines(lines, 8, 4)
    assert set(found) == {("memory", "gather", 8)}
    # twice as many turns, 7 parts instead of 3, and a wait
    assert found["memory", "gather", 8](1e6) == pytest.approx(4e-2 * 2 * 7 / 3 + links.TURN["memory"])


def test_a_process_that_is_killed_is_told_and_the_other_one_ends() -> None:
    def kill(*_: object) -> None:
        os.kill(_members()[0], signal.SIGKILL)

    with pytest.raises(LaminarError) as caught:
        measure_links(2, SHORT, "links", kill)
    assert caught.value.code == "L608" and "SIGKILL" in caught.value.message


def test_ctrl_c_ends_all() -> None:
    """conftest.py looks for processes that are left."""
    with pytest.raises(KeyboardInterrupt):
        measure_links(2, SHORT, "links", lambda *_: signal.raise_signal(signal.SIGINT))
    assert threading.active_count() < 50


def _members() -> list[int]:
    """Processes of this one that measure links; it may have others."""
    children = [pid for task in Path("/proc/self/task").iterdir() for pid in (task / "children").read_text().split()]
    return [int(pid) for pid in children if MODULE.encode() in Path(f"/proc/{pid}/cmdline").read_bytes()]

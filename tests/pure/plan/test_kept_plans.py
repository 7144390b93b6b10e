"""Answers of the planner that are kept in the store: what is read again is what was told, with its timeline and its memory."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec
import pytest

from laminar.core.errors import LaminarError
from laminar.plan.kept_plans import MOST, KeptAnswer, answer, keep, kept, place, thinned
from laminar.plan.plan import Plan
from laminar.store import records
from laminar.store.repair import repair
from laminar.store.store import Store
from laminar.store.verify import verify
from laminar.train.splitting import Mesh, Pipeline
from laminar.train.strategies import Downpour, Solo, Sync
from tests.pure.plan.test_price import priced

PLANS = [priced(Sync(workers=2)), priced(Solo()), priced(Pipeline(stages=2, microbatches=4)), priced(Downpour(workers=2))]


def told(plans: list[Plan] = PLANS, chosen: int = 0, measured: dict[int, float] | None = None) -> KeptAnswer:
    return answer(
        "digits", "base", "plan", plans, machine="desk", conclusion="so it is", to_target="guess", chosen=chosen, measured=measured
    )


def test_what_is_read_again_is_what_was_told(tmp_path: Path) -> None:
    store = Store.open(tmp_path / "s")
    assert kept(store, "digits", "base") is None
    assert keep(store, told(measured={1: 0.5})) == ""
    found = kept(store, "digits", "base")
    assert found is not None and found.plans[found.chosen].name == PLANS[0].name
    assert [plan.measured_seconds for plan in found.plans] == [None, 0.5, None, None]
    assert found.plans[0].step_seconds == PLANS[0].step_seconds and found.plans[0].strategy == {"kind": "sync", "workers": 2}
    assert found == msgspec.structs.replace(told(measured={1: 0.5}), when=found.when)


def test_the_timeline_has_every_worker_and_all_of_its_time() -> None:
    plan = PLANS[2]
    kept_one = told().plans[2]
    assert {row.name for row in kept_one.timeline} == set(plan.resources.values())
    busy = {row.name: sum(bar.end - bar.begin for bar in row.bars) for row in kept_one.timeline}
    for resource, name in plan.resources.items():
        assert busy[name] == pytest.approx(sum(one.end - one.begin for one in plan.ran if resource in one.task.resources))
    assert not told().plans[3].timeline, "workers of downpour make no steps at once"


def test_memory_begins_with_what_is_always_there_and_reaches_what_was_predicted() -> None:
    for number in (0, 2):
        curves = told().plans[number].memory
        assert [one.worker for one in curves] == [0, 1]
        assert all(one.points[0][1] == PLANS[number].standing[one.worker] for one in curves)
        assert max(size for one in curves for _, size in one.points) == PLANS[number].memory_bytes


def test_a_plan_of_many_small_tasks_stays_small(tmp_path: Path) -> None:
    points = [(i / 1000, 10_000 + i % 7) for i in range(1000)]
    few = thinned(points, 1.0, most=40)
    assert len(few) <= 41 and max(size for _, size in few) == 10_006 and few[-1] == points[-1]
    mesh = priced(Mesh(mesh={"cols": 2}, split={"hidden": "cols"}))
    assert keep(Store.open(tmp_path / "s"), told([mesh] * (MOST + 10), chosen=MOST + 5)) == ""
    found = kept(Store.open(tmp_path / "s"), "digits", "base")
    assert found is not None and len(found.plans) == MOST + 1 and found.chosen == MOST


def test_names_are_never_paths(tmp_path: Path) -> None:
    store = Store.open(tmp_path / "s")
    assert place(store, "../..", "/etc/passwd").is_relative_to(store.layout.plans)


def test_damage_is_said_with_the_command_that_makes_it_anew_and_repaired(tmp_path: Path) -> None:
    store = Store.open(tmp_path / "s")
    keep(store, told())
    path = place(store, "digits", "base")
    data = bytearray(path.read_bytes())
    data[40] ^= 1
    path.write_bytes(bytes(data))
    with pytest.raises(LaminarError, match="corrupt"):
        kept(store, "digits", "base")
    assert [one.kind for one in verify(store)] == ["plan"]
    repair(store, list(verify(store)))
    assert not path.exists()
    records.write(path, {"format": 99})
    with pytest.raises(LaminarError) as caught:
        kept(store, "digits", "base")
    assert caught.value.hint == "laminar plan base"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everything")
def test_a_store_that_may_not_be_written_is_told_and_nothing_fails(tmp_path: Path) -> None:
    store = Store.open(tmp_path / "s")
    store.layout.plans.chmod(0o500)
    assert "not kept" in keep(store, told())

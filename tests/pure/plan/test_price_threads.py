"""How many threads each worker is priced with: those that the executor would give it (parallel/team_chief.py, apart/chief.py)."""

from __future__ import annotations

import pytest

from laminar.parallel.threads import threads_each
from laminar.plan.candidates import Space
from laminar.plan.facts import MachineFacts
from laminar.plan.machine import Machine
from laminar.plan.places import Places
from laminar.plan.plan import Plan
from laminar.plan.price import Pricer
from laminar.plan.search import Inside, Search
from laminar.plan.steps_needed import StepsModel
from laminar.train.recipe import Recipe
from laminar.train.splitting import Branches, Mesh, Pipeline
from laminar.train.strategies import AnyStrategy, Averaging, Downpour, Quorum, Solo, Sync
from tests.pure.plan.made_up import MS, MadeUp, facts, machine

STEPS = StepsModel(1000.0, True, "made up")
MESH = Mesh(mesh={"cols": 2}, split={"hidden": "cols"})
SPLITS: list[AnyStrategy] = [MESH, Pipeline(stages=2, microbatches=4), Branches(lanes=2)]
APART: list[AnyStrategy] = [Averaging(workers=2), Downpour(workers=2), Quorum(workers=2)]


def measured_with(cores: int) -> MachineFacts:
    """Calm: what differs between plans is computing alone."""
    return facts(cores=cores, spread=0.0, crowd={1: 1.0})


def priced(how: AnyStrategy, known: MadeUp, on: Machine, threads: int | None = None) -> Plan:
    found = Pricer(known, on, STEPS, base_batch=64, threads=threads).price(how, 64)
    assert isinstance(found, Plan), found
    return found


def computing(plan: Plan) -> float:
    return sum(plan.spent.get(kind, 0.0) for kind in ("forward", "backward", "inputs", "weights"))


@pytest.mark.parametrize(("cores", "threads"), [(2, 1), (4, 2), (8, 4)])
@pytest.mark.parametrize("how", SPLITS, ids=lambda how: how.kind)
def test_workers_that_split_the_model_have_the_threads_of_the_executor(how: AnyStrategy, cores: int, threads: int) -> None:
    known = MadeUp(machine_facts=measured_with(cores))
    found = priced(how, known, machine(cores))
    assert set(known.threads) == {threads} and found.threads == threads == found.to_json()["threads"]
    one = priced(how, MadeUp(machine_facts=measured_with(cores)), machine(cores), threads=1)
    assert computing(found) == computing(one) if threads == 1 else computing(found) < 0.75 * computing(one)


@pytest.mark.parametrize(("cores", "threads"), [(4, (4, 2)), (8, (8, 4))])
def test_one_process_with_all_threads_against_two_with_half_of_them(cores: int, threads: tuple[int, int]) -> None:
    """On a machine of many cores one process is no longer compared with two that use two of its cores."""
    known = MadeUp(machine_facts=measured_with(cores))
    alone, mesh = priced(Solo(), known, machine(cores)), priced(MESH, known, machine(cores))
    assert (alone.threads, mesh.threads) == threads
    # half of the work by half of the threads, which are more than half as fast: 2^0.7 / 2 = 0.81 of the time
    assert computing(mesh) / (computing(alone) - known.job().loop) == pytest.approx(2**0.7 / 2)


def test_a_node_with_more_cores_than_there_are_here_is_priced_alike_for_all() -> None:
    """No worker has more threads than could be measured, whatever the strategy."""
    known = MadeUp(machine_facts=measured_with(2))
    lab = machine(cores=8)
    every: list[AnyStrategy] = [Solo(), Sync(workers=2), Sync(workers=4), *SPLITS, *APART]
    assert {priced(how, known, lab).threads for how in every} == {2}
    assert priced(Sync(workers=8), known, lab).threads == 1


def test_workers_of_a_larger_node_do_not_wait_for_the_cores_of_this_machine() -> None:
    """Eight of them on eight cores compute at once, though only two cores were measured."""
    known = MadeUp(machine_facts=measured_with(2))
    two, eight = (computing(priced(Sync(workers=count), known, machine(cores=8), threads=1)) for count in (2, 8))
    assert two == pytest.approx(4 * eight)
    near = Places(machine(cores=8), facts(cores=2, crowd={1: 1.0, 2: 1.2}), 8)
    assert near.slow(0) == 1.2  # as far as it is known


@pytest.mark.parametrize("how", [Sync(workers=2), MESH, *APART], ids=lambda how: how.kind)
def test_threads_of_a_recipe_that_are_more_than_cores_take_turns(how: AnyStrategy) -> None:
    """Two workers with two threads each, on two cores: each is as fast as one process, while the other waits."""
    known = MadeUp(machine_facts=measured_with(4), row=0.1 * MS)
    one, two = (priced(how, known, machine(cores), threads=2) for cores in (4, 2))
    assert (one.threads, two.threads) == (2, 2)
    assert two.step_seconds > 1.7 * one.step_seconds


def test_tables_for_single_modules_are_searched_with_these_threads() -> None:
    known = MadeUp(machine_facts=measured_with(8), modules=("a", "b"))
    pricer = Pricer(known, machine(8), STEPS, base_batch=64)
    recipe = Recipe(epochs=2, batch=64, optimizer="adam")
    inside = Inside(("batch", "hidden"), 1, {"a": ("hidden",), "b": ("hidden",)})
    found = Search(pricer, Space(workers=2, recipe=recipe, samples=6400), look=lambda: inside).run()
    assert found.walked and set(known.threads) == {4}


@pytest.mark.parametrize(("cores", "workers", "said"), [(8, 2, None), (8, 3, None), (2, 4, None), (4, 2, 3)])
def test_the_planner_counts_threads_as_whoever_starts_workers(
    monkeypatch: pytest.MonkeyPatch, cores: int, workers: int, said: int | None
) -> None:
    """Of the cores that this process may use, which in a container can be fewer than the machine has."""
    monkeypatch.setattr("os.sched_getaffinity", lambda _: set(range(cores)), raising=False)
    monkeypatch.setattr("os.cpu_count", lambda: 64)
    pricer = Pricer(MadeUp(machine_facts=measured_with(cores)), machine(cores), STEPS, base_batch=64, threads=said)
    assert pricer.threads(workers) == threads_each(said, workers) == (said or max(1, cores // workers))

"""Delta simulation: after any change and any undo, the same as a full simulation, to the last bit; and it notices when it is not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from laminar.core.errors import LaminarError
from laminar.plan.delta import Maker, Simulation
from laminar.plan.simulate import Timeline, simulate
from laminar.plan.tasks import Task
from laminar.testing.soap import Soap, Split, inception


def full(maker: Maker, configs: Sequence[Any]) -> Timeline:
    return simulate([task for operator in range(maker.operators) for task in maker.tasks_of(operator, configs)])


def same(simulation: Simulation, maker: Maker, configs: Sequence[Any]) -> bool:
    want = full(maker, configs)
    return simulation.timeline() == want and simulation.seconds == want.seconds


class Part(NamedTuple):
    """One task of an operator."""

    seconds: float
    resources: tuple[int, ...]
    number: int  # of its key, so that keys come and go
    needs: int  # every so many-th part of the operators before it; 0: none of them
    chained: bool  # comes after the part before it


@dataclass(frozen=True)
class Toy:
    """Operators whose configs are their parts, so that any graph can become any other."""

    needs: Sequence[Sequence[int]]

    @property
    def operators(self) -> int:
        return len(self.needs)

    def touched(self, operator: int) -> Sequence[int]:
        return [operator, *(other for other, some in enumerate(self.needs) if operator in some)]

    def tasks_of(self, operator: int, configs: Sequence[Sequence[Part]]) -> Sequence[Task]:
        found: list[Task] = []
        for place, part in enumerate(configs[operator]):
            before = [(other, one.number) for other in self.needs[operator] for one in configs[other]]
            after = before[place % part.needs :: part.needs] if part.needs else []
            if part.chained and found:
                after.append(found[-1].key)  # type: ignore[arg-type]
            found.append(Task((operator, part.number), part.seconds, part.resources, tuple(after), name=f"part {place}"))
        return found


@dataclass(frozen=True)
class Written:
    """Configs are tasks."""

    operators: int
    forgets: bool = False  # that others are touched

    def touched(self, operator: int) -> Sequence[int]:
        return [operator] if self.forgets else range(self.operators)

    def tasks_of(self, operator: int, configs: Sequence[Sequence[Task]]) -> Sequence[Task]:
        return configs[operator]


PARTS = st.lists(
    st.builds(
        Part,
        st.sampled_from([0.0, 0.1, 0.2, 0.30000000000000004, 1.0, 1e-18]),  # few, so that ties are common; some vanish beside others
        st.lists(st.integers(0, 3), unique=True, max_size=3).map(tuple) | st.integers(0, 3).map(lambda one: (one,)),
        st.integers(-1, 4),
        st.integers(0, 3),
        st.booleans(),
    ),
    max_size=4,
    unique_by=lambda part: part.number,
)


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_any_changes_of_any_graph_with_any_undo(data: st.DataObject) -> None:
    count = data.draw(st.integers(1, 6), "operators")
    toy = Toy([data.draw(st.lists(st.integers(0, i - 1), unique=True, max_size=3)) if i else [] for i in range(count)])
    configs = [data.draw(PARTS) for _ in range(count)]
    simulation = Simulation(toy, configs, check_every=0)
    assert same(simulation, toy, configs)
    for _ in range(data.draw(st.integers(1, 6), "changes")):
        changes = data.draw(st.dictionaries(st.integers(0, count - 1), PARTS, max_size=2))
        changed = [changes.get(i, config) for i, config in enumerate(configs)]
        assert simulation.change(changes) == simulation.seconds
        assert list(simulation.configs) == changed
        assert same(simulation, toy, changed)
        if data.draw(st.booleans(), "undo"):
            simulation.undo()
            assert same(simulation, toy, configs)
        else:
            configs = changed


def walk(soap: Soap, seed: int, edits: int, *, compare_every: int = 1) -> None:
    """Random splits, one or two at a time, with random undo."""
    rng = Random(seed)
    configs = soap.over_rows()
    simulation = Simulation(soap, configs)
    for edit in range(edits):
        some = rng.sample(range(len(configs)), rng.choice([1, 1, 1, min(2, len(configs))]))
        changes = {operator: soap.any_split(operator, rng) for operator in some}
        changed = [changes.get(i, config) for i, config in enumerate(configs)]
        simulation.change(changes)
        if edit % compare_every == 0:
            assert same(simulation, soap, changed), f"edit {edit}: {changes}"
        if rng.random() < 0.5:
            simulation.undo()
            if edit % compare_every == 0:
                assert same(simulation, soap, configs), f"undo of edit {edit}: {changes}"
        else:
            configs = changed
    assert same(simulation, soap, configs)


@pytest.mark.parametrize(("operators", "devices"), [(1, 2), (20, 4), (40, 8)])
def test_random_splits_of_a_network(operators: int, devices: int) -> None:
    walk(Soap(inception(operators), devices), seed=operators, edits=60)


@pytest.mark.slow
def test_ten_thousand_random_splits_of_a_network() -> None:
    """Each of them, and each undo, against a full simulation."""
    walk(Soap(inception(40), 4), seed=7, edits=10_000)


def test_the_same_again_changes_nothing_and_can_be_undone() -> None:
    soap = Soap(inception(12), 4)
    simulation = Simulation(soap, soap.over_rows())
    before = simulation.timeline()
    assert simulation.change({3: soap.over_rows()[3]}) == before.seconds
    assert simulation.change({}) == before.seconds
    assert simulation.undo() == before.seconds
    assert simulation.timeline() == before


def test_what_is_kept_may_be_the_last_to_end() -> None:
    long, first, second = Task((0,), 100.0, ()), Task((1,), 1.0, (0,)), Task((2,), 1.0, (0,), ((1,),))
    simulation = Simulation(Written(3, forgets=True), [[long], [first], [second]], check_every=1)
    assert simulation.change({2: [second._replace(seconds=3.0)]}) == 100.0
    assert simulation.change({2: [second._replace(seconds=300.0)]}) == 301.0


def test_what_differs_in_no_time_is_told_all_the_same() -> None:
    task = Task((0,), 1.0, (0,), name="a")
    simulation = Simulation(Written(1), [[task]])
    assert simulation.change({0: [task._replace(takes=((0, 4),))]}) == 1.0
    assert simulation.timeline()[0,].task.takes == ((0, 4),)
    simulation.undo()
    assert simulation.timeline()[0,].task == task


def test_only_the_last_change_can_be_undone_and_once() -> None:
    soap = Soap(inception(8), 2)
    simulation = Simulation(soap, soap.over_rows())
    with pytest.raises(ValueError, match="no change to undo"):
        simulation.undo()
    first = simulation.seconds
    simulation.change({0: Split(1, 1, 1, (1,))})
    assert simulation.undo() == first
    with pytest.raises(ValueError, match="no change to undo"):
        simulation.undo()
    simulation.change({0: Split(1, 1, 1, (1,))})
    simulation.keep()
    with pytest.raises(ValueError, match="no change to undo"):
        simulation.undo()


def test_slots_of_tasks_that_are_gone_are_used_again() -> None:
    soap, rng = Soap(inception(8), 8), Random(0)
    simulation = Simulation(soap, soap.over_rows())
    for _ in range(300):
        operator = rng.randrange(8)
        simulation.change({operator: soap.any_split(operator, rng)})
        if rng.random() < 0.5:
            simulation.undo()
    links = simulation._links
    simulation.keep()
    assert len(links.nodes) == len(links.slots) + len(links.spare) < 2500
    assert len(set(links.spare)) == len(links.spare) and not set(links.spare) & set(links.slots.values())


BEFORE = [
    [Task((0, 0), 1.0, (0,)), Task((0, 1), 2.0, (1,))],
    [Task((1, 0), 1.0, (0,), ((0, 0), (0, 1))), Task((1, 3), 2.0, (0, 1), ((0, 1),))],
    [Task((2, 0), 1.0, (0,), ((1, 0),))],
]


@pytest.mark.parametrize(
    ("one", "said"),
    [
        ([Task((1, 0), 1.0, (0,), ((1, 0),))], r"2 tasks wait for each other.*\(1, 0\), \(2, 0\)"),
        ([Task((1, 0), 1.0, (0,), ((2, 0), (0, 0))), Task((1, 1), 1.0, ())], r"2 tasks wait for each other.*\(1, 0\), \(2, 0\)"),
        ([Task((1, 0), 1.0, (0,), ((0, 0),)), Task((1, 1), 1.0, (), ((5, 5),))], r"\(1, 1\) comes after \(5, 5\), which is not there"),
        ([Task((1, 0), 1.0, (0,)), Task((1, 0), 1.0, (1,))], "operator 1, two with the same key"),
        ([Task((1, 0), 1.0, (0,)), Task((0, 7), 1.0, (0,))], "operator 1, two with the same key or one of another"),
        ([Task((1, 0), -1.0, (0,))], "takes -1.0 seconds"),
        ([Task((1, 0), float("inf"), (0,))], "takes inf seconds"),
        ([Task((1, 1), 1.0, (0,))], r"\[\(2, 0\)\] come after \(1, 0\), which is not there any more"),
    ],
)
def test_what_cannot_be_run_is_refused_and_all_is_as_before(one: list[Task], said: str) -> None:
    maker, configs = Written(3), [*BEFORE]
    simulation = Simulation(maker, configs, check_every=1)
    configs[0] = [Task((0, 0), 3.0, (0,)), Task((0, 1), 2.0, (1,), ((0, 0),))]
    simulation.change({0: configs[0]})
    for _ in range(2):
        with pytest.raises(ValueError, match=said):
            simulation.change({0: [*BEFORE[0], Task((0, 9), 1.0, (2,))], 1: one})
        assert same(simulation, maker, configs)
        assert list(simulation.configs) == configs
    simulation.change({1: [Task((1, 0), 7.0, ())]})
    assert same(simulation, maker, [configs[0], [Task((1, 0), 7.0, ())], configs[2]])
    simulation.undo()
    assert same(simulation, maker, configs)


def test_a_plan_that_cannot_be_run_is_refused_at_once() -> None:
    with pytest.raises(ValueError, match=r"1 tasks wait for each other.*\(0, 0\)"):
        Simulation(Written(1), [[Task((0, 0), 1.0, (), ((0, 0),))]])


def test_a_task_that_lost_what_it_comes_after_is_an_error() -> None:
    """The maker did not say that the third operator is touched."""
    simulation = Simulation(Written(3, forgets=True), BEFORE)
    with pytest.raises(ValueError, match=r"\[\(2, 0\)\] come after \(1, 0\), which is not there any more"):
        simulation.change({1: BEFORE[1][1:]})
    assert same(simulation, Written(3), BEFORE)


def test_a_failure_of_the_maker_leaves_all_as_before() -> None:
    simulation = Simulation(Written(3), BEFORE)
    with pytest.raises(AttributeError):
        simulation.change({0: [Task((0, 0), 5.0, (0,))], 2: ["no task"]})
    assert same(simulation, Written(3), BEFORE)


def test_sampling_finds_what_a_maker_did_not_tell() -> None:
    """The gradient of an operator's producer is another one, too, when the operator is split: leave that out."""

    class Forgetful(Soap):
        def touched(self, operator: int) -> Sequence[int]:
            return [other for other in super().touched(operator) if other in (operator, self.twin(operator)) or other < len(self.graph)]

    soap = Forgetful(inception(12), 4)
    simulation = Simulation(soap, soap.over_rows(), check_every=3)
    only = Split(4, 1, 1, (1, 0, 2, 3))
    simulation.change({5: only})
    simulation.undo()
    simulation.change({5: only})
    with pytest.raises(LaminarError, match=r"after 3 changes, .* instead of .*the first that differs: Ran") as caught:
        simulation.change({4: only})
    assert caught.value.code == "L900"


@pytest.mark.parametrize("every", [1, 4])
def test_sampling_finds_a_simulation_that_went_wrong(every: int) -> None:
    soap, rng = Soap(inception(12), 4), Random(0)
    simulation = Simulation(soap, soap.over_rows(), check_every=every)
    early = simulation._order[0][1]
    simulation._end[early] *= 1.5  # as a bug might
    for _ in range(every - 1):
        simulation.change({11: soap.any_split(11, rng)})
    with pytest.raises(LaminarError, match="a bug in Laminar") as caught:
        simulation.change({11: soap.any_split(11, rng)})
    assert caught.value.code == "L900"


def test_one_that_is_not_sampled_can_be_checked_by_hand() -> None:
    soap = Soap(inception(12), 4)
    simulation = Simulation(soap, soap.over_rows(), check_every=0)
    simulation.check()
    simulation.seconds += 1e-9
    simulation.change({})
    with pytest.raises(LaminarError, match="seconds instead of"):
        simulation.check()

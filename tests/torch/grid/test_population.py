"""The population on virtual time: one seed is one trace, and liars are caught without an honest node being blamed."""

from __future__ import annotations

import pytest

from laminar.grid.daemons.learner import TorchLearner
from laminar.grid.population.simulate import Plan, Report, Simulation
from laminar.grid.utilization import PARTS
from laminar.train.on_grid import Grid

GRID = Grid(workers=10, rounds=10_000, local_steps=2, deadline=3600.0, lease=3600.0)


def simulated(seed: int, **more: object) -> Report:
    plan = Plan(nodes=40, hours=5.0, seed=seed, task_minutes=5.0, grid=GRID, **more)  # type: ignore[arg-type]
    return Simulation(plan, TorchLearner()).run()


def test_one_seed_is_one_trace() -> None:
    first, again, other = simulated(1), simulated(1), simulated(2)
    assert first.trace == again.trace and first.curve == again.curve and first.counts == again.counts
    assert other.trace != first.trace


@pytest.mark.parametrize("churn", ["desktop", "lab", "wild"])
def test_every_kind_of_churn_gets_somewhere(churn: str) -> None:
    report = simulated(3, churn=churn, adversaries=0.2)
    assert report.versions >= 2 and report.accuracy > 0.6
    assert report.caught["honest"][0] == 0 and sum(banned for banned, _ in report.caught.values()) >= 1
    assert report.how["honest"] == {} and sum(sum(how.values()) for how in report.how.values()) == sum(report.refused.values())


def test_replays_and_the_nodes_of_one_person_are_among_the_liars() -> None:
    report = simulated(4, churn="lab", adversaries=0.3)
    assert {"replaying", "sybil", "sleeper"} <= set(report.caught)
    assert set(report.how["replaying"]) <= {"other result"} and set(report.how["sybil"]) == {"disagrees"}
    assert report.caught["honest"] == (0, 28)


def test_who_waits_for_nobody_computes_most() -> None:
    """Five nodes, one of which is four times as slow: the set-up of `experiment grid`, and the founding paper's case for closing rounds at
    80 % and for asynchronous training."""

    def useful(**how: object) -> float:
        grid = Grid(workers=5, rounds=10_000, local_steps=5, deadline=7200.0, lease=7200.0, replicate="never", **how)  # type: ignore[arg-type]
        plan = Plan(nodes=5, hours=6.0, churn="steady", speeds=(4.0, 4.0, 4.0, 4.0, 1.0), adversaries=0.0, retry=20.0, seed=5, grid=grid)
        report = Simulation(plan, TorchLearner()).run()
        assert sum(report.utilization[part] for part in PARTS) == pytest.approx(1.0)
        return report.utilization["computing"]

    everyone, most, nobody = useful(quorum=1.0), useful(quorum=0.8), useful(mode="async")
    assert everyone < 0.5 and everyone + 0.2 < most < nobody - 0.05 and nobody > 0.95
    assert everyone < useful(quorum=0.8, late="drop") < most

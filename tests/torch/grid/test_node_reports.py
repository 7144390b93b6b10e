"""What nodes say of their time, as the server has it: by node, round and run; and how little a lie about it does."""

from __future__ import annotations

from typing import Any, Literal

import pytest

from laminar.grid.server import overview
from laminar.grid.utilization import SLACK
from laminar.grid.wire.messages import Ask, Spent
from laminar.train.on_grid import Grid
from tests.torch.grid.crowd import Crowd

NEVER: dict[str, Any] = {"replicate": "never", "local_steps": 1}


def said(*spent: Spent, number: int = 1, want: int = 0) -> Ask:
    return Ask(want=want, report=number, spent=list(spent))


def nodes_of(crowd: Crowd) -> list[dict[str, Any]]:
    return [one["utilization"] for one in crowd.hall.desk.do(lambda tx: overview.nodes_told(tx, crowd.hall.now))]


def rounds_of(crowd: Crowd) -> list[dict[str, Any]]:
    return [one["utilization"] for one in crowd.hall.desk.do(lambda tx: overview.rounds_told(tx, crowd.hall.now))]


def run_of(crowd: Crowd) -> dict[str, Any]:
    (run,) = crowd.hall.desk.do(lambda tx: overview.status(tx, crowd.hall.now))["runs"]
    return dict(run["utilization"])


def shares(of: dict[str, float]) -> dict[str, float]:
    return {part: round(share, 6) for part, share in of.items() if share and part not in ("seconds", "nodes")}


def test_a_report_counts_once_by_node_round_and_run() -> None:
    crowd = Crowd(["honest", "honest"], Grid(workers=2, rounds=3, quorum=1.0, **NEVER))
    one, other = crowd.take(0), crowd.take(1)
    assert one is not None and other is not None
    crowd.hall.now += 100.0
    report = said(Spent(waiting=10.0), Spent(result=one.result, computing=30.0, transfer=10.0))
    crowd.hall.answer(crowd.ids[0], one.result, crowd.packed(0, one), report)
    crowd.hall.ask(crowd.ids[0], report)  # the reply was lost: it says it again
    crowd.hall.ask(crowd.ids[0], said(Spent(result=one.result, waiting=40.0, paused=20.0), number=2))
    assert nodes_of(crowd)[0]["seconds"] == 110.0
    assert shares(nodes_of(crowd)[0]) == pytest.approx(
        {"computing": 30 / 110, "transfer": 10 / 110, "waiting": 50 / 110, "paused": 20 / 110}, abs=1e-6
    )
    (first,) = rounds_of(crowd)
    assert shares(first) == {"computing": 0.3, "transfer": 0.1, "waiting": 0.4, "paused": 0.2} and first["seconds"] == 100.0
    crowd.hall.ask(crowd.ids[1], said(Spent(result=other.result, computing=50.0, waiting=50.0)))
    assert shares(run_of(crowd)) == {"computing": 0.4, "transfer": 0.05, "waiting": 0.45, "paused": 0.1}  # the mean over two nodes
    assert run_of(crowd)["nodes"] == 2 and run_of(crowd)["seconds"] == 200.0


@pytest.mark.parametrize("late", ["drop", "age"])
def test_computing_for_an_answer_that_is_late_or_dropped_is_wasted(late: Literal["drop", "age"]) -> None:
    """Where late answers are used, they are none."""
    crowd = Crowd(["honest"] * 3, Grid(workers=3, rounds=3, quorum=0.6, late=late, **NEVER))
    tasks = [crowd.take(i) for i in range(3)]
    crowd.hall.now += 50.0
    for i, task in enumerate(tasks):
        assert task is not None
        crowd.hall.answer(crowd.ids[i], task.result, crowd.packed(i, task), said(Spent(result=task.result, computing=20.0, waiting=5.0)))
        crowd.hall.office.turn()
    slow = nodes_of(crowd)[2]
    assert shares(slow) == ({"waiting": 0.2, "wasted": 0.8} if late == "drop" else {"waiting": 0.2, "computing": 0.8})
    assert sum(one["wasted"] > 0 for one in nodes_of(crowd)) == (late == "drop")
    assert rounds_of(crowd)[0]["wasted"] == pytest.approx(20 / 75 if late == "drop" else 0.0)


def test_an_answer_that_was_good_and_is_dropped_afterwards_was_computed_in_vain() -> None:
    """It is held for its round when somebody stops the run before there are enough."""
    from laminar.grid.server import commands

    crowd = Crowd(["honest"] * 2, Grid(workers=2, rounds=3, quorum=1.0, minimum=2, **NEVER))
    task = crowd.take(0)
    assert task is not None
    crowd.hall.now += 50.0
    crowd.hall.answer(crowd.ids[0], task.result, crowd.packed(0, task), said(Spent(result=task.result, computing=20.0)))
    crowd.hall.office.turn()
    assert shares(nodes_of(crowd)[0]) == {"computing": 1.0}
    crowd.hall.desk.do(lambda tx: commands.stop(tx, "crowd", crowd.hall.assimilator, crowd.hall.now))
    assert shares(nodes_of(crowd)[0]) == {"wasted": 1.0} and shares(run_of(crowd)) == {"wasted": 1.0}


def test_what_was_given_back_was_computed_in_vain() -> None:
    crowd = Crowd(["honest"], Grid(workers=1, rounds=1, **NEVER))
    task = crowd.take(0)
    assert task is not None
    crowd.hall.now += 50.0
    asked = Ask(want=0, cannot=[(task.result, "no memory")], report=1, spent=[Spent(result=task.result, computing=20.0)])
    crowd.hall.ask(crowd.ids[0], asked)
    assert shares(nodes_of(crowd)[0]) == {"wasted": 1.0}


@pytest.mark.parametrize("claim", [Spent(computing=1e9), Spent(waiting=1e6, paused=1e6), Spent(result=1, transfer=SLACK + 51.0)])
def test_more_time_than_there_was_is_of_no_account(claim: Spent) -> None:
    crowd = Crowd(["honest"], Grid(workers=1, rounds=1, **NEVER))
    crowd.take(0)
    crowd.hall.now += 50.0
    crowd.hall.ask(crowd.ids[0], said(claim))
    assert nodes_of(crowd)[0]["seconds"] == 0.0 and run_of(crowd)["nodes"] == 0


def test_time_on_the_result_of_another_or_of_none_is_no_runs() -> None:
    crowd = Crowd(["honest", "honest"], Grid(workers=2, rounds=1, **NEVER))
    mine, theirs = crowd.take(0), crowd.take(1)
    assert mine is not None and theirs is not None
    crowd.hall.now += 50.0
    crowd.hall.ask(crowd.ids[0], said(Spent(result=theirs.result, computing=10.0), Spent(result=1 << 40, computing=10.0)))
    assert nodes_of(crowd)[0]["seconds"] == 20.0 and run_of(crowd)["nodes"] == 0
    assert nodes_of(crowd)[1]["seconds"] == 0.0


def test_a_run_that_is_over_is_not_waited_for() -> None:
    crowd = Crowd(["honest"], Grid(workers=1, rounds=1, **NEVER))
    task = crowd.take(0)
    assert task is not None
    crowd.hall.now += 50.0
    crowd.hall.answer(crowd.ids[0], task.result, crowd.packed(0, task), said(Spent(result=task.result, computing=20.0)))
    crowd.hall.office.turn()
    assert crowd.hall.run(crowd.run).state == "done"
    crowd.hall.now += 500.0
    crowd.hall.ask(crowd.ids[0], said(Spent(result=task.result, waiting=500.0), number=2))
    assert run_of(crowd)["seconds"] == 20.0 and nodes_of(crowd)[0]["seconds"] == 520.0


def test_what_a_node_claims_decides_nothing() -> None:
    """Two crowds that differ in what their nodes say of their time: the same versions, verdicts, reputations and leases."""

    def played(lies: bool) -> tuple[bytes, list[Any]]:
        crowd = Crowd(["honest"] * 4, Grid(workers=4, rounds=4, quorum=0.5, local_steps=1), seed=3)
        for turn in range(40):
            for i in range(4):
                claim = Spent(computing=1e9 if i else 0.0, waiting=float(i)) if lies else Spent()
                tasks = crowd.hall.ask(crowd.ids[i], Ask(want=1, report=turn + 1, spent=[claim])).tasks
                for task in tasks:
                    more = said(Spent(result=task.result, computing=0.5 * lies), number=1000 + turn)
                    crowd.hall.answer(crowd.ids[i], task.result, crowd.packed(i, task), more)
                crowd.hall.now += 1.0
                crowd.hall.office.turn()
        kept = ("streak", "valid", "invalid", "lost", "quota", "credit", "speed", "banned")
        assert crowd.hall.run(crowd.run).state == "done"
        return crowd.hall.version(crowd.run, 4).tobytes(), [[row[name] for name in kept] for row in crowd.known()]

    assert played(False) == played(True)

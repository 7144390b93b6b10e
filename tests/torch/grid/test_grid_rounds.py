"""Rounds, leases and ages on a grid: who is waited for, who is late, and what becomes of what is lost."""

from __future__ import annotations

import pytest
from sqlalchemy import select, update

from laminar.grid.db import nodes, runs, schema, tasks
from laminar.grid.db.book import Tx
from laminar.grid.population.problem import Clouds
from laminar.grid.server.service import Denied
from laminar.grid.wire.messages import Ask
from laminar.train.on_grid import Grid
from tests.torch.grid.crowd import Crowd


def crowd(nodes: int = 4, **settings: object) -> Crowd:
    given = {"workers": 4, "rounds": 6, "local_steps": 2, "deadline": 100.0, "lease": 60.0, "replicate": "never"} | settings
    return Crowd(["honest"] * nodes, Grid(**given))  # type: ignore[arg-type]


def answered(made: Crowd, number: int) -> str:
    task = made.take(number)
    assert task is not None
    said = made.hall.answer(made.ids[number], task.result, made.packed(number, task)).state
    made.hall.office.turn()
    return said


def test_a_round_closes_at_its_quorum_and_the_next_one_opens() -> None:
    made = crowd(quorum=0.5, late="drop")
    slow = made.take(3)
    for number in (0, 1):
        answered(made, number)
    run = made.hall.run(made.run)
    assert run.version == 1 and run.round == 1
    assert slow is not None
    verdict = made.hall.answer(made.ids[3], slow.result, made.packed(3, slow))
    assert (verdict.state, verdict.reason) == ("late", "its round 0 is over")
    assert made.take(3) is not None  # and it gets something newer


def test_a_late_answer_is_aged_into_the_next_round() -> None:
    made = crowd(quorum=0.5, late="age")
    slow = made.take(3)
    for number in (0, 1):
        answered(made, number)
    assert slow is not None
    assert made.hall.answer(made.ids[3], slow.result, made.packed(3, slow)).state == "returned"
    for number in (0, 1):
        answered(made, number)
    assert made.hall.run(made.run).version == 2
    assert made.counts["applied"] == 5  # two, and two with the late one


def test_a_round_closes_at_its_deadline_with_what_has_come() -> None:
    made = crowd(quorum=1.0)
    answered(made, 0)
    made.hall.now += 101.0
    made.hall.office.turn()
    assert made.hall.run(made.run).version == 1
    (first, *_) = made.hall.desk.do(lambda tx: runs.rounds_of(tx, made.run))
    assert (first["why"], first["answers"], first["stepped"]) == ("deadline", 1, True)


def test_too_few_answers_make_no_step_and_are_not_lost() -> None:
    made = crowd(quorum=1.0, minimum=2)
    answered(made, 0)
    made.hall.now += 101.0
    made.hall.office.turn()
    assert made.hall.run(made.run).version == 0
    answered(made, 1)
    made.hall.now += 101.0
    made.hall.office.turn()
    assert made.hall.run(made.run).version == 1 and made.counts["applied"] == 2


def test_a_lease_that_ends_gives_the_task_to_somebody_else() -> None:
    made = crowd(workers=1, quorum=1.0, deadline=1000.0)
    lost = made.take(0)
    assert lost is not None and made.take(1) is None
    made.hall.now += 61.0
    made.hall.office.turn()
    again = made.take(1)
    assert again is not None and again.task == lost.task and again.result != lost.result
    assert made.hall.answer(made.ids[1], again.result, made.packed(1, again)).state == "returned"
    made.hall.office.turn()
    assert made.hall.run(made.run).version == 1
    assert (
        made.hall.answer(made.ids[0], lost.result, made.packed(0, lost)).state == "returned"
    )  # late, honest: compared, and not used twice
    made.hall.office.turn()
    assert made.counts["applied"] == 1 and made.counts["valid"] == 2
    (node,) = [row for row in made.known() if row["id"] == made.ids[0]]
    assert node["lost"] == 1 and node["streak"] <= 1


def test_a_task_is_given_up_after_so_many_attempts() -> None:
    made = crowd(nodes=8, workers=1, quorum=1.0, deadline=10_000.0, attempts=3)
    for number in range(3):
        assert made.take(number) is not None
        made.hall.now += 61.0
        made.hall.office.turn()
    assert made.counts["failed"] == 1 and made.take(5) is None


def test_a_task_that_got_lost_on_the_way_is_sent_again() -> None:
    made = crowd(workers=1)
    first = made.take(0)
    made.hall.now += 11.0
    again = made.take(0)
    assert first is not None and again is not None and again.result == first.result


def test_async_answers_are_steps_and_old_ones_weigh_less() -> None:
    made = crowd(mode="async", rounds=5)
    old = made.take(3)
    before = made.hall.version(made.run, 0)
    for number in (0, 1, 2):
        answered(made, number)
    assert made.hall.run(made.run).version == 3
    assert old is not None and old.version.number == 0
    at = made.hall.version(made.run, 3)
    made.hall.answer(made.ids[3], old.result, made.packed(3, old))
    made.hall.office.turn()
    moved = at - made.hall.version(made.run, 4)
    whole = made.problem.work(before, old.seed, old.steps, made.settings)
    assert moved == pytest.approx(whole * (1 + 3) ** -0.5, abs=1e-5)


def test_buffered_answers_make_a_step_together() -> None:
    made = crowd(mode="async", buffer=3, rounds=2)
    for number in (0, 1):
        answered(made, number)
    assert made.hall.run(made.run).version == 0
    answered(made, 2)
    assert made.hall.run(made.run).version == 1


def test_what_is_too_old_is_late() -> None:
    made = crowd(mode="async", rounds=9, max_staleness=1)
    old = made.take(3)
    for _ in range(3):
        answered(made, 0)
    assert old is not None
    assert made.hall.answer(made.ids[3], old.result, made.packed(3, old)).state == "late"


def test_a_paused_run_gives_out_nothing_and_takes_what_comes() -> None:
    from laminar.grid.server import commands

    made = crowd()
    task = made.take(0)
    made.hall.desk.do(lambda tx: commands.set_state(tx, "crowd", "paused", made.hall.now))
    made.hall.feeder.changed()
    assert made.take(1) is None and task is not None
    assert made.hall.answer(made.ids[0], task.result, made.packed(0, task)).state == "returned"
    made.hall.desk.do(lambda tx: commands.set_state(tx, None, "open", made.hall.now))
    made.hall.feeder.changed()
    made.hall.office.turn()
    assert made.take(1) is not None
    stopped = made.hall.desk.do(lambda tx: commands.stop(tx, "crowd", made.hall.assimilator, made.hall.now))
    assert stopped["state"] == "stopped" and made.hall.desk.do(lambda tx: tasks.unsent(tx, made.run)) == 0


def test_a_pause_takes_nothing_of_a_rounds_time() -> None:
    from laminar.grid.server import commands

    made = crowd(quorum=1.0, lease=1e6)
    answered(made, 0)
    made.hall.now += 30.0
    made.hall.desk.do(lambda tx: commands.set_state(tx, None, "paused", made.hall.now))
    made.hall.now += 50_000.0  # over night
    made.hall.office.turn()
    made.hall.desk.do(lambda tx: commands.set_state(tx, None, "open", made.hall.now))
    made.hall.feeder.changed()
    made.hall.office.turn()
    assert made.hall.run(made.run).version == 0 and made.hall.run(made.run).round == 0  # not closed with one answer of four
    for number in (1, 2, 3):
        answered(made, number)
    assert made.hall.run(made.run).version == 1 and made.counts["applied"] == 4
    answered(made, 0)
    made.hall.now += 101.0
    made.hall.office.turn()
    assert made.hall.run(made.run).version == 2  # the next one has a deadline as ever


def test_a_clock_that_leaps_back_hangs_nothing() -> None:
    made = crowd(quorum=1.0)
    answered(made, 0)
    made.hall.now -= 5000.0
    for number in (1, 2, 3):
        answered(made, number)
    assert made.hall.run(made.run).version == 1
    made.hall.now += 10_000.0
    made.hall.office.turn()
    assert made.hall.run(made.run).state == "open"


@pytest.mark.parametrize(("speed", "steps"), [(32.0, 2), (1.0, 1), (160.0, 10), (1e6, 32), (0.0, 8)])
def test_a_task_is_as_large_as_its_node_is_fast(speed: float, steps: int) -> None:
    made = crowd(local_steps=8, task_seconds=2.0, replicate="always")
    made.hall.ask(made.ids[0], Ask(want=0, speed=speed))
    task, check = made.take(0), made.take(1)
    assert task is not None and task.steps == steps
    assert check is not None and (check.task, check.steps) == (task.task, steps)  # whoever checks it does as much


@pytest.mark.parametrize(("speed", "steps"), [(8.0, 7), (0.01, 1), (9.2, 8), (0.0, 8)])
def test_a_node_that_is_too_slow_for_its_round_gets_a_smaller_task(speed: float, steps: int) -> None:
    made = crowd(local_steps=8, deadline=60.0, lease=600.0)  # batches of 32 samples, in half of the round
    made.hall.ask(made.ids[0], Ask(want=0, speed=speed))
    task = made.take(0)
    assert task is not None and task.steps == steps


def test_a_run_counts_the_steps_that_its_tasks_really_had() -> None:
    made = crowd(local_steps=8, task_seconds=2.0)
    for number, speed in enumerate((32.0, 160.0, 1.0, 1e6)):
        made.hall.ask(made.ids[number], Ask(want=0, speed=speed))
        answered(made, number)
    assert made.hall.run(made.run).version == 1
    assert (made.counts["applied"], made.counts["applied steps"]) == (4, 2 + 10 + 1 + 32)


def believed(made: Crowd, number: int) -> None:
    """As after a long time."""
    made.hall.desk.do(lambda tx: tx.execute(update(schema.nodes).where(schema.nodes.c.id == made.ids[number]).values(streak=1_000_000)))


def test_a_task_that_comes_back_is_checked_by_who_does_it_then() -> None:
    made = Crowd(["honest", "flipped", "honest", "honest"], Grid(workers=1, rounds=9, local_steps=2, deadline=7200.0, lease=600.0))
    believed(made, 0)
    task = made.take(0)
    assert task is not None and "checks" not in made.counts
    made.hall.ask(made.ids[0], Ask(want=0, cannot=[(task.result, "no time")]))
    again = made.take(1)
    assert again is not None and again.task == task.task and made.counts["checks"] == 1
    made.hall.answer(made.ids[1], again.result, made.packed(1, again))
    made.hall.office.turn()
    assert made.hall.run(made.run).version == 0, "a newcomer's word is not enough"


def test_nobody_is_blamed_who_disagrees_with_an_answer_that_was_only_believed() -> None:
    made = Crowd(["honest", "flipped", "honest"], Grid(workers=1, rounds=9, local_steps=2, deadline=7200.0, lease=600.0))
    for number in (0, 1):
        believed(made, number)
    task = made.take(0)
    assert task is not None
    made.hall.now += 700.0
    made.hall.office.turn()
    again = made.take(1)
    assert again is not None and again.task == task.task
    made.hall.answer(made.ids[1], again.result, made.packed(1, again))
    made.hall.office.turn()
    made.hall.answer(made.ids[0], task.result, made.packed(0, task))
    made.hall.office.turn()
    assert [row["invalid"] for row in made.known()] == [0, 0, 0]


def test_a_trusted_node_alone_is_compared_with_nobody() -> None:
    made = Crowd(["honest"] * 2, Grid(workers=1, rounds=4, local_steps=1, deadline=1e6, lease=60.0), trusted=frozenset({0, 1}))
    made.play(50)
    assert made.counts["valid"] == 4 and "compared" not in made.counts
    assert [row["streak"] for row in made.known()] == [0, 0]


@pytest.mark.parametrize("how", ["by its number", "by its token"])
def test_who_agreed_with_one_that_is_banned_by_hand_is_checked_again(how: str) -> None:
    made = Crowd(["honest"] * 2, Grid(workers=1, rounds=4, local_steps=1, deadline=1e6, lease=60.0, replicate="always"), owners={1: "lab"})
    made.play(80)
    assert all(row["streak"] >= 4 for row in made.known())

    def ban(tx: Tx) -> None:
        (id,) = nodes.find(tx, "2")
        assert id == made.ids[1] and nodes.find(tx, "\u00b2") == nodes.find(tx, "9" * 20) == []
        if how == "by its number":
            nodes.ban(tx, id, "noisy")
        else:
            assert nodes.revoke_token(tx, tx.execute(select(schema.nodes.c.token).where(schema.nodes.c.id == id)).scalar_one()) == 1

    made.hall.desk.do(ban)
    first, _ = made.known()
    assert (first["streak"], first["banned"]) == (0, None)
    assert made.banned() == ["honest 1"]


def test_what_a_node_says_it_has_may_be_any_text() -> None:
    made = crowd()
    made.hall.ask(made.ids[0], Ask(want=1, has=["crowd/\u00b2", "crowd/" + "9" * 60, "crowd/", "/1"]))


@pytest.mark.parametrize("mode", ["rounds", "async"])
def test_a_run_that_was_stopped_goes_on_when_it_is_begun_again(mode: str) -> None:
    from laminar.grid.server import commands

    made = crowd(mode=mode, quorum=0.5)
    for number in (0, 1):
        answered(made, number)
    made.hall.desk.do(lambda tx: commands.stop(tx, "crowd", made.hall.assimilator, made.hall.now))
    version = made.hall.run(made.run).version
    assert made.hall.run(made.run).state == "stopped" and made.take(2) is None
    assert made.hall.begin("crowd", made.settings, Clouds.first()) == made.run
    made.play()
    assert made.hall.run(made.run).version == 6 > version


def test_nodes_of_one_owner_alone_are_not_checked_and_do_not_hang() -> None:
    made = Crowd(["honest"] * 3, Grid(workers=3, rounds=3, local_steps=1, deadline=1e6, lease=60.0), owners=dict.fromkeys(range(3), "lab"))
    made.play(50)
    assert made.counts["unchecked"] == 9 and "checks" not in made.counts


def test_a_task_about_which_nobody_agrees_fails_and_leaves_nothing_behind() -> None:
    grid = Grid(workers=1, rounds=1, local_steps=1, deadline=1e6, lease=60.0, replicate="always", attempts=3)
    made = Crowd(["random"] * 6, grid)
    for _ in range(20):
        made.turn()
    assert made.counts["failed"] >= 1
    states = made.hall.desk.do(lambda tx: tasks.by_state(tx, made.run))
    assert states.get("returned", 0) <= 1 and states["late"] >= 3 and made.banned() == []


def test_time_goes_on_when_the_clock_has_gone_back() -> None:
    made = crowd(quorum=1.0, deadline=100.0)
    answered(made, 0)
    made.hall.now -= 5000.0
    made.hall.office.turn()
    made.hall.now += 101.0
    made.hall.office.turn()
    assert made.hall.run(made.run).version == 1


def test_who_lies_whenever_it_is_trusted_is_banned() -> None:
    """Ten good answers that were compared, lies in between that were not, one that is caught; again and again."""
    made = crowd(nodes=1)

    def cycle(tx: object) -> None:
        for _ in range(10):
            nodes.judged(tx, made.ids[0], good=True, compared=True)  # type: ignore[arg-type]
        for _ in range(9):
            nodes.judged(tx, made.ids[0], good=True, compared=False)  # type: ignore[arg-type]
        nodes.judged(tx, made.ids[0], good=False, compared=True)  # type: ignore[arg-type]

    for _ in range(3):
        made.hall.desk.do(cycle)
    assert len(made.banned()) == 1


def test_a_node_that_has_used_up_its_bytes_gets_no_tasks_and_twice_as_many_nothing_at_all() -> None:
    made = crowd(quorum=0.5)
    service, id = made.hall.service, made.ids[0]
    service._scheduler.bytes_a_day = 1000
    assert answered(made, 0) == "returned"  # more than a thousand bytes
    told = made.hall.ask(id)
    assert not told.tasks and told.why == "its budget of 1000 bytes a day is used up"
    made.hall.desk.do(lambda tx: service.fetch(tx, id, 1500))  # what it has begun it may finish
    with pytest.raises(Denied, match="twice over") as refused:
        made.hall.desk.do(lambda tx: service.fetch(tx, id, 1))
    assert refused.value.status == 429
    made.hall.now += 86400.0
    made.hall.desk.do(lambda tx: service.fetch(tx, id, 1))
    assert made.take(0) is not None

"""What is made of the books of a Spark cluster."""

from __future__ import annotations

from laminar.launch.protocol import Trouble
from laminar.launch.spark_watch import ROOM, SHRINK, TRIES, TaskSeen, Watch, ended_by_a_task, shortened

LOST = "ExecutorLostFailure (executor 1 exited caused by one of the running tasks) Reason: Command exited with code 137"
PYTHON = """\
org.apache.spark.api.python.PythonException: Traceback (most recent call last):
  File "worker.py", line 1, in main
    raise ModuleNotFoundError
ModuleNotFoundError: No module named 'laminar'

\tat org.apache.spark.api.python.BasePythonRunner.handle(PythonRunner.scala:1)
"""


def running(*slots: int, number: int = 0, seconds: float = 30.0, stage: str = "0.0") -> list[TaskSeen]:
    return [TaskSeen(number + slot, slot, "RUNNING", stage, "a", "1", seconds) for slot in slots]


def failed(number: int, slot: int, error: str, seconds: float = 30.0, state: str = "FAILED") -> TaskSeen:
    return TaskSeen(number, slot, state, "0.0", "a", "1", seconds, error)


def whys(found: list[Trouble]) -> dict[int, str]:
    return {trouble.slot: trouble.why for trouble in found}


def test_a_lost_executor_is_told_once_with_its_host_and_cause() -> None:
    watch = Watch(2, together=False)
    assert watch.look(running(0, 1), 2, 0.0) == []
    seen = [*running(0), failed(1, 1, LOST)]
    assert watch.look(seen, 1, 1.0) == [Trouble(1, "executor 1 on a: the executor was lost: Command exited with code 137", life="1")]
    assert watch.look(seen, 1, 2.0) == [] and not watch.hopeless


def test_of_a_barrier_stage_the_others_are_no_culprits() -> None:
    watch = Watch(2, together=True)
    watch.look(running(0, 1), 2, 0.0)
    found = watch.look([failed(0, 0, "killed", state="KILLED"), failed(1, 1, LOST)], 1, 1.0)
    assert "another worker of its stage was lost" in whys(found)[0] and "code 137" in whys(found)[1]
    assert {trouble.slot: trouble.bystander for trouble in found} == {0: True, 1: False}


def test_of_a_barrier_stage_the_others_are_told_before_spark_has_ended_them() -> None:
    watch = Watch(3, together=True)
    watch.look(running(0, 1, 2), 3, 0.0)
    found = watch.look([*running(0, 2), failed(1, 1, LOST)], 2, 1.0)
    assert {trouble.slot: trouble.bystander for trouble in found} == {0: True, 1: False, 2: True}
    ended = [failed(number, number, "killed", state="KILLED") for number in (0, 2)]
    again = running(0, 1, 2, number=3, stage="0.1")
    assert watch.look([*ended, failed(1, 1, LOST), *again], 3, 2.0) == [], "each is told once, and the next attempt is another"


def test_of_an_ordinary_stage_the_others_live_on() -> None:
    watch = Watch(2, together=False)
    assert [trouble.slot for trouble in watch.look([*running(0), failed(1, 1, LOST)], 1, 1.0)] == [1]


def test_too_few_cores_are_said_when_none_has_come_for_long_enough() -> None:
    watch = Watch(4, together=False)
    assert watch.look([], 0, 0.0) == []
    assert watch.look(running(0), 1, 5.0) == []
    assert watch.look(running(0), 1, 5.0 + ROOM - 1) == [] and not watch.hopeless
    found = watch.look(running(0), 1, 5.0 + ROOM)
    assert found == [Trouble(slot, "the cluster has 1 free core, 4 are needed") for slot in (1, 2, 3)]
    assert watch.look(running(0), 1, 6.0 + ROOM) == []
    assert watch.look(running(0, 1, 2, 3), 4, 7.0 + ROOM) == [] and not watch.hopeless, "more may come later"


def test_together_goes_on_with_as_many_as_there_is_room_for() -> None:
    watch = Watch(4, together=True)
    watch.look(running(0, 1, 2, 3), 4, 0.0)
    watch.look([], 3, 1.0)
    assert watch.tasks == 4
    watch.look([], 3, 1.0 + SHRINK)
    assert watch.tasks == 3 and not watch.hopeless


def test_apart_keeps_asking_for_all() -> None:
    watch = Watch(4, together=False)
    watch.look(running(0, 1, 2, 3), 4, 0.0)
    watch.look(running(0, 1, 2), 3, 1.0)
    assert [trouble.slot for trouble in watch.look(running(0, 1, 2), 3, 1.0 + SHRINK)] == [3]
    assert watch.tasks == 4 and not watch.hopeless


def test_a_slot_that_cannot_begin_is_given_up() -> None:
    watch = Watch(1, together=False)
    for number in range(TRIES):
        assert not watch.hopeless
        found = watch.look([failed(number, 0, PYTHON, seconds=0.3)], 1, float(number))
        assert whys(found) == {0: "executor 1 on a: ModuleNotFoundError: No module named 'laminar'"}
    assert watch.hopeless


def test_executors_may_be_lost_as_often_as_they_like() -> None:
    watch = Watch(1, together=False)
    for number in range(2 * TRIES):
        watch.look([failed(number, 0, LOST, seconds=0.3)], 1, float(number))
    assert not watch.hopeless


def test_a_task_that_ran_for_a_while_is_no_quick_failure_any_more() -> None:
    watch = Watch(1, together=False)
    for number in range(2 * TRIES):
        watch.look([failed(2 * number, 0, PYTHON, seconds=0.3)], 1, float(number))
        watch.look(running(0, number=2 * number + 1), 1, float(number))
    assert not watch.hopeless


def test_a_stage_that_ends_with_a_task_is_no_failure_of_its_own() -> None:
    stage = (
        "org.apache.spark.SparkException: Job aborted due to stage failure: Could not recover from a failed barrier ResultStage. "
        "Most recent failure reason: Stage failed because barrier task ResultTask(0, 1) finished unsuccessfully.\n"
    )
    assert ended_by_a_task(stage + LOST) and ended_by_a_task(stage + PYTHON)
    assert not ended_by_a_task("org.apache.spark.SparkException: Job 0 cancelled because SparkContext was shut down")


def test_reasons_are_short() -> None:
    assert shortened("") == "no reason was given"
    assert shortened("first\nsecond") == "first"
    assert len(shortened("x" * 1000)) == 300

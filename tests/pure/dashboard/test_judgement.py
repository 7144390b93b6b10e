"""What layers answer on the same samples: matrices, figures, and the samples that tell them apart; and how they are asked."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest

from laminar.core.errors import LaminarError
from laminar.dashboard.child import ask
from laminar.dashboard.judgement import Answered, groups, judged, rows_of
from laminar.dashboard.judging import WAITING, Judging

ANIMALS = ["cat", "dog"]


def answered(labels: list[int], said: list[int], classes: list[str] | None = ANIMALS, sure: float = 3.0, id: str = "a") -> Answered:
    outputs = np.zeros((len(said), 2), np.float32)
    outputs[np.arange(len(said)), said] = sure
    return Answered(id, classes, np.array(labels), outputs)


def test_a_matrix_counts_truth_by_row_and_answer_by_column() -> None:
    found = judged(answered([0, 0, 1, 1, 1], [0, 1, 1, 1, 0]))
    assert found.matrix == [[1, 1], [1, 2]] and found.metrics["accuracy"] == pytest.approx(0.6)
    right, wrong = -np.log(np.exp(3) / (np.exp(3) + 1)), -np.log(1 / (np.exp(3) + 1))
    assert found.metrics["loss"] == pytest.approx((3 * right + 2 * wrong) / 5)


def test_numbers_have_errors_and_pairs() -> None:
    one = Answered("a", None, np.array([[0.0], [2.0]], np.float32), np.array([[1.0], [2.0]], np.float32))
    found = judged(one)
    assert found.metrics == {"loss": 0.5, "mae": 0.5, "r2": 0.5} and found.pairs == [(0.0, 1.0), (2.0, 2.0)]


@pytest.mark.parametrize(("objective", "loss"), [("mse", (9 + 0.25) / 2), ("l1", 3.5 / 2), ("huber", (2.5 + 0.125) / 2)])
def test_the_loss_of_numbers_is_that_of_the_training(objective: str, loss: float) -> None:
    answers = Answered("a", None, np.array([[0.0], [2.0]], np.float32), np.array([[3.0], [2.5]], np.float32), objective)
    assert judged(answers).metrics["loss"] == pytest.approx(loss)


def test_samples_are_sorted_into_what_they_show_with_classes_by_name() -> None:
    first = answered([0, 0, 1, 1], [0, 1, 1, 0], id="a")
    other = Answered("b", ["dog", "cat"], np.array([1, 1, 0, 0]), answered([0] * 4, [1, 0, 1, 1]).outputs)  # numbered the other way round
    found = {one.name: one for one in groups([first, other], np.array([10, 11, 12, 13]), lambda row: (None, [float(row)]))}
    assert [sample.number for sample in found["right together"].samples] == [10]
    assert sorted(sample.number for sample in found["wrong together"].samples) == [11, 13]
    (apart,) = found["they disagree"].samples
    assert (
        apart.number == 12 and apart.truth == "dog" and [(one.answer, one.right) for one in apart.said] == [("dog", True), ("cat", False)]
    )
    assert apart.values == [12.0]


def test_few_samples_are_shown_of_many_and_all_are_counted() -> None:
    labels = [0] * 100
    found = {one.name: one for one in groups([answered(labels, labels)], np.arange(100), lambda _: (None, []), most=5)}
    assert found["right together"].count == 100 and len(found["right together"].samples) == 5 and "they disagree" not in found
    assert rows_of(10, 100).tolist() == list(range(10))
    some = rows_of(1000, 7)
    assert len(some) == len(set(some.tolist())) == 7 and some[0] == 0 and some[-1] == 999


class Asking:
    """Stands for the process."""

    def __init__(self, answer: Any) -> None:
        self.go, self.answer, self.asked = threading.Event(), answer, 0

    def __call__(self, module: str, request: Any, *, seconds: float, heard: Any) -> Any:
        self.asked += 1
        heard({"progress": {"what": "loading", "done": 1, "of": 3}})
        assert self.go.wait(30)
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


def until(judging: Judging, *words: Any, **options: Any) -> dict[str, Any]:
    for _ in range(3000):
        state = judging.look(*words, **options)
        if state["state"] != "running":
            return state
        threading.Event().wait(0.01)
    raise AssertionError("it is not done")


def test_a_comparison_is_computed_once_and_told_while_it_is() -> None:
    asking = Asking({"judgement": {"data": "all"}})
    judging = Judging(asking)
    assert judging.look(".", ["a", "b"], "all", "toml")["state"] == "running"
    asking.go.set()
    assert until(judging, ".", ["a", "b"], "all", "toml") == {"state": "done", "judgement": {"data": "all"}}
    assert asking.asked == 1
    judging.look(".", ["a", "b"], "all", "toml", again=True)
    assert until(judging, ".", ["a", "b"], "all", "toml")["state"] == "done" and asking.asked == 2
    assert until(judging, ".", ["a", "b"], "all", "another stack file")["state"] == "done" and asking.asked == 3


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        ({"error": {"code": "L104", "message": "no", "hint": ""}}, "L104"),
        (TimeoutError("it took more than 600 s"), "L606"),
        (LaminarError("L900", "it said nothing"), "L900"),
        (OSError("no more processes"), "L900"),
    ],
)
def test_what_goes_wrong_is_told(answer: Any, code: str) -> None:
    asking = Asking(answer)
    asking.go.set()
    assert until(Judging(asking), ".", ["a"], "all", None)["error"]["code"] == code


def test_not_too_many_wait() -> None:
    asking = Asking({"judgement": {}})
    judging = Judging(asking)
    for number in range(WAITING):
        judging.look(".", [str(number)], "all", None)
    with pytest.raises(LaminarError, match="being computed"):
        judging.look(".", ["one more"], "all", None)
    asking.go.set()
    assert all(until(judging, ".", [str(number)], "all", None)["state"] == "done" for number in range(WAITING))


def test_a_child_that_ends_without_a_word_is_told_with_what_it_said() -> None:
    with pytest.raises(LaminarError, match="No module named") as caught:
        ask("laminar.nothing_of_that_name", {}, seconds=60)
    assert caught.value.code == "L900"


def test_a_child_that_takes_too_long_is_ended() -> None:
    with pytest.raises(TimeoutError):
        ask("timeit", {}, seconds=0.2)

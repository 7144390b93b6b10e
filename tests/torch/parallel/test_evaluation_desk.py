"""The desk at which evaluators call: what is handed over is answered, given to another, or said to be lost."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from laminar.core.errors import LaminarError
from laminar.parallel.evaluation.desk import Desk
from laminar.parallel.evaluation.messages import Failed, Here, Sums
from laminar.parallel.wire.frames import Gone
from laminar.parallel.wire.link import Link
from laminar.train.beside import Lost
from laminar.train.checkpoint import unpack

WEIGHTS = {"w": torch.arange(6.0).reshape(2, 3)}


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    made = Desk(f"unix:{tmp_path}/d", "token", silence=30.0, back=0.2)
    yield made
    made.close()
    made.close()


def evaluator(desk: Desk, pid: int = 7) -> Link:
    link = Link(desk.address, "token", timeout=20)
    link.send(Here(pid=pid, host="there"))
    while not desk.here:
        pass
    return link


def test_a_model_is_handed_over_and_its_figures_come_back(desk: Desk) -> None:
    assert not desk.free
    link = evaluator(desk)
    assert desk.arrived() == [{"role": "evaluator", "rank": 0, "pid": 7, "host": "there"}]
    assert desk.arrived() == []
    found = desk.test(WEIGHTS)
    assert not desk.free
    header, data = link.receive()
    assert torch.equal(unpack(bytes(data))[0]["w"], WEIGHTS["w"])
    link.send(Sums(number=header["number"], sums=[1.5, 3.0, 0.0, None]))
    *numbers, last = found.result(20)
    assert numbers == [1.5, 3.0, 0.0]
    assert math.isnan(last), "JSON has no word for it, so it must not get lost on the way"
    assert desk.free
    link.close()


def test_what_is_handed_over_is_a_copy(desk: Desk) -> None:
    link, weights = evaluator(desk), {"w": torch.zeros(4)}
    desk.test(weights)
    weights["w"].fill_(9.0)  # training goes on
    assert unpack(bytes(link.receive()[1]))[0]["w"].tolist() == [0.0] * 4
    link.close()


def test_one_that_takes_the_place_of_another_is_given_what_that_had(tmp_path: Path) -> None:
    desk = Desk(f"unix:{tmp_path}/d", "token", silence=30.0)
    first = evaluator(desk)
    found = desk.test(WEIGHTS)
    first.receive()
    first.close()
    while desk.here:
        pass
    second = evaluator(desk, pid=8)
    number = second.receive()[0]["number"]
    second.send(Sums(number=number + 1, sums=[9.0] * 4))  # of nothing that was asked
    second.send(Sums(number=number, sums=[1.0] * 4))
    assert found.result(20) == [1.0] * 4
    desk.close()
    second.close()


@pytest.mark.parametrize("how", ["dies", "is silent"])
def test_nobody_waits_for_one_that_does_not_come_back(tmp_path: Path, how: str) -> None:
    desk = Desk(f"unix:{tmp_path}/d", "token", silence=0.1, back=0.1)
    link = evaluator(desk)
    found = desk.test(WEIGHTS)
    if how == "dies":
        link.close()
    with pytest.raises(Lost):
        found.result(20)
    assert not desk.free
    desk.close()
    link.close()


def test_a_model_that_fails_in_the_test_fails_the_training(desk: Desk) -> None:
    link = evaluator(desk)
    found = desk.test(WEIGHTS)
    link.send(Failed(number=link.receive()[0]["number"], code="L606", message="no", hint="yes"))
    with pytest.raises(LaminarError, match="no"):
        found.result(20)
    link.close()


def test_without_the_token_nobody_is_given_anything(desk: Desk) -> None:
    stranger = Link(desk.address, "guess", timeout=20)
    with pytest.raises(Gone):  # at the latest when it listens
        stranger.send(Here(pid=1, host="x"))
        stranger.receive()
    stranger.close()
    assert not desk.here
    gibberish = Link(desk.address, "token", timeout=20)
    with pytest.raises(Gone):
        gibberish.ask({"say": "sums", "number": "one"})
    gibberish.close()
    assert not desk.here


def test_what_is_under_way_when_it_closes_is_lost(desk: Desk) -> None:
    link = evaluator(desk)
    found = desk.test(WEIGHTS)
    desk.close()
    with pytest.raises(Lost):
        found.result(0)
    link.close()

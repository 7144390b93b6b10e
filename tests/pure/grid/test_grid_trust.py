"""How far strangers are trusted: whose work is compared, who is wrong when answers differ, what is refused on arrival."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from laminar.grid.trust import accounts
from laminar.grid.trust.admission import Refused, Wanted, admit, usual_norm
from laminar.grid.trust.agreement import Given, judge
from laminar.grid.trust.reputation import TRUSTED, must_check
from laminar.grid.wire import answer as answers
from laminar.grid.wire.sketch import SIZE, Sketcher
from laminar.parallel.compress.layout import Layout
from laminar.parallel.compress.packet import Coding, Form, Packet
from laminar.train.compression import Dgc, NoCompression

LAYOUT = Layout.of({"weight": (30, 40), "bias": (40,)})
SKETCHER = Sketcher(LAYOUT.numel, 0)


def change(seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(LAYOUT.numel).astype(np.float32)


def given_by(number: int, values: np.ndarray, **more: bool) -> Given:
    return Given(number, f"node {number}", SKETCHER.of(values), **more)


@pytest.mark.parametrize(
    ("streak", "draw", "policy", "wanted"),
    [
        (0, 0.99, "adaptive", True),
        (TRUSTED - 1, 0.99, "adaptive", True),
        (TRUSTED, 0.0999, "adaptive", True),
        (TRUSTED, 0.1001, "adaptive", False),
        (1000, 0.0011, "adaptive", False),
        (1000, 0.0009, "adaptive", True),
        (1000, 0.99, "always", True),
        (0, 0.0, "never", False),
    ],
)
def test_checks_become_rarer_and_never_stop(streak: int, draw: float, policy: str, wanted: bool) -> None:
    assert must_check(streak, draw, policy) == wanted  # type: ignore[arg-type]
    assert not must_check(streak, draw, policy, trusted=True)  # type: ignore[arg-type]


def test_one_is_enough_where_one_is_needed() -> None:
    assert judge([given_by(1, change())], 1, 0.1).good == (1,)
    assert judge([], 1, 0.1).how == "waits"


def test_two_that_agree_are_good_and_two_that_do_not_ask_for_a_third() -> None:
    honest, close, liar = change(), change() * np.float32(1.001), -change()
    assert judge([given_by(1, honest)], 2, 0.1).how == "waits"
    assert judge([given_by(1, honest), given_by(2, close)], 2, 0.1).good == (1, 2)
    disputed = judge([given_by(1, honest), given_by(2, liar)], 2, 0.1)
    assert (disputed.how, disputed.needs, disputed.good) == ("waits", 3, ())
    settled = judge([given_by(1, honest), given_by(2, liar), given_by(3, close)], 3, 0.1)
    assert (settled.good, settled.bad) == ((1, 3), (2,))


def test_a_trusted_node_settles_the_matter_even_against_two() -> None:
    honest, liar = change(), -change()
    found = judge([given_by(1, liar), given_by(2, liar), given_by(3, honest, trusted=True)], 3, 0.1)
    assert (found.good, found.bad, found.how) == ((3,), (1, 2), "trusted")


def test_what_comes_after_a_task_is_done_is_held_against_what_was_good() -> None:
    honest, liar = change(), -change()
    found = judge([given_by(1, honest, valid=True), given_by(2, liar), given_by(3, honest)], 2, 0.1)
    assert (found.good, found.bad) == ((1, 3), (2,))


@given(st.lists(st.booleans(), min_size=1, max_size=7), st.integers(1, 7))
def test_good_and_bad_never_overlap_and_liars_who_differ_never_win(honest: list[bool], needs: int) -> None:
    given = [given_by(i, change() if good else change(100 + i)) for i, good in enumerate(honest)]
    found = judge(given, needs, 0.1)
    assert not set(found.good) & set(found.bad)
    if len(found.good) > 1:
        assert all(honest[i] for i in found.good)
    if found.how == "waits":
        assert found.needs >= needs


@pytest.mark.parametrize("kept", [0.0, 1.0, 5.0])
def test_an_honest_packet_is_a_part_of_what_the_node_has(kept: float) -> None:
    work, before = change(), change(1) * np.float32(kept)
    whole = before + work
    largest = np.argsort(-np.abs(whole))[:60]
    packet = SKETCHER.of_some(largest, whole[largest])
    found = accounts.check(SKETCHER.of(before), SKETCHER.of(work), packet, float(np.linalg.norm(whole[largest])))
    assert found.wrong == ""
    left = whole.copy()
    left[largest] = 0
    assert np.allclose(found.account, SKETCHER.of(left), atol=1e-2)


@pytest.mark.parametrize("lie", ["flipped", "scaled", "random"])
def test_a_packet_that_is_no_part_of_the_work_is_seen(lie: str) -> None:
    work = change()
    largest = np.argsort(-np.abs(work))[:200]
    values = work[largest]
    if lie == "flipped":
        values = -values
    elif lie == "scaled":
        values = values * 10
    else:
        values = np.random.default_rng(9).standard_normal(200).astype(np.float32) * np.float32(np.abs(values).mean() * 3)
    packet = SKETCHER.of_some(largest, values)
    assert accounts.check(np.zeros(SIZE, np.float32), SKETCHER.of(work), packet, float(np.linalg.norm(values))).wrong


def frame(values: np.ndarray, **changed: object) -> bytes:
    packet = Packet.write(LAYOUT, Form.DENSE, [values], count=LAYOUT.numel, values=Coding.FLOAT32)
    fields = {
        "result": 5,
        "version": 2,
        "packet": packet.nbytes,
        "buffers": 0,
        "samples": 64,
        "steps": 2,
        "loss": 0.5,
        "seconds": 1.0,
    } | changed
    sketch = SKETCHER.of(np.where(np.isfinite(values), values, np.float32(0)))
    return answers.write(answers.Head(**fields), packet.data, np.zeros(0), sketch)  # type: ignore[arg-type]


WANTED = Wanted(
    result=5, version=2, steps=2, batch=32, layout=LAYOUT, buffers=0, compress=NoCompression(), usual=float(np.linalg.norm(change()))
)


def test_an_honest_answer_is_admitted() -> None:
    found = admit(frame(change()), WANTED)
    assert found.positions is None and (found.values == change()).all()


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "schema"),
        (b"garbage" * 100, "schema"),
        (frame(change())[:-1], "schema"),
        (frame(change(), result=6), "other result"),
        (frame(change(), version=1), "other version"),
        (frame(change(), steps=3), "steps"),
        (frame(change(), samples=65), "steps"),
        (frame(change(), samples=0), "steps"),
        (frame(np.full(LAYOUT.numel, np.nan, np.float32)), "not finite"),
        (frame(np.full(LAYOUT.numel, np.inf, np.float32)), "not finite"),
        (frame(change() * np.float32(1000)), "norm"),
    ],
)
def test_each_refusal_has_its_name(data: bytes, reason: str) -> None:
    with pytest.raises(Refused) as caught:
        admit(data, WANTED)
    assert caught.value.reason == reason


def test_a_packet_of_another_kind_or_model_is_refused() -> None:
    other = Wanted(**{**WANTED.__dict__, "compress": Dgc()})
    with pytest.raises(Refused, match="expected"):
        admit(frame(change()), other)
    smaller = Wanted(**{**WANTED.__dict__, "layout": Layout.of({"weight": (30, 40)})})
    with pytest.raises(Refused) as caught:
        admit(frame(change()), smaller)
    assert caught.value.reason == "packet"


def test_the_usual_size_is_known_after_some_answers() -> None:
    assert usual_norm(np.ones(7)) is None
    assert usual_norm(np.array([1.0] * 7 + [1e9])) == 1.0

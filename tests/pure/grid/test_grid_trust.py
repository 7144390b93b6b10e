"""How far strangers are trusted: whose work is compared, who is wrong when answers differ, what is refused on arrival."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from laminar.grid.trust import accounts
from laminar.grid.trust.accounts import Account
from laminar.grid.trust.admission import Refused, Wanted, admit, usual_norm
from laminar.grid.trust.agreement import Given, judge, magnitudes
from laminar.grid.trust.reputation import TRUSTED, must_check
from laminar.grid.wire import answer as answers
from laminar.grid.wire.sketch import SIZE, Sketcher, folded, sums_of
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


def sent_of(whole: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
    at = np.sort(np.argsort(-np.abs(whole))[:count])
    return at, whole[at]


@pytest.mark.parametrize("kept", [0.0, 1.0, 5.0])
def test_an_honest_packet_is_a_part_of_what_the_node_has(kept: float) -> None:
    work, before = change(), change(1) * np.float32(kept)
    at, values = sent_of(before + work, 60)
    account = Account(SKETCHER.of(before)).worked(SKETCHER.of(work))
    found = accounts.check(account, SKETCHER.of_some(at, values), float(np.linalg.norm(values)))
    assert found.wrong == ""
    left = before + work
    left[at] = 0
    assert np.allclose(found.account.kept, SKETCHER.of(left), atol=1e-2)


def lied(lie: str, values: np.ndarray, dice: np.random.Generator) -> np.ndarray:
    other = {
        "flipped": -values,
        "scaled": values * 10,
        "random": dice.standard_normal(len(values)).astype(np.float32) * np.float32(np.abs(values).mean() * 3),
        "permuted": dice.permutation(values),
        "nothing": values * 0,
    }
    return other[lie]


@pytest.mark.parametrize("lie", ["flipped", "scaled", "random", "nothing"])
def test_a_packet_that_is_no_part_of_the_work_is_seen(lie: str) -> None:
    work = change()
    at, honest = sent_of(work, 200)
    values = lied(lie, honest, np.random.default_rng(9))
    account = Account.empty(SIZE).worked(SKETCHER.of(work))
    assert accounts.check(account, SKETCHER.of_some(at, values), float(np.linalg.norm(values))).wrong


@pytest.mark.parametrize("momentum", [0.0, 0.9])
@pytest.mark.parametrize("lie", [None, "flipped", "random", "permuted"])
def test_lies_below_the_noise_are_seen_when_they_are_added_up(lie: str | None, momentum: float) -> None:
    """One value of five hundred is sent, so a packet is a tenth of what is kept back: no single lie shows."""
    dice, numel = np.random.default_rng(3), 20_000
    sketcher, kept, moving = Sketcher(numel, 1), np.zeros(numel, np.float32), np.zeros(numel, np.float32)
    account, drift = Account.empty(sketcher.sums), dice.standard_normal(numel).astype(np.float32)
    for turn in range(60):
        work = drift + 3 * dice.standard_normal(numel).astype(np.float32)
        moving = np.float32(momentum) * moving + work
        kept += moving
        at, values = sent_of(kept, numel // 500)
        kept[at] = moving[at] = 0
        if lie is not None and turn > 5:
            values = lied(lie, values, dice)
        checked = accounts.check(account.worked(sketcher.of(work), momentum), sketcher.of_some(at, values), float(np.linalg.norm(values)))
        account = Account.from_bytes(checked.account.to_bytes(), sketcher.sums)
        if checked.wrong:
            break
    assert bool(checked.wrong) == (lie is not None), (turn, checked)


def test_what_was_not_used_is_on_the_account_once_the_node_knows_of_it() -> None:
    kept, packet = SKETCHER.of(change()), SKETCHER.of(change(1))
    account = Account(kept, doubt=2.0).with_back(packet, told=False).with_back(packet, told=False)
    read = Account.from_bytes(account.to_bytes(), SIZE)
    assert (read.kept == kept).all() and read.doubt == 2.0
    assert read.told().kept == pytest.approx(kept + 2 * packet, abs=1e-4) and read.told().returned is None
    assert not Account.from_bytes(b"", SIZE).kept.any() and not Account.from_bytes(account.to_bytes(), 512).kept.any()


def test_buffers_that_differ_are_no_agreement() -> None:
    sketcher, honest = Sketcher(400, 8, SIZE), np.abs(np.random.default_rng(0).standard_normal(400)) * np.repeat([1e-3, 1, 50, 1e4], 100)

    def with_buffers(number: int, buffers: np.ndarray) -> Given:
        return Given(number, f"node {number}", SKETCHER.of(change()), buffers=sketcher.of(magnitudes(buffers)))

    lie = honest.copy()
    lie[100:140] = 0
    found = judge([with_buffers(1, honest), with_buffers(2, lie), with_buffers(3, honest * 1.0001)], 3, 0.1)
    assert (found.good, found.bad) == ((1, 3), (2,))


def test_larger_models_have_larger_sketches_and_each_holds_the_smaller_one() -> None:
    assert [sums_of(numel) for numel in (10, 1 << 16, 1 << 17, 1 << 20, 1 << 30)] == [SIZE, SIZE, 512, 4096, 4096]
    values = np.random.default_rng(0).standard_normal(5000).astype(np.float32)
    assert folded(Sketcher(5000, 3, 2048).of(values)) == pytest.approx(Sketcher(5000, 3, SIZE).of(values), abs=1e-4)


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

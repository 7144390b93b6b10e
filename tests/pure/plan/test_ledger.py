"""The ledger: kept entries, corrections from them, errors and order of predictions."""

from __future__ import annotations

import random
import sqlite3
import threading
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from laminar.core.errors import LaminarError
from laminar.plan.correction import NONE, by_both, by_ratio, correction, wrong_by
from laminar.plan.ledger import Entry, Ledger, corrections, default_path
from laminar.plan.rank_correlation import kendall_tau

ENTRY = Entry(1.7e9, "m1", "2.13.0", "base", "d1", '{"kind": "sync"}', "sync", 2, 64, 0.010, 0.011, 0.012)


def entries(kind: str, ratios: list[float], workers: int = 2) -> list[Entry]:
    return [replace(ENTRY, kind=kind, workers=workers, measured_seconds=0.010 * ratio) for ratio in ratios]


def test_what_was_added_is_there_when_it_is_opened_again(tmp_path: Path) -> None:
    path = tmp_path / "new" / "ledger.sqlite"
    written = [ENTRY, replace(ENTRY, kind="mesh", calibration=True, quiet=False, layer="Größe '; --")]
    ledger = Ledger.open(path)
    for entry in written:
        ledger.add(entry)
    ledger.close()
    again = Ledger.open(path)
    assert again.all() == written
    assert again.all()[1].calibration is True and again.all()[1].quiet is False
    again.close()


def test_the_place_is_the_users_cache_or_what_the_environment_says(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("LAMINAR_LEDGER", raising=False)
    monkeypatch.delenv("LAMINAR_CACHE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert default_path() == tmp_path / "laminar" / "ledger.sqlite"
    monkeypatch.setenv("LAMINAR_LEDGER", str(tmp_path / "mine.sqlite"))
    assert default_path() == tmp_path / "mine.sqlite"
    ledger = Ledger.open()
    assert ledger.path == tmp_path / "mine.sqlite"
    ledger.close()


def test_a_step_that_takes_no_time_is_refused(tmp_path: Path) -> None:
    ledger = Ledger.open(tmp_path / "l.sqlite")
    with pytest.raises(ValueError, match="takes some time"):
        ledger.add(replace(ENTRY, measured_seconds=0.0))
    ledger.close()


def test_several_write_at_once(tmp_path: Path) -> None:
    path = tmp_path / "l.sqlite"
    Ledger.open(path).close()

    def write(number: int) -> None:
        ledger = Ledger.open(path)
        for _ in range(10):
            ledger.add(replace(ENTRY, workers=number))
        ledger.close()

    threads = [threading.Thread(target=write, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    ledger = Ledger.open(path)
    assert len(ledger.all()) == 40
    ledger.close()


def test_a_place_where_no_file_can_be(tmp_path: Path) -> None:
    """Whoever wants the ledger itself is told; whoever only learns from it goes on without."""
    (tmp_path / "file").write_text("")
    path = tmp_path / "file" / "l.sqlite"
    with pytest.raises(LaminarError) as caught:
        Ledger.open(path)
    assert caught.value.code == "L302" and "LAMINAR_LEDGER" in (caught.value.hint or "")
    ledger = Ledger.at_hand(path)
    assert str(path) in ledger.notes[0] and ledger.all() == [] and not ledger.corrections("pc", "2")
    ledger.add(ENTRY)
    ledger.close()
    assert not Path(":memory:").exists()
    with_file = Ledger.at_hand(tmp_path / "l.sqlite")
    assert not with_file.notes and with_file.path == tmp_path / "l.sqlite"
    with_file.close()


def test_a_file_that_is_no_database_is_set_aside(tmp_path: Path) -> None:
    path = tmp_path / "l.sqlite"
    for number in (1, 2):
        path.write_bytes(b"this is not a database, whatever its name may say " * 100)
        ledger = Ledger.open(path)
        assert ledger.all() == []
        assert "damaged" in ledger.notes[0]
        ledger.add(ENTRY)
        ledger.close()
        assert (tmp_path / f"l.sqlite.damaged-{number}").read_bytes().startswith(b"this is not")


def test_damage_that_is_found_while_reading(tmp_path: Path) -> None:
    path = tmp_path / "l.sqlite"
    ledger = Ledger.open(path)
    for _ in range(200):
        ledger.add(ENTRY)
    ledger.close()
    with sqlite3.connect(path) as db:
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    db.close()
    data = bytearray(path.read_bytes())
    data[8192:] = b"\xff" * (len(data) - 8192)
    path.write_bytes(data)
    ledger = Ledger.open(path)
    assert ledger.all() == []
    ledger.add(ENTRY)
    assert ledger.all() == [ENTRY]
    assert ledger.notes
    ledger.close()


def test_a_place_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "l.sqlite").mkdir()
    with pytest.raises(LaminarError, match="cannot be used") as caught:
        Ledger.open(tmp_path / "l.sqlite")
    assert caught.value.code == "L302"
    assert "LAMINAR_LEDGER" in caught.value.hint


# Corrections


def test_a_correction_is_the_median_of_the_newest_and_needs_two() -> None:
    found = corrections([*entries("sync", [9.0] * 5 + [1.1, 1.2, 1.3, 1.2] * 5), *entries("mesh", [2.0]), *entries("sync", [0.5, 0.7], 4)])
    learned = {what: one(1.0) for what, one in found.items()}
    assert learned == {("sync", 2): pytest.approx(1.2, rel=0.005), ("sync", 4): pytest.approx(0.6, rel=0.02)}


def test_few_records_teach_less_than_many_and_such_as_contradict_each_other_nothing() -> None:
    few, more, many = (by_ratio([(1.0, 1.2)] * count).times for count in (2, 5, 20))
    assert 1.15 < few < more < many < 1.2
    alike, unlike = by_ratio([(1.0, 1.2)] * 3), by_ratio([(1.0, 1.1), (1.0, 1.2), (1.0, 1.5)])
    assert 1.0 < unlike.times < alike.times
    assert correction([(1.0, 1.3), (1.0, 0.8), (1.0, 1.05)]) == NONE, "what one teaches makes the others worse"
    assert by_ratio([(1.0, 1.0), (1.0, 1.0)]) == NONE


@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(st.floats(1e-4, 1.0), st.floats(0.5, 2.0)), min_size=3, max_size=8))
def test_nothing_is_learned_that_would_not_have_helped_nor_beyond_all_that_was_seen(some: list[tuple[float, float]]) -> None:
    """Helped: each record, as the others would have it, on average."""
    pairs = [(raw, raw * ratio) for raw, ratio in some]
    learned = correction(pairs)
    assert learned is not None
    ratios = [ratio for _, ratio in some]
    for raw in (1e-5, 1e-2, 10.0):
        assert min(1.0, *ratios) - 1e-9 <= learned(raw) / raw <= max(1.0, *ratios) + 1e-9
    ways = (by_ratio, lambda others: by_both(others) or by_ratio(others))
    without = wrong_by(lambda _: NONE, pairs)
    if all(wrong_by(way, pairs) > without + 1e-5 for way in ways):
        assert learned == NONE


def test_a_correction_is_no_more_than_threefold() -> None:
    found = corrections([*entries("sync", [50.0, 60.0]), *entries("mesh", [0.01, 0.02])])
    assert {what: one(1.0) for what, one in found.items()} == {("sync", 2): 3.0, ("mesh", 2): 0.3}


def test_what_is_a_share_and_what_is_the_same_for_every_step_are_told_apart() -> None:
    pairs = [(raw, 1.2 * raw + 0.002) for raw in (0.001, 0.004, 0.050)]
    found = correction(pairs)
    assert found is not None and found.times == pytest.approx(1.2) and found.plus == pytest.approx(0.002)
    assert correction(pairs[:1]) is None
    alike = correction([(0.010, 0.012), (0.011, 0.0132), (0.012, 0.0144)])
    assert alike is not None and alike.times == pytest.approx(1.2, rel=0.01) and alike.plus == 0.0
    less = correction([(0.001, 0.0005), (0.010, 0.009), (0.100, 0.11)])  # nothing is ever taken away from every step
    assert less is not None and less.plus == 0.0


def test_what_is_the_same_for_every_meeting_is_not_taken_for_a_part_of_every_step() -> None:
    """Jobs whose workers meet after 5, 11 and 22 batches teach what one whose workers meet after 64 takes."""
    measured = {beat: raw + 0.010 / beat for beat, raw in ((5.0, 0.001), (11.0, 0.004), (22.0, 0.020))}
    some = [
        replace(ENTRY, kind="averaging", beat=beat, raw_seconds=raw, measured_seconds=measured[beat])
        for beat, raw in ((5.0, 0.001), (11.0, 0.004), (22.0, 0.020))
    ]
    learned = corrections(some)["averaging", 2]
    assert learned.plus == pytest.approx(0.010)
    assert learned(0.002, 64.0) == pytest.approx(0.002 + 0.010 / 64) and learned(0.002, 5.0) == pytest.approx(0.004)


def test_a_job_far_from_all_others_is_corrected_by_no_more_than_any_of_them() -> None:
    found = correction([(0.016, 0.020), (0.060, 0.062), (0.270, 0.272)])
    assert found is not None and found.plus > 0.001, "so much, and a step of a millisecond would look several times as long"
    assert found(0.001) == pytest.approx(0.001 * 20 / 16)
    assert found(0.030) == pytest.approx(found.times * 0.030 + found.plus)
    assert found(10.0) == pytest.approx(10.0 * 272 / 270)


def test_corrections_are_of_this_machine_and_this_torch(tmp_path: Path) -> None:
    ledger = Ledger.open(tmp_path / "l.sqlite")
    for entry in (*[replace(ENTRY, machine="m2")] * 3, *[replace(ENTRY, torch="2.14.0")] * 3, *[replace(ENTRY, calibration=True)] * 2):
        ledger.add(entry)
    assert ledger.corrections("m1", "2.13.0")["sync", 2](1.0) == pytest.approx(1.2, rel=0.02)
    assert ledger.corrections("m3", "2.13.0") == {}
    assert ledger.corrections("m1", "2.13.0", "newer code") == {}, "runs of an older Laminar say nothing of this one"
    ledger.close()


def test_what_a_busy_machine_took_corrects_only_who_asked_for_it_and_has_nothing_better(tmp_path: Path) -> None:
    ledger = Ledger.open(tmp_path / "l.sqlite")
    busy = replace(ENTRY, measured_seconds=0.030, quiet=False)
    for entry in (*[ENTRY] * 2, *[busy] * 5, *[replace(busy, kind="mesh")] * 2):
        ledger.add(entry)
    calm, all_of_them = (ledger.corrections("m1", "2.13.0", also_busy=also) for also in (False, True))
    quiet = pytest.approx(1.2, rel=0.02)
    assert {what: made(1.0) for what, made in calm.items()} == {("sync", 2): quiet}
    assert {what: made(1.0) for what, made in all_of_them.items()} == {("sync", 2): quiet, ("mesh", 2): pytest.approx(3.0, rel=0.01)}
    ledger.close()


def test_corrected_predictions_are_nearer(tmp_path: Path) -> None:
    draw = random.Random(1)
    ledger = Ledger.open(tmp_path / "l.sqlite")
    errors = []
    for _ in range(30):
        raw = draw.uniform(0.01, 0.05)
        predicted = ledger.corrections("m1", "2.13.0").get(("sync", 2), NONE)(raw)
        measured = raw * 1.5 * draw.lognormvariate(0, 0.05)
        errors.append(abs(predicted - measured) / measured)
        ledger.add(replace(ENTRY, raw_seconds=raw, predicted_seconds=predicted, measured_seconds=measured))
    assert min(errors[:2]) > 0.2
    assert max(errors[2:]) < 0.2
    ledger.close()


# Check


def plans(predicted: list[float], measured: list[float], **more: object) -> list[Entry]:
    return [
        replace(ENTRY, strategy=f"plan {i}", predicted_seconds=p, measured_seconds=m, **more)  # type: ignore[arg-type]
        for i, (p, m) in enumerate(zip(predicted, measured, strict=True))
    ]


def checked(tmp_path: Path, written: list[Entry]) -> tuple[str, dict[str, object]]:
    ledger = Ledger.open(tmp_path / "l.sqlite")
    for entry in written:
        ledger.add(entry)
    found = ledger.check()
    ledger.close()
    return found.text, found.to_json()


def test_an_empty_ledger_says_how_to_fill_it(tmp_path: Path) -> None:
    text, found = checked(tmp_path, [])
    assert "laminar build --strategy auto" in text
    assert found["count"] == 0
    assert found["median"] is None and found["maximum"] is None  # 0.0 would say that predictions were right
    assert found["tau"] is None


def test_errors_by_kind(tmp_path: Path) -> None:
    written = [*plans([1.1, 1.2], [1.0, 1.0]), *plans([0.6], [1.0], kind="mesh")]
    text, found = checked(tmp_path, [*written, replace(ENTRY, predicted_seconds=99.0, calibration=True)])
    assert (found["count"], found["median"], found["maximum"]) == (3, pytest.approx(0.2), pytest.approx(0.4))
    assert text.splitlines()[0] == "3 predictions: wrong by 20% in the middle, 40% at most"
    assert "mesh  1 prediction: wrong by 40%" in text
    assert "order of plans: not known" in text


def test_what_was_measured_beside_others_is_counted_and_told(tmp_path: Path) -> None:
    calm, busy = plans([1.1], [1.0]), [replace(one, quiet=False) for one in plans([0.5, 0.6], [1.0, 1.0], kind="mesh")]
    text, found = checked(tmp_path, [*calm, *busy])
    assert found["busy"] == 2 and "2 of 3 measured while other programs were at work" in text
    text, found = checked(tmp_path / "calm", calm)
    assert found["busy"] == 0 and "at work" not in text


def test_a_good_order_is_told_and_a_bad_one_warned_of(tmp_path: Path) -> None:
    good = plans([1.0, 2.0, 3.0, 4.0], [1.5, 2.5, 3.5, 4.5])
    text, found = checked(tmp_path, good)
    assert found["tau"] == 1.0
    assert "warning" not in text
    bad = plans([1.0, 2.0, 3.0], [3.0, 2.0, 1.0], model="d2")
    text, found = checked(tmp_path, bad)
    assert found["tau"] == 0.0  # the mean of 1 and -1
    assert found["jobs"] == 2
    assert "warning: predictions do not order plans well" in text


def test_only_plans_of_one_job_are_compared_and_of_one_plan_the_newest_run(tmp_path: Path) -> None:
    written = [*plans([1.0, 2.0], [2.0, 1.0]), *plans([1.0, 2.0], [2.0, 1.0], machine="m2"), *plans([1.0], [9.0], batch=128)]
    assert checked(tmp_path, written)[1]["tau"] is None
    again = [*plans([1.0, 2.0, 3.0], [3.0, 2.0, 1.0], layer="other"), *plans([1.0, 2.0, 3.0], [1.0, 2.0, 3.0], layer="other")]
    assert checked(tmp_path, again)[1]["tau"] == 1.0


# Kendall's tau


def test_known_values() -> None:
    assert kendall_tau([1, 2, 3, 4], [1, 2, 3, 4]) == 1.0
    assert kendall_tau([1, 2, 3, 4], [4, 3, 2, 1]) == -1.0
    assert kendall_tau([12, 2, 1, 12, 2], [1, 4, 7, 1, 0]) == pytest.approx(-0.4714045207910316)  # as scipy.stats.kendalltau has it
    assert kendall_tau([1, 1, 1], [1, 2, 3]) is None
    assert kendall_tau([1], [2]) is None
    with pytest.raises(ValueError, match="as many"):
        kendall_tau([1, 2], [1])


@given(st.lists(st.tuples(st.integers(-5, 5), st.integers(-5, 5)), min_size=2, max_size=12))
def test_it_is_symmetric_bounded_and_turns_with_the_order(pairs: list[tuple[int, int]]) -> None:
    a, b = [float(x) for x, _ in pairs], [float(y) for _, y in pairs]
    found = kendall_tau(a, b)
    assert found == kendall_tau(b, a)
    if found is not None:
        assert abs(found) <= 1 + 1e-12
        assert kendall_tau(a, [-y for y in b]) == pytest.approx(-found)

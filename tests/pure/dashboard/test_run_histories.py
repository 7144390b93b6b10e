"""Histories: event files as columns, read while they grow, whatever state they are in."""

from __future__ import annotations

import json
import math
import os
from pathlib import Path

import numpy as np
import pytest

from laminar.core.events import EventLog
from laminar.dashboard.curves import curves
from laminar.dashboard.history import CHUNK, Histories, History
from laminar.dashboard.pages.runs import _csv as as_csv
from laminar.dashboard.runs import news, read_run
from laminar.dashboard.workers import shares, utilisation


def step(n: int, **more) -> dict:
    return {"event": "step", "step": n, "epoch": n // 10, "loss": 1 / (n + 1), "lr": 0.1, "t": 1000.0 + n, **more}


def epoch(n: int, **more) -> dict:
    figures = {"train": {"loss": 0.5}, "test": {"loss": 0.4, "accuracy": 0.8}, "seconds": 10.0, "samples_per_second": 64.0}
    return {"event": "epoch", "epoch": n, "epochs": 3, "step": 10 * (n + 1), "t": 1009.5 + 10 * n, **figures, **more}


START = {"event": "start", "step": 0, "steps": 30, "epoch": 0, "epochs": 3, "samples": 640, "t": 1000.0}


def write(path: Path, *events: dict | bytes, mode: str = "ab") -> None:
    with open(path, mode) as file:
        for event in events:
            file.write(event if isinstance(event, bytes) else json.dumps(event).encode() + b"\n")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "events.jsonl"


def test_a_file_is_read_on_as_it_grows(path):
    history = History(path)
    assert not history.refresh() and history.steps == 0
    write(path, START, step(0))
    assert history.refresh() and (history.steps, len(history.others), history.generation) == (1, 1, 1)
    assert not history.refresh()
    write(path, step(1), epoch(0))
    assert history.refresh() and history.steps == 2
    assert history.column("loss").tolist() == [1.0, 0.5]
    assert history.last == 1009.5


def test_a_half_line_waits_for_its_end(path):
    history = History(path)
    line = json.dumps(step(0)).encode() + b"\n"
    write(path, START, line[:20])
    history.refresh()
    assert (history.steps, history.damaged) == (0, 0)
    write(path, line[20:])
    history.refresh()
    assert (history.steps, history.damaged) == (1, 0)


@pytest.mark.parametrize(
    "garbage",
    [
        b"\x00\xff\xfe\n",
        b"not json\n",
        b"[1, 2]\n",
        b'"text"\n',
        b"{}\n",
        b'{"event": 3}\n',
        b'{"event": "step", "step": {"a": 1}\n',
        b"[" * 100_000 + b"\n",
        b'{"event":"step","step":1' + b"\n",
        b'{"event":"note","why":"\xff"}\n',
        b'{"event":"note","why":"\\ud800"}\n',
        b'{"event":"note","why":' + b"[" * 100_000 + b"]" * 100_000 + b"}\n",
        b'{"event":"step"},{"event":"note"}\n',
    ],
)
def test_a_damaged_line_is_counted_and_passed_over(path, garbage):
    write(path, START, step(0), garbage, step(1), epoch(0))
    history = History(path)
    history.refresh()
    assert history.damaged == 1
    assert history.column("step").tolist() == [0.0, 1.0]
    assert len(history.others) == 2
    assert read_run(path.parent, live=False).epoch == 0, "the list of runs reads it too"


def test_two_halves_that_would_be_one_line_are_two_damaged_ones(path):
    write(path, START, b'{"event":"note","why":"a\n', b'b"}\n', step(0))
    history = History(path)
    history.refresh()
    assert (history.damaged, history.steps, history.others) == (2, 1, [START])


def test_what_is_json_but_not_what_is_expected_is_drawn_around(path, tmp_path):
    """Each of these was once an answer 500, or a warning."""
    workers = [step(n, worker=n % 2) for n in range(8)]
    odd = {"test": [1], "train": "x", "team": {"rounds": 3, "missing": {"0": "x", "1": None}}, "shares": [None, "a"], "bytes": "x"}
    write(path, START, *workers, step(8, worker=1e300, t=10**400), step(9, worker=-1), epoch(0, **odd), epoch(1))
    (tmp_path / "run.json").write_bytes(b'{"layer": "\xff"}')
    history = History(path)
    history.refresh()
    drawn = {(s.chart, s.name) for s in curves(history, "time", 100)}
    assert {("accuracy", "test"), ("gradients_by_worker", "worker 1")} <= drawn
    assert [row["part"] for row in shares(history)] == [0.5, 0.5]
    assert as_csv(history).splitlines()[-1].endswith(",64.0,0.5,0.4,0.8")
    told = read_run(tmp_path, live=False)
    assert (told.layer, told.epoch) == (None, 1)
    write(path, {"event": "note", "t": 10**400, "step": 1e300, "epoch": 1})
    write(path, {"event": "note", "t": 1.0})
    told = read_run(tmp_path, live=False)
    assert (told.step, told.last) == (None, 1019.5) and history.refresh() and history.last == 1019.5


def test_figures_that_json_has_no_word_for(path):
    write(path, START, b'{"event":"step","step":0,"epoch":0,"loss":NaN,"lr":0.1,"t":1.0}\n', step(1, loss="high", t=None), step(2))
    history = History(path)
    history.refresh()
    assert history.damaged == 0 and history.steps == 3
    assert [math.isnan(v) for v in history.column("loss")] == [True, True, False]
    assert [s.of for s in curves(history, "step", 100) if s.chart == "loss"] == [1]


def test_a_resumed_run_cuts_off_what_came_after_its_checkpoint(path):
    with EventLog(path) as log:
        log(START)
        log(step(0))
        size = log.flush()
        log(step(1, loss=7.0))
        log.flush()
        history = History(path)
        history.refresh()
        assert history.steps == 2
        log.truncate(size)
        log({"event": "resume", "step": 1, "steps": 30, "epoch": 0, "epochs": 3, "why": "interrupted", "t": 2000.0})
        log(step(1, loss=7.0, t=2001.0))  # longer than before: the size alone does not tell
        log(step(2, loss=0.3, t=2002.0))
        log.flush()
        history.refresh()
    assert history.generation == 2
    assert history.column("step").tolist() == [0.0, 1.0, 2.0]
    assert history.column("t").tolist()[1:] == [2001.0, 2002.0]


def test_a_file_that_is_replaced_or_deleted(path, tmp_path):
    write(path, START, step(0), step(1))
    history = History(path)
    history.refresh()
    other = tmp_path / "other"
    write(other, START, step(5), step(6), step(7))
    os.replace(other, path)
    assert history.refresh() and history.column("step").tolist() == [5.0, 6.0, 7.0]
    path.unlink()
    assert history.refresh() and history.steps == 0
    assert not history.refresh()


def test_lines_across_chunks(path):
    count = CHUNK // 60
    write(path, START, *(step(n) for n in range(count)))
    history = History(path)
    history.refresh()
    assert path.stat().st_size > CHUNK
    assert history.steps == count and history.damaged == 0
    assert np.array_equal(history.column("step"), np.arange(count))


def test_news_are_told_once(path):
    history = History(path)
    write(path, START, step(0))
    history.refresh()
    first = news(history, None)
    assert first is not None and first["last"]["loss"] == 1.0
    assert news(history, first["seen"]) is None
    write(path, epoch(0))
    history.refresh()
    second = news(history, first["seen"])
    assert second is not None and [e["event"] for e in second["events"]] == ["epoch"]
    path.write_bytes(b"")
    history.refresh()
    third = news(history, second["seen"])
    assert third is not None and third["begun"]


def test_curves_over_steps_epochs_and_seconds(path):
    write(path, START, *(step(n) for n in range(10)), epoch(0))
    history = History(path)
    history.refresh()
    by = {axis: {(s.chart, s.name): s for s in curves(history, axis, 100)} for axis in ("step", "epoch", "time")}
    assert by["step"]["loss", "each step"].x == [float(n + 1) for n in range(10)]
    assert by["epoch"]["loss", "each step"].x == pytest.approx([(n + 1) / 10 for n in range(10)])
    assert by["time"]["loss", "each step"].x == [float(n) for n in range(10)]
    assert by["epoch"]["accuracy", "test"].x == [1.0] and by["epoch"]["accuracy", "test"].y == [0.8]
    assert by["step"]["accuracy", "test"].x == [10.0]
    rate = by["time"]["samples_per_second", "as it went"].y
    assert rate == pytest.approx([64.0] * len(rate)), "10 steps an epoch of 640 samples, one a second"
    near = {(s.chart, s.name): s for s in curves(history, "step", 100, 3, 5)}
    assert near["loss", "each step"].x == [2.0, 3.0, 4.0, 5.0, 6.0], "one more on each side, so that lines reach the edge"


def test_the_time_between_two_attempts_does_not_count(path):
    resume = {"event": "resume", "step": 1, "steps": 30, "epoch": 0, "epochs": 3, "why": "x", "t": 5000.0}
    write(
        path, START, step(0), {"event": "checkpoint", "step": 1, "epoch": 0, "why": "interrupted", "t": 1002.0}, resume, step(1, t=5001.0)
    )
    history = History(path)
    history.refresh()
    found = next(s for s in curves(history, "time", 100) if s.name == "each step" and s.chart == "loss")
    assert found.x == [0.0, 3.0]


def test_what_workers_did(path):
    workers = [{"event": "worker", "role": "worker", "rank": n, "pid": 10 + n, "host": "here", "t": 1.0} for n in (0, 1)]
    end = {"event": "end", "team": {"rounds": 10, "missing": {"1": 5}}, "t": 9.0}
    write(path, START, *workers, *(step(n, worker=str(n % 4 // 3)) for n in range(8)), end)
    history = History(path)
    history.refresh()
    assert history.damaged == 0
    rows = shares(history)
    assert [(w["rank"], w["gradients"], w["part"], w["took_part"]) for w in rows] == [(0, 6, 0.75, 1.0), (1, 2, 0.25, 0.5)]
    assert {s.name for s in curves(history, "time", 50) if s.chart == "gradients_by_worker"} == {"worker 0", "worker 1"}


def test_how_busy_workers_of_a_team_were(path):
    write(path, START, epoch(0, busy=[1.0, 0.5], seconds=1.0), epoch(1, busy=[0.5, 0.9, "x"], seconds=3.0), epoch(2, busy={"0": 1}))
    history = History(path)
    history.refresh()
    assert [(w["rank"], w["busy"]) for w in shares(history)] == [(0, pytest.approx(0.625)), (1, pytest.approx(0.8))], (
        "long epochs count more"
    )
    drawn = {s.name: (s.x, s.y) for s in curves(history, "epoch", 50) if s.chart == "busy"}
    assert drawn == {"worker 0": ([1.0, 2.0], [1.0, 0.5]), "worker 1": ([1.0, 2.0], [0.5, 0.9])}


def test_how_busy_workers_of_servers_were(path):
    def team(computing: dict, waiting: dict) -> dict:
        return {"team": {"computing": computing, "waiting": waiting}}

    told = [
        epoch(0, **team({"0": 3.0}, {"0": 1.0})),
        epoch(1, **team({"0": 4.0, "1": 2.0}, {"0": 2.0, "1": 0.0})),
        epoch(2, **team({"0": 3.5, "1": 3.0, "²": 1.0, "2": 1.0, "3": 0.0}, {"0": 2.0, "1": 1.0, "2": "x", "3": 0.0})),
    ]
    write(path, START, *told)
    history = History(path)
    history.refresh()
    parts = {rank: [None if math.isnan(part) else part for part in found] for rank, found in utilisation(told).items()}
    assert parts == {0: [0.75, 0.5, None], 1: [None, 1.0, 0.5], 3: [None, None, None]}, "a server that went back is passed over"
    assert {w["rank"]: round(w["busy"], 3) for w in shares(history)} == {0: 0.636, 1: 0.75}


def test_the_last_test_of_a_run_under_way_is_found_behind_thousands_of_steps(path):
    write(
        path,
        START,
        *(step(n) for n in range(200)),
        epoch(0),
        *(step(n, note='"test":') for n in range(200, 3000)),
        b'{"event":"epoch","test":',
    )
    assert read_run(path.parent, live=True).metrics == {"loss": 0.4, "accuracy": 0.8}
    write(path, b"{}}\n", *(step(n) for n in range(3000, 20_000)))
    assert read_run(path.parent, live=True).metrics == {}, "not for ever: a thousand runs are listed at once"


def test_memory_is_bounded(tmp_path, monkeypatch):
    monkeypatch.setattr("laminar.dashboard.history.ROWS_KEPT", 25)
    histories = Histories()
    for name in "abcd":
        write(tmp_path / name, *(step(n) for n in range(10)))
        histories.look(tmp_path / name, lambda history: history.steps)
    assert list(histories._known) == [tmp_path / "b", tmp_path / "c", tmp_path / "d"], "the one asked for longest ago was let go"
    assert histories.look(tmp_path / "a", lambda history: history.steps) == 10

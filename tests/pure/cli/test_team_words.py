"""What is said of several workers: while they train, at the end of an epoch, and when they come."""

from __future__ import annotations

import io
from typing import Any

import pytest
from rich.console import Console

from laminar.cli.bars import bars
from laminar.cli.progress import progress
from laminar.cli.team import Arrivals, pace, team_of, totals

STEP = {"workers": 4, "steps_per_second": 35.25, "samples_per_second": 9012.0, "bytes": 12_300_000, "staleness": 1.3}
END = {"workers": 4, "bytes": 12_300_000, "staleness": 1.304, "ages": {"0": 5, "12": 1}, "dropped": {"late": 2, "stale": 1}, "late": 2}


def worker(rank: int, pid: int, role: str = "worker") -> dict[str, Any]:
    return {"event": "worker", "layer": "strokes", "role": role, "rank": rank, "pid": pid, "host": "here"}


def test_the_pace_of_a_step() -> None:
    assert pace(STEP) == "4 workers, 35.2 steps/s, 9,012 samples/s, staleness 1.30, 12.3 MB sent"
    assert pace(STEP | {"steps_per_second": 0.25}).startswith("4 workers, 0.25 steps/s")
    assert pace({"workers": 2, "shares": [0.6667, 0.3333]}) == "2 workers, shares 67/33 %"
    assert pace({"workers": 5, "shares": {"0": 0.1, "1": 0.3, "2": 0.2, "4": 0.2, "7": 0.2}}) == "5 workers, shares 10 to 30 %"


def test_workers_at_rest_are_said() -> None:
    assert pace({"workers": 2, "resting": 1}) == "2 workers (1 at rest)"
    assert totals(team_of({"event": "epoch", "workers": 2, "bytes": None, "resting": 0.7319})) == "2 workers (0.73 at rest)"
    assert totals({"workers": 2, "resting": 0.0}) == totals({"workers": 2, "resting": 0.0004}) == "2 workers"


def test_what_is_not_known_is_not_said() -> None:
    assert pace({"workers": 2, "steps_per_second": None, "samples_per_second": None, "bytes": None, "staleness": None}) == "2 workers"
    assert totals({"workers": 2, "bytes": None, "dense_bytes": None}) == "2 workers"
    assert totals({"workers": 2, "staleness": 0.0, "ages": {"0": 9}, "dropped": {}, "late": 0, "bytes": 900}) == (
        "2 workers, staleness 0.00, 900 B sent"
    )


def test_the_totals_of_an_epoch_and_of_the_end() -> None:
    assert totals(END) == "4 workers, staleness 1.30 (at most 12), 12.3 MB sent, 2 late, 3 dropped"
    assert totals({"workers": 2, "bytes": 2_000, "dense_bytes": 400_000}) == "2 workers, 2.0 kB instead of 400.0 kB sent"
    assert totals({"workers": 2, "bytes": 2_000, "dense_bytes": 2_000}) == "2 workers, 2.0 kB sent"


def test_fewer_workers_than_were_asked_for_are_said_at_the_end() -> None:
    assert totals({"workers": 1, "wanted": 2, "bytes": 900}) == "1 of 2 workers, 900 B sent"
    assert totals({"workers": 3, "wanted": 2, "bytes": 900}) == "3 workers, 900 B sent"


def test_the_team_of_an_epoch_is_empty_where_one_process_trains() -> None:
    assert team_of({"event": "epoch", "epoch": 0}) == {}
    assert team_of({"event": "epoch", "team": END}) == END
    assert team_of({"event": "epoch", "workers": 2, "bytes": 5, "dense_bytes": 10}) == {"workers": 2, "bytes": 5, "dense_bytes": 10}


def test_all_that_start_are_said_once_and_each_that_joins_later() -> None:
    arrivals = Arrivals({"strokes": 2})
    events = [{"event": "start"}, worker(0, 9, "server"), worker(1, 10), worker(0, 11), worker(2, 12), worker(2, 12), {"event": "epoch"}]
    assert [arrivals.hear(event) for event in events] == [
        None,
        None,
        None,
        "2 workers and 1 server started",
        "worker 2 joined (process 12 on here)",
        None,  # it says hello again to a server that was started again
        None,
    ]


def test_workers_that_are_fewer_than_expected_are_said_at_the_first_epoch() -> None:
    arrivals = Arrivals({"strokes": 3})
    assert [arrivals.hear(event) for event in (worker(0, 1), worker(1, 2), {"event": "step"})] == [None, None, None]
    assert arrivals.hear({"event": "epoch"}) == "2 workers started"
    assert arrivals.hear({"event": "epoch"}) is None


def test_a_team_that_is_started_again_is_said_again() -> None:
    arrivals = Arrivals({"strokes": 1})
    assert arrivals.hear(worker(0, 1)) == "1 worker started"
    assert arrivals.hear({"event": "resume", "why": "…"}) is None
    assert arrivals.hear(worker(0, 2)) == "1 worker started"


def test_lines_have_the_team_behind_the_figures(capsys: pytest.CaptureFixture[str]) -> None:
    epoch = {"event": "epoch", "layer": "strokes", "epoch": 0, "epochs": 2, "test": {"loss": 0.5}, "samples_per_second": 10.0}
    with progress(quiet=False, workers={"strokes": 1}) as emit:
        for event in (worker(0, 1), {"event": "step", "layer": "strokes", "step": 3, "team": STEP}, epoch | {"team": END}, epoch):
            emit(event)
    assert capsys.readouterr().err.splitlines() == [
        "strokes: 1 worker started",
        f"strokes epoch 1/2: loss 0.5000, 10 samples/s; {totals(END)}",
        "strokes epoch 1/2: loss 0.5000, 10 samples/s",
    ]


def test_bars_have_a_line_for_the_team_until_the_layer_is_done() -> None:
    shown = io.StringIO()
    console = Console(file=shown, force_terminal=True, width=80)
    with bars(Arrivals({"strokes": 1}), console) as emit:
        emit({"event": "layer", "layer": "strokes"})
        emit({"event": "start", "layer": "strokes", "steps": 60})
        emit({"event": "step", "layer": "strokes", "step": 20, "team": STEP})
        emit({"event": "epoch", "layer": "strokes", "epoch": 0, "test": {"loss": 0.5}, "seconds": 2.0})
        emit._bars.refresh()  # type: ignore[attr-defined]
        said = shown.getvalue()
        shown.seek(0)
        shown.truncate()
        emit({"event": "layer-done", "layer": "strokes", "action": "built"})
    assert f"strokes: {pace(STEP)}" in said
    assert "epoch 1: loss 0.5000" in said
    assert "steps/s" not in shown.getvalue()

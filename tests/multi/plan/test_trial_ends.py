"""A trial ends when enough is known, also where Ctrl-C is ignored: under nohup, or in the background of a shell."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import pytest

from laminar.plan.trials import trial as trials
from laminar.plan.trials.open_layer import open_layer
from laminar.plan.trials.trial import Watch, trial
from laminar.stack.read import read
from laminar.store.store import Store
from laminar.train.strategies import Sync

STACK = """\
[stack]
name = "tried"

[data.digits]
source = "digits"
limit = 700

[[layer]]
name = "base"
model = "laminar:mlp"
data = "digits"
train = { epochs = 1, batch = 50, threads = 1 }
"""
EPOCHS = 60  # that would be trained if nobody ended it


def test_a_team_that_does_not_hear_ctrl_c_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "laminar.toml").write_text(STACK)
    monkeypatch.setattr(trials, "EPOCHS", EPOCHS)
    heard: list[dict[str, Any]] = []
    listen = Watch.__call__

    def count(watch: Watch, event: dict[str, Any]) -> None:
        heard.append(event)
        listen(watch, event)

    monkeypatch.setattr(Watch, "__call__", count)
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with open_layer(read(tmp_path / "laminar.toml"), Store.open(tmp_path / ".laminar"), "base") as (job, description):
            found = trial(job, description, Sync(workers=2), watch=Watch(steps=4, seconds=0.0))
    finally:
        signal.signal(signal.SIGINT, before)
    assert found is not None and found.seconds > 0
    assert max(event["epoch"] for event in heard if event["event"] == "step") < EPOCHS - 1
    assert not list((tmp_path / ".laminar" / "runs").iterdir())

"""A training that stops where weights hardly change stops after the same epoch, whoever has which part of them."""

from __future__ import annotations

import itertools
import math
import signal
from pathlib import Path

import pytest

from tests.multi.parallel.test_sync_builds import built, events, project, start, wait_for_step
from tests.thinned import thinned

DEEP = "{ hidden = [24, 24, 24] }"
TEAMS = {
    "sync": 'kind = "sync", workers = 2',
    "mesh": 'kind = "mesh", mesh = { rows = 2, cols = 2 }, split = { batch = "rows", hidden = "cols" }',
    "pipeline": 'kind = "pipeline", stages = 2, microbatches = 5',
    "crossed": 'kind = "pipeline", stages = 2, microbatches = 4, mesh = { cols = 2 }, split = { hidden = "cols" }',
    "sync over gloo": 'kind = "sync", workers = 2, link = "gloo"',
    "mesh over gloo": 'kind = "mesh", mesh = { cols = 2 }, split = { hidden = "cols" }, link = "gloo"',
}


def changes(folder: Path) -> list[float]:
    return [event["change"] for event in events(folder, "epoch")]


@pytest.fixture(scope="module")
def unstopped(tmp_path_factory: pytest.TempPathFactory) -> list[float]:
    """Of one process, in epochs with a rate that falls."""
    folder = project(tmp_path_factory.mktemp("stops") / "whole", epochs=8, args=DEEP, more=', schedule = "cosine"')
    built(folder)
    return changes(folder)


@pytest.mark.parametrize("team", thinned(list(TEAMS), keep=3))
def test_the_same_epoch_is_the_last(tmp_path: Path, unstopped: list[float], team: str) -> None:
    assert all(after < before for before, after in itertools.pairwise(unstopped))
    target = math.sqrt(unstopped[3] * unstopped[4])  # reached by the fifth epoch, and by none before it
    more = f', schedule = "cosine", target = {{ change = {target} }}, strategy = {{ {TEAMS[team]} }}'
    folder = project(tmp_path / "team", epochs=8, args=DEEP, more=more)
    layer = built(folder)
    assert changes(folder) == pytest.approx(unstopped[:5], rel=1e-4)
    assert "stopped after epoch 5 of 8: target reached in epoch 5, in which weights changed by" in " ".join(layer["notes"])


@pytest.mark.slow
@pytest.mark.parametrize("strategy", ['kind = "averaging", workers = 2, every = 7', 'kind = "downpour", workers = 2'])
def test_servers_tell_it_of_what_was_tested(tmp_path: Path, strategy: str) -> None:
    more = f", target = {{ change = 0.9 }}, strategy = {{ {strategy} }}"
    folder = project(tmp_path / "team", epochs=6, args=DEEP, more=more)
    built(folder)
    (first, *_) = changes(folder)
    assert 0 < first < 0.9  # reached by the first epoch that is tested
    assert events(folder, "end")[0]["why"].startswith("target reached")


@pytest.mark.parametrize("team", thinned(["crossed", "mesh", "sync", "mesh over gloo"], keep=2))
def test_a_run_that_goes_on_within_an_epoch_knows_what_its_weights_were(tmp_path: Path, team: str) -> None:
    """Members have parts of them, which a checkpoint puts together."""
    more = ", target = { change = 1e-9 }"
    epochs = 100  # so that the run does not end before the signal on a machine that stalls
    alone = project(tmp_path / "alone", epochs=epochs, args=DEEP, more=more)
    folder = project(tmp_path / "team", epochs=epochs, args=DEEP, more=f"{more}, strategy = {{ {TEAMS[team]} }}")
    process = start(folder, "build", "-q")
    wait_for_step(folder, process, 20)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=100)
    assert process.returncode == 130
    saved = events(folder, "saved")[-1]
    assert saved["why"] == "interrupted" and saved["bytes"] > 0
    built(alone), built(folder)
    assert events(folder, "resume")[0]["step"] == saved["step"]
    epoch = saved["step"] // 14
    assert changes(folder)[epoch] == pytest.approx(changes(alone)[epoch], rel=1e-2)  # the one that was interrupted
    assert changes(folder)[:3] == pytest.approx(changes(alone)[:3], rel=1e-3)
    assert None not in changes(folder)

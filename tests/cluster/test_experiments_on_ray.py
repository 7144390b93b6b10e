"""A sweep on Ray: where time is not measured, trials are trained side by side, each by a worker of a cluster."""

from __future__ import annotations

import os
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from laminar.experiments import files
from laminar.experiments.statistics import summary
from tests.multi.experiments.lab import Lab

SLOWER = float(os.environ.get("LAMINAR_TEST_SLOWER", "1"))
pytestmark = [
    pytest.mark.cluster,
    pytest.mark.timeout(150 * SLOWER, func_only=True),
    pytest.mark.skipif(find_spec("ray") is None or sys.platform != "linux", reason="needs Ray"),
]


def test_four_trials_on_a_ray_of_our_own(tmp_path: Path) -> None:
    lab = Lab(tmp_path / "lab")
    here = lab.run(name="here", axes={"lr": [0.1, 0.01]})
    trials = lab.run(name="there", axes={"lr": [0.2, 0.1, 0.05, 0.01]}, set={"seed": 1}, on="ray", at_once=2)
    assert [one.outcome for one in trials] == ["done"] * 4, [one.error for one in trials]
    assert len({one.layer for one in trials}) == 4
    assert not any(one.reused for one in trials)
    assert all(one.curve and lab.store.layer(one.layer).provenance["on"]["launcher"] == "ray" for one in trials)
    (first, second) = sorted(trials, key=lambda one: one.started)[:2]
    assert second.started < first.started + first.wall  # side by side
    told = summary(files.read_description(lab.store, "there"), trials)
    assert (told.done, told.planned, told.failures) == (4, 4, ())
    again = lab.run(name="again", axes={"lr": [0.1, 0.01]}, on="ray", at_once=2)
    assert [one.reused for one in again] == [True, True]  # what was trained here is the same layer there: no cluster is asked for it
    assert {one.layer for one in again} == {one.layer for one in here}

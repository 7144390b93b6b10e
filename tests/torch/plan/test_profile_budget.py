"""Measuring within a budget: what was measured is kept, what is not known is out of time, and nothing is looked into in vain."""

from __future__ import annotations

from pathlib import Path

import pytest
from torch import nn

from laminar.core.clock import FakeClock
from laminar.core.errors import LaminarError
from laminar.core.project_code import import_from
from laminar.parallel.split.named import names_of
from laminar.parallel.split.place import place
from laminar.parallel.split.rules import Rules
from laminar.plan.budget import Budget, OutOfTime
from laminar.plan.profile.kept import Kept
from laminar.plan.profile.loop_trial import in_time
from laminar.plan.profile.measure import Profile
from laminar.plan.profile.meter import Meter, Wanted
from laminar.plan.profile.model_code import code_of, plain_name
from laminar.plan.profile.timing import SHORT, Effort, timed
from laminar.plan.profile.traced_job import TracedJob
from laminar.train.splitting import Pipeline
from tests.torch.plan.profile_jobs import calm, job, made, profile


def test_what_there_was_time_for_is_kept_and_the_rest_is_out_of_time(tmp_path: Path) -> None:
    clock = FakeClock()
    meter = Meter(Kept(tmp_path / "kept.sqlite"), quiet=calm(), effort=SHORT)
    meter.budget = Budget(2.5, clock)

    def measure() -> float:
        clock.advance(1.0)
        return clock.now()

    wanted = [Wanted({"number": i}, measure) for i in range(10)]
    with pytest.raises(OutOfTime):
        meter.many("numbers", wanted)
    assert meter.measured == 3, "what was begun is ended"
    assert meter.many("numbers", wanted[:3]) == [1.0, 2.0, 3.0], "what is known costs no time"
    again = Meter(Kept(tmp_path / "kept.sqlite"), quiet=calm(), effort=SHORT)
    assert again.many("numbers", wanted)[:4] == [1.0, 2.0, 3.0, 4.0] and again.measured == 7


def test_measuring_again_that_is_refused_or_broken_off_loses_nothing(tmp_path: Path) -> None:
    path = tmp_path / "kept.sqlite"
    with profile(made("mlp", tmp_path), path) as first:
        before = first.whole(8)
    with Profile.open(made("mlp", tmp_path), path=path, again=True, effort=SHORT) as again:
        again.within(Budget(0.0))
        with pytest.raises(OutOfTime):
            again.whole(8)
    with profile(made("mlp", tmp_path), path) as later:
        assert later.whole(8) == before and later.meter.measured == 0


def test_nothing_is_looked_into_for_a_whole_pass(tmp_path: Path) -> None:
    found = profile(made("cnn", tmp_path))
    found.job(), found.whole(8), found.digest()
    assert not found.looked_into and "no time to look into the model" in found.notes[-1]
    assert found.dimensions() and found.looked_into and not found.notes


def test_a_pipeline_that_cannot_be_is_refused_before_anything_is_measured(tmp_path: Path) -> None:
    found = profile(made("cnn", tmp_path))  # it has batch norms
    with pytest.raises(LaminarError, match="takes its statistics from a batch"):
        found.stages(Pipeline(stages=2, microbatches=2), 16)
    assert found.meter.measured == 0


@pytest.mark.parametrize("name", ["cnn", "words"])
def test_the_first_walk_of_the_placer_is_the_same_for_all_rules(tmp_path: Path, name: str) -> None:
    """So it is made once; what comes out is what comes out of two walks."""
    traced = TracedJob(made(name, tmp_path))
    split = {"cnn": {"channels": "cols"}, "words": {"hidden": "cols"}}[name]
    both = Rules({"rows": 2, "cols": 2}, split | {"batch": "rows"})
    for rules in (Rules({}), Rules({"cols": 2}, split), both, Rules({"cols": 2}, split)):
        (training, _), fresh = traced.placed(rules), place(traced.training, rules)
        assert training.to_json() == fresh.to_json() and names_of(training) == names_of(fresh)


def test_what_takes_long_is_measured_less_often() -> None:
    assert timed(lambda: None, Effort(least=0.0, rounds=50, longest=0.0)).n == 3
    assert timed(lambda: None, Effort(least=0.0, rounds=50)).n == 50
    assert in_time(128, 24, 1e-5) == (128, 24)
    assert in_time(128, 24, 1e-2) == (6, 24)
    assert in_time(128, 24, 0.5) == (2, 4), "some steps there must be"


def test_the_code_of_a_model_is_that_of_its_files_wherever_they_lie(tmp_path: Path) -> None:
    def kinds(folder: str, helper: str) -> list[type]:
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "models.py").write_text("from helper import act\n\n\nclass Net:\n    act = act\n")
        (tmp_path / folder / "helper.py").write_text(helper)
        return [import_from(tmp_path / folder, "models").Net]

    one, same, other = kinds("a", "def act(): return 1\n"), kinds("b", "def act(): return 1\n"), kinds("c", "def act(): return 2\n")
    assert code_of(one) == code_of(same) != code_of(other)
    assert plain_name(one[0].__module__) == "models"


def test_blocks_that_differ_by_their_number_alone_are_of_one_kind(tmp_path: Path) -> None:
    blocks = [nn.Sequential(nn.Linear(32, 32), nn.ReLU()) for _ in range(3)]
    found = profile(job(nn.Sequential(nn.Flatten(), nn.Linear(784, 32), *blocks, nn.Linear(32, 10)), tmp_path))
    kinds = found.kinds()
    assert list(kinds) == list(found.modules()) == ["1", "2.0", "3.0", "4.0", "5"]
    assert len({kinds[path] for path in ("2.0", "3.0", "4.0")}) == 1 and len(set(kinds.values())) == 3, "others have other shapes"

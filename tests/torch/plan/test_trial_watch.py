"""What is made of the events of a trial: seconds until a batch is behind the team, as plans have it."""

from __future__ import annotations

import pytest

from laminar.plan.trials.trial import Enough, Watch


def heard(steps: int, seconds: float) -> Watch:
    """After steps of so many seconds each."""
    watch = Watch(steps=1000)
    for step in range(steps):
        watch({"event": "step", "epoch": 0, "step": step, "t": step * seconds})
    return watch


def test_a_step_of_several_batches_is_that_many_batches() -> None:
    plain, several = heard(10, 0.1).tried(32), heard(10, 0.4).tried(32, accumulate=4)
    assert plain is not None and several is not None
    assert several.seconds == pytest.approx(plain.seconds) == pytest.approx(0.1)


def test_whole_epochs_tell_the_same_of_them() -> None:
    watch = Watch()
    for _ in range(3):
        watch({"event": "epoch", "samples_per_second": 320.0})
    plain, several = watch.tried(32), watch.tried(32, accumulate=4)
    assert plain is not None and plain == several and plain.seconds == pytest.approx(0.1)


def test_it_ends_when_it_knows_enough() -> None:
    watch = Watch(steps=2, seconds=0.0)
    with pytest.raises(Enough):
        for step in range(10):
            watch({"event": "step", "epoch": 0, "step": step, "t": float(step)})
    assert watch.ended

"""Ctrl-C that waits for what is under way."""

from __future__ import annotations

import signal
import threading

import pytest

from laminar.core.interrupts import Interrupts, afterwards


def ctrl_c() -> None:
    signal.raise_signal(signal.SIGINT)


def test_it_waits_for_what_is_within() -> None:
    done = []
    with pytest.raises(KeyboardInterrupt), afterwards():
        ctrl_c()
        done.append("all of it")
    assert done == ["all of it"]


def test_it_is_told_to_whoever_would_have_heard_it() -> None:
    with Interrupts() as outer:
        with afterwards():
            ctrl_c()
            assert not outer.asked
        assert outer.asked


def test_the_second_one_acts_at_once() -> None:
    done = []
    with pytest.raises(KeyboardInterrupt), afterwards():
        ctrl_c()
        ctrl_c()
        done.append("never")
    assert done == []


def test_it_goes_before_what_failed_within() -> None:
    with pytest.raises(KeyboardInterrupt) as caught, afterwards():
        ctrl_c()
        raise ValueError("torch takes an interrupt for a failure")
    assert isinstance(caught.value.__context__, ValueError)


def test_where_there_was_none_nothing_happens_and_handlers_are_as_before() -> None:
    before = signal.getsignal(signal.SIGINT)
    with afterwards():
        pass
    with pytest.raises(ValueError, match="own"), afterwards():
        raise ValueError("own")
    assert signal.getsignal(signal.SIGINT) is before


def test_other_threads_are_left_alone() -> None:
    found: list[str] = []

    def work() -> None:
        with afterwards():
            found.append("done")

    thread = threading.Thread(target=work)
    thread.start()
    thread.join(10)
    assert found == ["done"]

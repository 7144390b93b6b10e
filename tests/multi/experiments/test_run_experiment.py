"""Experiments for real: trials in a process of their own, cut short, killed, resumed, reused, halved, searched, kept from gc."""

from __future__ import annotations

import errno
import os
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest

from laminar.core.clock import FakeClock
from laminar.core.errors import LaminarError
from laminar.core.events import Event
from laminar.experiments import files
from laminar.experiments.record import Statement, Trial
from laminar.experiments.run import all_failed, run
from laminar.experiments.spec import Budget, Halving, Range, Search, VariantSpec
from laminar.experiments.statistics import summary
from laminar.experiments.trial_process import TrialProcess
from laminar.store.gc import plan_gc, sweep
from tests.multi.experiments.lab import MODELS, Lab

pytestmark = pytest.mark.usefixtures("warm_workers")


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    return Lab(tmp_path / "lab")


def outcomes(trials: list[Trial]) -> list[str]:
    return [one.outcome for one in trials]


def test_what_variants_share_is_built_once_and_no_ref_moves(lab: Lab) -> None:
    events: list[Event] = []
    trials = lab.run(events.append, axes={"lr": [0.1, 0.01]}, repeats=2)
    assert outcomes(trials) == ["done"] * 4
    assert len({one.layer for one in trials}) == 4  # each repeat is a layer of its own
    assert sum(event["event"] == "start" and event["layer"] == "base" for event in events) == 1
    assert all(one.curve and one.metrics["accuracy"] >= 0 and one.wall > 0 for one in trials)
    assert list(lab.store.refs.names()) == []
    assert files.read_trials(lab.store, "x") == trials


def test_nothing_is_run_twice(lab: Lab) -> None:
    first = lab.run(axes={"lr": [0.1, 0.01]})

    def nobody() -> Any:
        raise AssertionError("a process was asked for")

    class Idle:
        ask = staticmethod(nobody)

        def interrupt(self) -> None: ...

        def close(self) -> None: ...

    assert lab.run(axes={"lr": [0.1, 0.01]}, trainer=Idle) == first
    more = lab.run(axes={"lr": [0.1, 0.01, 0.001]})  # one more value: one more trial
    assert more[:2] == first
    assert len(more) == 3
    other = lab.run(name="y", axes={"lr": [0.1, 0.5]})  # another experiment finds the layer in the store
    again = {one.variant: one for one in other}
    shared = next(one for one in first if one.variant in again)
    assert again[shared.variant].reused
    assert again[shared.variant].layer == shared.layer
    assert len(again[shared.variant].curve) == len(shared.curve)


def test_a_trial_that_kills_its_process_fails_and_the_rest_goes_on(lab: Lab) -> None:
    trials = lab.run(axes={"replace.head.args.bomb": [1, 2, 0]})
    found = {
        one.settings["replace.head.args.bomb"]: one for one in lab.prepared(axes={"replace.head.args.bomb": [1, 2, 0]}).description.variants
    }
    by_bomb = {bomb: next(one for one in trials if one.variant == variant.id) for bomb, variant in found.items()}
    assert (by_bomb[1].outcome, by_bomb[1].error["code"]) == ("failed", "L611")
    assert "SIGSEGV" in by_bomb[1].error["message"]
    assert (by_bomb[2].outcome, by_bomb[2].error["code"]) == ("failed", "L202")
    assert "no such head" in by_bomb[2].error["message"]
    assert by_bomb[0].outcome == "done"
    told = summary(files.read_description(lab.store, "x"), trials)
    assert len(told.failures) == 2
    assert all_failed(trials) is None
    assert all_failed([one for one in trials if one.outcome == "failed"]) is not None


def test_time_is_measured_anew_and_alone(lab: Lab) -> None:
    given: dict[str, Any] = {"timed": True, "even_if_busy": True, "warm_up": 1, "axes": {"workers": [1], "threads": [1, 2]}}
    trials = lab.run(**given)
    assert [one.why_not for one in trials] == ["warm-up", "warm-up", "", ""]
    counted = [one for one in trials if one.counted]
    assert len({one.layer for one in counted}) == 1  # threads are in no key, so it is one layer, trained twice
    assert len({one.run for one in counted}) == 2
    assert not any(one.reused for one in trials)
    with pytest.raises(LaminarError, match="slow each other down"):
        lab.run(at_once=2, **given)


def test_ctrl_c_and_a_budget_keep_what_has_ended(lab: Lab, tmp_path: Path) -> None:
    one = lab.run(axes={"lr": [0.1, 0.01, 0.001]}, budget=Budget(trials=1))
    assert len(one) == 1

    def press(event: Event) -> None:
        if event["event"] == "experiment" and event["trial"] is not None:
            os.kill(os.getpid(), signal.SIGINT)

    made: list[TrialProcess] = []

    def trainer() -> TrialProcess:
        made.append(TrialProcess())
        return made[-1]

    with pytest.raises(KeyboardInterrupt):
        lab.run(press, axes={"lr": [0.1, 0.01, 0.001]}, trainer=trainer)
    assert made[0].pid is None  # it has ended before the runner does
    kept = files.read_trials(lab.store, "x")
    assert kept[:1] == one
    assert len(kept) in (2, 3)
    assert len(lab.run(axes={"lr": [0.1, 0.01, 0.001]})) == 3


@pytest.mark.slow
def test_a_timed_trial_that_was_cut_short_is_trained_anew_once(lab: Lab) -> None:
    """Both variants have one key, so the second is a run of its own: its checkpoint would only make a time that does not count."""
    given: dict[str, Any] = {"timed": True, "even_if_busy": True, "warm_up": 0, "axes": {"threads": [1, 2]}, "set": {"epochs": 300}}
    ended, pressed = threading.Event(), threading.Event()

    def press(event: Event) -> None:
        if event["event"] == "experiment" and event["trial"] is not None:
            ended.set()
        if ended.is_set() and event["event"] == "epoch" and event["epoch"] >= 1 and not pressed.is_set():
            pressed.set()
            os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        lab.run(press, **given)
    assert len(files.read_trials(lab.store, "x")) == 1
    assert list(lab.store.layout.runs.glob("*/checkpoint*"))  # of the second
    trials = lab.run(**given)
    assert [(one.outcome, one.counted, one.why_not) for one in trials] == [("done", True, "")] * 2
    assert len({one.run for one in trials}) == 2


def test_time_that_runs_out_after_the_last_trial_is_no_news(lab: Lab) -> None:
    class Slow:
        """Its process takes so long to end that the budget does first."""

        def __init__(self) -> None:
            self.told = threading.Event()

        def ask(self, asked: Any, emit: Any, *, on_ready: Any = None) -> Any:
            return {"done": {"started": 1.0, "wall": 0.1, "seconds": 0.1, "metrics": {"accuracy": 0.5}}}

        def interrupt(self) -> None:
            self.told.set()

        def close(self) -> None:
            assert self.told.wait(60)

    events: list[Event] = []
    trials = lab.run(events.append, axes={"lr": [0.1]}, budget=Budget(hours=1 / 3600), trainer=Slow)
    assert outcomes(trials) == ["done"]
    assert [event for event in events if event["event"] == "note"] == []


class ByTheClock:
    """Each trial takes ten seconds of a clock that stands still otherwise."""

    def __init__(self, clock: FakeClock, asked: list[float]) -> None:
        self.clock, self.asked = clock, asked

    def ask(self, asked: Any, emit: Any, *, on_ready: Any = None) -> Any:
        self.clock.advance(10.0)
        self.asked.append(asked["file"]["raw"]["layer"][1]["train"]["lr"])
        return {"done": {"started": 1.0, "wall": 10.0, "seconds": 0.1, "metrics": {"accuracy": 0.5}}}

    def interrupt(self) -> None: ...

    def close(self) -> None: ...


def test_repeats_fill_the_hours_of_the_budget_once(lab: Lab) -> None:
    """Two repeats of what the first statement compares, then of the other, then whole rounds; the same command adds no more."""
    clock, lrs, events = FakeClock(), list[float](), list[Event]()
    given: dict[str, Any] = {
        "axes": {"lr": [0.1, 0.2, 0.3]},
        "repeats": 2,
        "order_seed": 1,
        "statement": [Statement(text="", rule="less_than", arguments={"variant": {"lr": 0.3}, "measure": "accuracy"})],
        "fill": True,
        "clock": clock,
        "trainer": lambda: ByTheClock(clock, lrs),
    }
    hours = 125 / 3600  # for twelve trials
    trials = lab.run(events.append, budget=Budget(hours=hours), **given)
    assert len(trials) == 12 and sorted(lrs[:4]) == [0.1, 0.1, 0.3, 0.3] and lrs[4:6] == [0.2, 0.2]
    assert [sorted(lrs[at : at + 3]) for at in (6, 9)] == [[0.1, 0.2, 0.3]] * 2
    assert sorted((one.repeat for one in trials), reverse=True) == [3, 3, 3, 2, 2, 2, 1, 1, 1, 0, 0, 0]
    assert [event for event in events if event["event"] == "note"] == []
    found = summary(files.read_description(lab.store, "x"), trials)
    assert (found.done, found.planned) == (12, 12)
    assert lab.run(budget=Budget(hours=hours), **given) == trials


def test_a_run_that_fills_its_time_begins_no_trial_that_would_be_cut_short(lab: Lab) -> None:
    """Ten seconds each: the third begins after twenty-two, and would end two seconds late. The time counts from before the run."""
    clock, lrs, events = FakeClock(100.0), list[float](), list[Event]()
    given: dict[str, Any] = {"axes": {"lr": [0.1]}, "repeats": 4, "fill": True, "clock": clock, "trainer": lambda: ByTheClock(clock, lrs)}
    trials = lab.run(events.append, budget=Budget(hours=30 / 3600), begun=98.0, **given)
    assert len(trials) == 2
    assert [event["why"] for event in events if event["event"] == "note"] == [
        "there is no time left for another trial of lr 0.1: running it again goes on"
    ]
    assert len(lab.run(budget=Budget(hours=1.0), **given)) == 4  # the repeats that were described, and no more


def test_two_at_once_and_another_question(lab: Lab) -> None:
    with files.running(lab.store, "x"), pytest.raises(LaminarError) as caught:
        lab.run(axes={"lr": [0.1]})
    assert caught.value.code == "L307"
    assert "'x'" in caught.value.message
    lab.run(axes={"lr": [0.1]})
    with pytest.raises(LaminarError) as caught:
        lab.run(axes={"lr": [0.1]}, layer="base")
    assert caught.value.code == "L020"
    (lab.project.root / "models.py").write_text(
        MODELS.replace("nn.Linear(old.in_features, 10)", "nn.Linear(old.in_features, 10, bias=False)")
    )
    with pytest.raises(LaminarError, match="has changed since") as caught:
        lab.run(axes={"lr": [0.1]})
    assert caught.value.code == "L020"


def test_side_by_side_where_time_is_not_measured(lab: Lab) -> None:
    trials = lab.run(axes={"lr": [0.1, 0.01]}, repeats=2, at_once=2)
    assert outcomes(trials) == ["done"] * 4
    assert len({(one.variant, one.repeat) for one in trials}) == 4


def test_halving_goes_on_from_checkpoints(lab: Lab) -> None:
    given: dict[str, Any] = {"axes": {"lr": [0.1, 0.01, 0.001]}, "set": {"epochs": 3}, "halving": Halving(keep=3)}
    trials = lab.run(**given)
    first, went_on = trials[:3], trials[3:]
    assert outcomes(first) == ["stopped"] * 3
    assert [len(one.curve) for one in trials] == [1, 1, 1, *(3 for _ in went_on)]
    described = files.read_description(lab.store, "x")
    best = max(first, key=lambda one: one.curve[0].test_accuracy or 0)
    assert went_on[0].variant == best.variant
    assert {one.variant for one in went_on} == {best.variant, described.benchmark}
    before = {one.variant: one.curve[0].test_accuracy for one in first}
    assert all(one.curve[0].test_accuracy == before[one.variant] for one in went_on)
    whole = lab.run(name="whole", axes={"lr": [0.1, 0.01, 0.001]}, set={"epochs": 3})
    assert {one.layer for one in went_on} <= {one.layer for one in whole}  # what went on is what would have been
    told = {row.variant: row for row in summary(described, trials).rows}
    assert all(told[one.variant].figures["accuracy"].percent is not None for one in went_on if one.metrics["accuracy"] > 0)


def test_search_proposes_and_resumes(lab: Lab) -> None:
    pytest.importorskip("optuna")
    search = Search(ranges={"lr": Range(low=1e-3, high=1e-1, log=True), "optimizer": Range(choices=["adam", "sgd"])}, trials=2)
    first = lab.run(search=search)
    assert len(first) == 3  # and the stack as it stands
    assert [bool(one.settings) for one in first] == [False, True, True]
    assert all(1e-3 <= one.settings["lr"] <= 1e-1 for one in first[1:])
    more = lab.run(search=msgspec.structs.replace(search, trials=3))
    assert more[:3] == first
    assert len({one.variant for one in more}) == 4
    assert len(summary(files.read_description(lab.store, "x"), more).rows) == 4


def test_a_search_in_other_ranges_goes_on_with_those(lab: Lab) -> None:
    pytest.importorskip("optuna")
    rates = {"lr": Range(low=1e-3, high=1e-1, log=True), "optimizer": Range(choices=["adam", "sgd"])}
    first = lab.run(search=Search(ranges=rates, trials=1))
    batches = {"batch": Range(low=8, high=30, step=8)}  # 8, 16, 24: the last step may end below high
    more = lab.run(search=Search(ranges=batches, trials=2), repeats=2)
    assert more[: len(first)] == first
    added = more[len(first) :]
    assert {tuple(one.settings) for one in added} == {(), ("batch",)}
    assert {one.settings["batch"] for one in added if one.settings} <= {8, 16, 24}
    assert len({one.variant for one in added if one.settings}) == 2


class Quick:
    """Trains nothing, and says at once what came of it."""

    def ask(self, asked: Any, emit: Any, *, on_ready: Any = None) -> Any:
        rate = next(one for one in asked["file"]["raw"]["layer"] if one["name"] == asked["layer"])["train"].get("lr", 0.01)
        epochs = asked["until"] or 9
        curve = [{"epoch": n + 1, "seconds": n + 1.0, "test_accuracy": rate} for n in range(epochs)]
        said = {"started": 1.0, "wall": 0.1 * epochs, "seconds": epochs, "metrics": {"accuracy": rate}, "curve": curve}
        return {"stopped" if asked["until"] else "done": said}

    def interrupt(self) -> None: ...

    def close(self) -> None: ...


def test_progress_knows_of_rungs_and_proposals_to_come(lab: Lab) -> None:
    def told(name: str, **given: Any) -> tuple[list[int], list[int]]:
        events: list[Event] = []
        lab.run(events.append, name=name, trainer=Quick, **given)
        said = [event for event in events if event["event"] == "experiment"]
        assert all(event["left_seconds"] for event in said[1:-1])
        return [event["done"] for event in said], [event["of"] for event in said]

    rates = [0.9, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8]
    done, of = told("halve", axes={"lr": rates}, set={"epochs": 9}, halving=Halving(keep=3))
    assert (done, set(of)) == (list(range(14)), {13})  # 9, 3 and 1
    pytest.importorskip("optuna")
    done, of = told("search", repeats=2, search=Search(ranges={"lr": Range(low=0.1, high=0.9)}, trials=3))
    assert (done, set(of)) == (list(range(9)), {8})  # the stack as it stands, and three more, twice each


def test_halving_by_any_measure_decides_a_rung_once(lab: Lab) -> None:
    """Who goes on is not judged anew by what became of it: here training accuracy falls from the second epoch on."""

    class Falling(Quick):
        def ask(self, asked: Any, emit: Any, *, on_ready: Any = None) -> Any:
            answer = super().ask(asked, emit)
            for said in answer.values():
                rate = said["metrics"]["accuracy"]
                said["curve"] = [one | {"accuracy": rate if one["epoch"] == 1 else 0.0} for one in said["curve"]]
            return answer

    given: dict[str, Any] = {"axes": {"lr": [0.1, 0.2, 0.3]}, "benchmark": {"lr": 0.3}, "set": {"epochs": 9}}
    trials = lab.run(trainer=Falling, halving=Halving(measure="train_accuracy", keep=3), **given)
    assert sorted(len(one.curve) for one in trials) == [1, 1, 1, 3, 9]
    late = Halving(measure="steps_to_target", keep=3)
    trials = lab.run(trainer=Falling, name="late", halving=late, target=0.99, **given)  # nobody is there in time: all are as good
    assert sorted(len(one.curve) for one in trials)[:4] == [1, 1, 1, 3]
    with pytest.raises(LaminarError, match="known of any of 3 trials") as raised:
        lab.run(trainer=Falling, name="unknown", halving=Halving(measure="train_loss", keep=3), **given)
    assert raised.value.code == "L016"


def test_a_search_proposes_as_many_as_are_trained_at_once(lab: Lab) -> None:
    pytest.importorskip("optuna")
    together = threading.Barrier(3, timeout=60)  # breaks where one waits for another to end

    class Together(Quick):
        def ask(self, asked: Any, emit: Any, *, on_ready: Any = None) -> Any:
            together.wait()
            return super().ask(asked, emit)

    search = Search(ranges={"lr": Range(low=0.1, high=0.9)}, trials=5)
    trials = lab.run(trainer=Together, at_once=3, search=search)
    assert len({one.variant for one in trials}) == len(trials) == 6


@pytest.mark.parametrize("hours", [1e12, float("inf")])
def test_a_budget_of_centuries_is_none(lab: Lab, hours: float, monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[Any] = []
    monkeypatch.setattr(threading, "excepthook", said.append)
    assert len(lab.run(trainer=Quick, axes={"lr": [0.1]}, budget=Budget(hours=hours))) == 1
    assert not said


def test_an_argument_that_the_model_does_not_take_names_the_axis(lab: Lab) -> None:
    (failed,) = lab.run(axes={"neurons": [8]})
    assert (failed.outcome, failed.error["code"]) == ("failed", "L202")
    assert "unknown argument 'hidden'" in failed.error["message"]
    assert failed.error["hint"].startswith("axis neurons sets hidden in layer.head.replace.head.args: give the model such an argument")


def test_a_search_without_optuna_leaves_nothing_behind(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(LaminarError, match="Optuna") as caught:
        lab.run(search=Search(ranges={"lr": Range(low=1e-3, high=1e-1)}, trials=2))
    assert caught.value.code == "L011"
    assert files.names(lab.store) == []


def test_gc_keeps_trials_until_the_experiment_is_removed(lab: Lab) -> None:
    trials = lab.run(axes={"lr": [0.1, 0.01]})
    assert not plan_gc(lab.store, grace=0.0).layers
    assert files.remove(lab.store, "x") == 2
    assert files.names(lab.store) == []
    plan = plan_gc(lab.store, grace=0.0)
    assert {one.layer for one in trials} <= set(plan.layers)
    sweep(lab.store, plan)
    assert not any(lab.store.has_layer(one.layer) for one in trials)
    with pytest.raises(LaminarError) as caught:
        files.remove(lab.store, "x")
    assert caught.value.code == "L018"


def test_a_runner_that_is_killed_leaves_no_process_and_no_half_line(lab: Lab, tmp_path: Path) -> None:
    """The child sees its input end, and goes."""
    child = TrialProcess()
    child.start()
    process = child._process
    assert process is not None and process.stdin is not None
    process.stdin.close()  # as the system does for a runner that was killed
    assert process.wait(60) is not None
    child.close()
    lab.run(axes={"lr": [0.1]})
    path = files.folder_of(lab.store, "x") / "trials.jsonl"
    path.write_bytes(path.read_bytes() + b'{"variant": "torn')
    assert len(files.read_trials(lab.store, "x")) == 1
    assert len(lab.run(axes={"lr": [0.1, 0.01]})) == 2
    assert len(files.read_trials(lab.store, "x")) == 2
    path.write_bytes(b"nonsense\n" + path.read_bytes())
    with pytest.raises(LaminarError) as caught:
        files.read_trials(lab.store, "x")
    assert caught.value.code == "L303"
    with pytest.raises(LaminarError):
        plan_gc(lab.store)  # gc does not guess what it needed
    files.remove(lab.store, "x")


def test_a_cluster_that_there_is_not_leaves_nothing_behind(lab: Lab) -> None:
    with pytest.raises(LaminarError, match="there is no 'mars'") as caught:
        lab.run(axes={"lr": [0.1]}, on="mars")
    assert caught.value.code == "L008"
    assert files.names(lab.store) == []


@pytest.mark.parametrize("code", ["L301", "L407"])
def test_a_full_disk_or_no_cluster_ends_the_experiment_and_is_no_failed_trial(lab: Lab, code: str, monkeypatch: pytest.MonkeyPatch) -> None:
    class Full:
        def ask(self, asked: Any, emit: Any, *, on_ready: Any = None) -> Any:
            return {"error": {"code": code, "message": "no space left", "hint": "laminar gc"}}

        def interrupt(self) -> None: ...

        def close(self) -> None: ...

    with pytest.raises(LaminarError, match="no space left"):
        lab.run(axes={"lr": [0.1, 0.01]}, trainer=Full)
    assert files.read_trials(lab.store, "x") == []
    if code != "L301":
        return
    (done,) = lab.run(axes={"lr": [0.1]})
    path = files.folder_of(lab.store, "x") / "trials.jsonl"
    before, write = path.read_bytes(), os.write

    def half(file: int, data: bytes) -> int:
        if path.read_bytes() != before:
            raise OSError(errno.ENOSPC, "No space left on device")
        return write(file, data[:10])

    monkeypatch.setattr(os, "write", half)
    with pytest.raises(LaminarError) as caught:
        files.append_trial(lab.store, "x", done)
    assert caught.value.code == "L301"
    assert path.read_bytes() == before  # no half line


def test_a_killed_child_is_one_failed_trial(lab: Lab) -> None:
    made: list[TrialProcess] = []

    def trainer() -> TrialProcess:
        made.append(TrialProcess())
        return made[-1]

    def kill(event: Event) -> None:
        if event["event"] == "start" and event["layer"] == "head" and not killed.is_set():
            killed.set()
            pid = made[0].pid
            assert pid is not None
            os.kill(pid, signal.SIGKILL)

    killed = threading.Event()
    began = time.monotonic()
    trials = lab.run(kill, axes={"lr": [0.1, 0.01]}, set={"epochs": 500}, trainer=trainer, budget=Budget(trials=1))
    assert outcomes(trials) == ["failed"]
    assert "SIGKILL" in trials[0].error["message"]
    assert time.monotonic() - began < 120


def test_what_a_slow_store_costs_is_measured(lab: Lab) -> None:
    """Two steps an epoch, a checkpoint after each; the fourth is the end's, beside that of the last step."""
    settings = {"epochs": 2, "checkpoint_steps": 1}
    variants = [VariantSpec(settings={**settings, "checkpoint_write_seconds": one}) for one in (0.0, 0.05)]
    measures = ["seconds", "checkpoint_seconds", "without_checkpoints", "checkpoints", "checkpoint_bytes", "test_seconds"]
    prepared = lab.prepared(variant=variants, measures=measures, timed=True, warm_up=0, even_if_busy=True)
    trials = run(prepared.description, prepared.sweep, prepared.file, lab.store)
    quick, slow = trials if trials[0].variant == prepared.description.benchmark else reversed(trials)
    assert (quick.metrics["checkpoints"], slow.metrics["checkpoints"]) == (4, 4)
    assert slow.metrics["checkpoint_seconds"] >= 0.2
    assert slow.spent["checkpoints"] == pytest.approx(slow.metrics["checkpoint_seconds"], abs=1e-3)
    assert slow.metrics["checkpoint_bytes"] > 1000 and slow.metrics["test_seconds"] > 0
    (table,) = summary(prepared.description, trials).tables
    assert [row["checkpoints"] for row in table.rows] == [4, 4]
    assert [row["seconds of all"] for row in table.rows] == [one.metrics["checkpoint_seconds"] for one in (quick, slow)]


def test_one_sweep_runs_in_several_places(lab: Lab) -> None:
    """Here, and by the agents of a cluster, which are on this machine."""
    given: dict[str, Any] = {"axes": {"on": ["local", "agents"]}, "measures": ["seconds", "loss"]}
    heard: list[Event] = []
    trials = lab.run(heard.append, **given, timed=True, warm_up=0, even_if_busy=True)
    assert [one.outcome for one in trials] == ["done", "done"], [one.error for one in trials]
    place = {str(one["label"]): [] for one in heard if one["event"] == "trial"}
    at = ""
    for event in heard:
        at = str(event["label"]) if event["event"] == "trial" else at
        if event["event"] == "worker":
            place[at].append(event["role"])
    assert place == {"on local": [], "on agents": ["worker"]}  # one process here is one worker there
    assert trials[0].metrics["loss"] == pytest.approx(trials[1].metrics["loss"], abs=1e-4)  # they learn the same
    with pytest.raises(LaminarError, match="itself says where") as caught:
        lab.run(**given, on="agents")
    assert caught.value.code == "L008"

"""The loop: learns, tells, stops, and leaves the process as it found it."""

from __future__ import annotations

import math
import os
import random
import signal
import subprocess
import sys
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from train_jobs import Net, events, figures, images, job, line, losses, net, numbers, same_bits, stop_at, tensors

from laminar.core.clock import FakeClock
from laminar.core.errors import LaminarError
from laminar.core.events import read
from laminar.core.figures import number
from laminar.data.dataset import Dataset, Split
from laminar.train import checkpoint
from laminar.train.evaluate import evaluate
from laminar.train.loop import train
from laminar.train.recipe import Target


def test_it_learns(tmp_path: Path) -> None:
    made = job(tmp_path, epochs=12)
    done = train(made)
    assert done.metrics["accuracy"] > 0.9
    told = figures(tmp_path)
    assert told[-1][1]["loss"] < 0.5 * told[0][1]["loss"]
    assert (done.epochs, done.steps) == (12, 12 * 6)
    again = evaluate(made.model, [made.data.test.x], made.data.test.y, task="classification")
    assert {name: done.metrics[name] for name in ("loss", "accuracy")} == again


def test_regression_learns(tmp_path: Path) -> None:
    for loss in ("mse", "l1", "huber"):
        done = train(job(tmp_path / loss, model=line(), data=numbers(), epochs=40, lr=0.03, loss=loss))
        assert done.metrics["r2"] > 0.9, loss
        assert done.metrics.keys() == {"loss", "mae", "r2", "samples_per_second"}


@pytest.mark.parametrize(
    "fields",
    [
        {"optimizer": "sgd", "lr": 0.1},
        {"optimizer": "sgd", "lr": 0.05, "momentum": 0.9, "nesterov": True},
        {"optimizer": "adam"},
        {"optimizer": "adamw"},
        {"optimizer": "adagrad", "lr": 0.05},
        {"schedule": "step"},
        {"schedule": "cosine", "warmup": 0.1},
        {"schedule": "one-cycle", "lr": 0.03},
        {"clip": 0.5},
        {"label_smoothing": 0.1},
    ],
)
def test_every_optimizer_and_schedule_learns(fields: dict[str, Any], tmp_path: Path) -> None:
    assert train(job(tmp_path, epochs=10, **fields)).metrics["accuracy"] > 0.8


def test_a_step_is_what_a_hand_written_loop_does(tmp_path: Path) -> None:
    """The oracle of the oracle: plain torch, batch by batch, in the order that Batches gives."""
    from laminar.data.batches import Batches

    made = job(tmp_path, epochs=2, lr=0.01, clip=0.7, schedule="cosine")
    train(made)
    model, data = net(), images()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01, fused=True)
    told = losses(tmp_path)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=12)
    model.train()
    from laminar.train.borrowed import seeded

    with seeded(0), Batches(data.train.x, data.train.y, batch=16, seed=0) as batches:
        step = 0
        for epoch in range(2):
            for block in batches.epoch(epoch):
                for part in block.slices:
                    loss = nn.functional.cross_entropy(model(torch.tensor(block.x[0][part])), torch.tensor(block.y[part]))
                    assert told[step][2] == pytest.approx(loss.item(), rel=1e-5)
                    assert told[step][3] == pytest.approx(optimizer.param_groups[0]["lr"], rel=1e-9)
                    optimizer.zero_grad()
                    loss.backward()
                    nn.utils.clip_grad_norm_(model.parameters(), 0.7)
                    optimizer.step()
                    scheduler.step()
                    step += 1
    for name, tensor in made.model.state_dict().items():
        assert torch.allclose(tensor, model.state_dict()[name], atol=1e-5), name


def test_the_same_job_gives_the_same_bits_whatever_was_drawn_before(tmp_path: Path) -> None:
    found = []
    for attempt in range(2):
        torch.manual_seed(attempt)
        np.random.seed(attempt)
        random.seed(attempt)
        made = job(tmp_path / str(attempt))
        train(made)
        found.append(tensors(made))
    assert same_bits(*found)
    assert losses(tmp_path / "0") == losses(tmp_path / "1")
    other = job(tmp_path / "other", seed=1)
    train(other)
    assert not same_bits(found[0], tensors(other))


def test_models_may_draw_from_any_global_stream(tmp_path: Path) -> None:
    class Noisy(Net):
        def forward(self, x: Tensor) -> Tensor:
            if self.training:
                x = x * float(np.random.uniform(0.8, 1.2)) + random.gauss(0, 0.1)
            return super().forward(x)

    def make(folder: Path) -> Any:
        torch.manual_seed(1)
        return job(folder, model=Noisy())

    whole = make(tmp_path / "whole")
    train(whole)
    broken = make(tmp_path / "broken")
    stop_at(broken, 8, how="ctrl-c")
    with pytest.raises(KeyboardInterrupt):
        train(broken)
    again = make(tmp_path / "broken")
    train(again)
    assert same_bits(tensors(whole), tensors(again))


def test_events_tell_the_run(tmp_path: Path) -> None:
    heard: list[dict[str, Any]] = []
    train(job(tmp_path, warmup=3), heard.append)
    kinds = [event["event"] for event in read(tmp_path / "events.jsonl")]
    assert kinds == ["start", *(["step"] * 6 + ["epoch"]) * 3, "end", "checkpoint", "saved"]
    (start,) = events(tmp_path, "start")
    assert (start["steps"], start["epochs"], start["samples"], start["threads"], start["dtype"]) == (18, 3, 90, 1, "float32")
    told = losses(tmp_path)
    assert [step[:2] for step in told] == [(step, step // 6) for step in range(18)]
    assert [step[3] for step in told[:4]] == pytest.approx([0.01 / 3, 0.02 / 3, 0.01, 0.01])
    epoch = events(tmp_path, "epoch")[1]
    assert (epoch["epoch"], epoch["epochs"], epoch["step"]) == (1, 3, 12)
    assert epoch["train"].keys() == epoch["test"].keys() == {"loss", "accuracy"}
    assert epoch["samples_per_second"] > 0
    weights = [16, 16, 16, 16, 16, 10]
    assert epoch["train"]["loss"] == pytest.approx(sum(s[2] * w for s, w in zip(told[6:12], weights, strict=True)) / 90)
    assert [event["event"] for event in heard if event["event"] != "step"] == ["start", *["epoch"] * 3, "end", "checkpoint", "saved"]
    assert {event["layer"] for event in heard} == {"layer"}
    steps = [event for event in heard if event["event"] == "step"]
    assert steps
    assert steps[0].keys() >= {"step", "steps", "epoch", "epochs", "loss", "lr"}


def test_training_accuracy_is_that_of_the_outputs_seen(tmp_path: Path) -> None:
    plain = nn.Sequential(nn.Flatten(), nn.Linear(36, 3))
    made = job(tmp_path, epochs=2, batch=1, data=images(70), model=plain)  # more batches than are counted at once
    seen: list[Tensor] = []
    made.model.register_forward_hook(lambda m, _, out: seen.append(out.detach().argmax(1)) if m.training else None)
    order: list[int] = []
    from laminar.data.batches import Batches

    train(made)
    with Batches(made.data.train.x, made.data.train.y, batch=1, seed=0) as batches:
        for epoch in range(2):
            order += [int(label) for block in batches.epoch(epoch) for label in block.y]
    hits = [int(a) == b for a, b in zip(torch.cat(seen), order, strict=True)]
    assert [train_["accuracy"] for _, train_, _ in figures(tmp_path)] == [sum(hits[:70]) / 70, sum(hits[70:]) / 70]


def test_a_target_stops_at_the_end_of_its_epoch(tmp_path: Path) -> None:
    whole = job(tmp_path / "whole", epochs=12)
    train(whole)
    reached = [test["accuracy"] >= 0.8 for _, _, test in figures(tmp_path / "whole")]
    done = train(job(tmp_path / "short", epochs=12, target=Target(accuracy=0.8)))
    assert done.epochs == reached.index(True) + 1 < 12
    assert done.metrics["accuracy"] >= 0.8
    assert "target" in events(tmp_path / "short", "end")[0]["why"]


def test_patience(tmp_path: Path) -> None:
    done = train(job(tmp_path, epochs=60, lr=0.3, patience=2))
    lost = [test["loss"] for _, _, test in figures(tmp_path)]
    assert done.epochs == len(lost) < 60
    assert min(lost[-2:]) >= min(lost[:-2])
    lowest = lost.index(min(lost)) + 1
    (note,) = [note for note in done.notes if note.startswith("stopped")]
    assert note.startswith(
        f"stopped after epoch {len(lost)} of 60: no lower test loss for 2 epochs; the weights of epoch {len(lost)} were kept"
    )
    assert note.endswith(f"the lowest was {number(min(lost))}, in epoch {lowest}")


def test_a_run_that_reaches_its_target_says_when_it_stopped_and_one_that_goes_to_its_end_says_nothing(tmp_path: Path) -> None:
    done = train(job(tmp_path / "short", epochs=60, lr=0.3, target=Target(accuracy=0.3)))
    assert any(note.startswith(f"stopped after epoch {done.epochs} of 60: target reached") for note in done.notes)
    assert not any("stopped" in note for note in train(job(tmp_path / "whole", epochs=2)).notes)


@pytest.mark.parametrize(("data", "fields", "words"), [
    ("images", {"loss": "mse"}, 'loss is "mse", but the data is for classification'),
    ("numbers", {"loss": "cross-entropy"}, 'loss is "cross-entropy", but the data is for regression'),
    ("numbers", {"label_smoothing": 0.1}, "there are no labels"),
    ("images", {"target": Target(r2=0.9)}, "target.r2 is given"),
    ("numbers", {"target": Target(accuracy=0.9)}, "target.accuracy is given"),
])  # fmt: skip
def test_a_recipe_for_another_task_is_refused_before_training(data: str, fields: dict[str, Any], words: str, tmp_path: Path) -> None:
    made = job(tmp_path, **fields) if data == "images" else job(tmp_path, model=line(), data=numbers(), **fields)
    with pytest.raises(LaminarError, match=words) as caught:
        train(made)
    assert caught.value.code == "L004"


def test_nothing_to_train(tmp_path: Path) -> None:
    with pytest.raises(LaminarError, match="all 10 parameters") as caught:
        train(job(tmp_path, frozen=["features", "head"]))
    assert caught.value.code == "L603"


def poison(made: Any, step: int, value: float = float("nan")) -> None:
    seen = -1

    def hook(module: nn.Module, _: Any, out: Tensor) -> Tensor:
        nonlocal seen
        seen += module.training
        return out * value if module.training and seen == step else out

    made.fit_route.module.register_forward_hook(hook)


@pytest.mark.parametrize("step", [0, 5, 6, 13])
def test_a_loss_that_is_not_finite_names_its_step(step: int, tmp_path: Path) -> None:
    made = job(tmp_path, checkpoint_steps=4)
    poison(made, step)
    with pytest.raises(LaminarError) as caught:
        train(made)
    assert caught.value.code == "L601"
    assert f"nan at step {step} of epoch {step // 6}" in caught.value.message
    assert "learning rate was 0.01" in caught.value.message
    assert "lower lr" in caught.value.hint
    assert "clip" in caught.value.hint
    assert [s[0] for s in losses(tmp_path)] == list(range(step))
    assert [(e["step"], e["epoch"]) for e in events(tmp_path, "failed")] == [(step, step // 6)]
    saved, notes = checkpoint.newest(tmp_path)
    good = step - step % 4 or None
    assert (saved.state["progress"]["step"] if saved else None) == good
    assert not notes
    assert (f"checkpoint of step {good} is kept" if good else "no checkpoint") in caught.value.message
    if saved:
        assert all(torch.isfinite(tensor).all() for tensor in saved.tensors.values() if tensor.is_floating_point())
    assert all(torch.isfinite(tensor).all() for tensor in made.model.state_dict().values())  # it was not trained on


def test_the_last_good_checkpoint_can_be_gone_on_from(tmp_path: Path) -> None:
    made = job(tmp_path / "broken", checkpoint_steps=4)
    poison(made, 10)
    with pytest.raises(LaminarError):
        train(made)
    whole, again = job(tmp_path / "whole"), job(tmp_path / "broken")
    train(whole)
    assert train(again).resumed_from == 8
    assert same_bits(tensors(whole), tensors(again))


class BadGradient(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:  # noqa: ARG004
        return x.clone()

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:  # noqa: ARG004
        return gradient * float("inf")


@pytest.mark.parametrize("fields", [{"clip": 1.0}, {"checkpoint_steps": 1}, {}])
def test_gradients_that_are_not_finite_never_reach_a_checkpoint(fields: dict[str, Any], tmp_path: Path) -> None:
    """The loss of step 5 is finite, its gradients are not: noticed by clipping, before a checkpoint, or at the end of the epoch."""
    made = job(tmp_path, **fields)
    seen = -1

    def hook(module: nn.Module, _: Any, out: Tensor) -> Tensor:
        nonlocal seen
        seen += module.training
        return BadGradient.apply(out) if module.training and seen == 5 else out

    made.model.register_forward_hook(hook)
    with pytest.raises(LaminarError, match="at step 5 of epoch 0") as caught:
        train(made)
    assert caught.value.code == "L601"
    saved, _ = checkpoint.newest(tmp_path)
    assert saved is None or saved.state["progress"]["step"] == 5


def test_an_error_in_the_models_own_code_names_its_place(tmp_path: Path) -> None:
    class Wrong(Net):
        def forward(self, x: Tensor) -> Tensor:
            if self.training:
                raise IndexError("no such row")
            return super().forward(x)

    with pytest.raises(LaminarError, match=r"at step 0 of epoch 0 .*, test_train_loop.py:\d+: IndexError: no such row") as caught:
        train(job(tmp_path / "train", model=Wrong()))
    assert caught.value.code == "L606"
    assert isinstance(caught.value.__cause__, IndexError)
    made = job(tmp_path / "test", epochs=1)
    made.model.head[0].register_forward_pre_hook(lambda m, _: None if m.training else 1 / 0)
    with pytest.raises(LaminarError, match="ZeroDivisionError") as caught:
        train(made)
    assert caught.value.code == "L606"


def test_batch_statistics_of_one_row_are_explained(tmp_path: Path) -> None:
    with pytest.raises(LaminarError, match="the batch has 1 row, of which there are no batch statistics") as caught:
        train(job(tmp_path / "one", batch=1))
    assert caught.value.code == "L606" and caught.value.hint.startswith("batch = 2 or more in train, or another norm")
    assert "the batch has 1 row" in events(tmp_path / "one", "failed")[0]["why"]
    train(job(tmp_path / "rest", data=images(train=33), epochs=1))  # of two batches of 16: the one that is left waits for another epoch


def test_a_full_disk_is_explained(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from laminar.core.events import EventLog

    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    made = job(tmp_path)
    monkeypatch.setattr(EventLog, "flush", full)
    with pytest.raises(LaminarError) as caught:
        train(made)
    assert caught.value.code == "L301"


def test_masks_may_be_infinite(tmp_path: Path) -> None:
    model = net()
    model.register_buffer("mask", torch.full((3,), float("-inf")))
    train(job(tmp_path, model=model, epochs=1))


def test_a_frozen_part_stays_frozen_and_in_eval_mode(tmp_path: Path) -> None:
    made = job(tmp_path, frozen=["features"])
    modes: list[bool] = []
    made.model.features[1].register_forward_hook(lambda m, *_: modes.append(m.training))
    before = {name: tensor.clone() for name, tensor in made.model.features.state_dict().items()}
    train(made)
    assert modes
    assert not any(modes)
    assert same_bits(before, made.model.features.state_dict())
    assert all(p.grad is None for p in made.model.features.parameters())


@pytest.mark.parametrize("every", [None, 2])
def test_a_frozen_tensor_that_changes_fails_the_run(every: int | None, tmp_path: Path) -> None:
    made = job(tmp_path, frozen=["features"], epochs=1, checkpoint_steps=every)
    made.model.features[0].register_forward_hook(lambda m, *_: (m.bias.data.add_(0.1), None)[1])
    with pytest.raises(LaminarError) as caught:
        train(made)
    assert caught.value.code == "L602"
    assert "features.0.bias" in caught.value.message
    saved, _ = checkpoint.newest(tmp_path)
    assert saved is None  # nothing to go on from that would hide it


@pytest.mark.parametrize("fails", [False, True])
def test_the_process_is_left_as_it_was_found(fails: bool, tmp_path: Path) -> None:
    made = job(tmp_path, threads=2)
    torch.manual_seed(7)
    handler = signal.getsignal(signal.SIGINT)
    before = (torch.get_num_threads(), torch.are_deterministic_algorithms_enabled(), threading.active_count())
    fill = torch.utils.deterministic.fill_uninitialized_memory
    seen: list[tuple[int, bool]] = []
    made.model.register_forward_pre_hook(lambda *_: seen.append((torch.get_num_threads(), torch.are_deterministic_algorithms_enabled())))
    if fails:
        poison(made, 3)
        with pytest.raises(LaminarError):
            train(made)
    else:
        train(made)
    assert set(seen) == {(2, True)}
    assert before == (torch.get_num_threads(), torch.are_deterministic_algorithms_enabled(), threading.active_count())
    assert torch.utils.deterministic.fill_uninitialized_memory is fill
    assert signal.getsignal(signal.SIGINT) is handler
    drawn = torch.rand(3)
    torch.manual_seed(7)
    assert torch.equal(drawn, torch.rand(3))


COMPILER = """\
import sys
from pathlib import Path
from train_jobs import job
from laminar.train.loop import train

for optimizer in ("sgd", "adam"):
    train(job(Path(optimizer), epochs=1, optimizer=optimizer))
sys.exit("torch._dynamo" in sys.modules)
"""


def test_no_compiler_is_loaded_for_it(tmp_path: Path) -> None:
    """It would take longer than all of torch."""
    path = os.pathsep.join([str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")])
    subprocess.run([sys.executable, "-c", COMPILER], cwd=tmp_path, env=os.environ | {"PYTHONPATH": path}, check=True, timeout=100)


def test_a_compiler_that_is_there_is_told_to_be_deterministic(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compiler, seen = SimpleNamespace(deterministic=False), []
    monkeypatch.setitem(sys.modules, "torch._inductor.config", compiler)
    made = job(tmp_path, epochs=1)
    made.model.register_forward_pre_hook(lambda *_: seen.append(compiler.deterministic))
    train(made)
    assert set(seen) == {True} and not compiler.deterministic


def test_training_works_in_a_thread(tmp_path: Path) -> None:
    """Where no signal handler may be set."""
    done: list[Any] = []
    thread = threading.Thread(target=lambda: done.append(train(job(tmp_path, epochs=1))))
    thread.start()
    thread.join()
    assert done[0].steps == 6


def test_a_second_ctrl_c_does_not_wait(tmp_path: Path) -> None:
    made = job(tmp_path)

    def twice(*_: Any) -> None:
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)

    made.model.register_forward_pre_hook(twice)
    with pytest.raises(KeyboardInterrupt):
        train(made)
    assert checkpoint.newest(tmp_path) == (None, [])


def test_ctrl_c_while_testing_the_last_epoch_keeps_the_whole_run(tmp_path: Path) -> None:
    made = job(tmp_path, epochs=1)
    made.model.register_forward_pre_hook(lambda m, _: None if m.training else signal.raise_signal(signal.SIGINT))
    with pytest.raises(KeyboardInterrupt):
        train(made)
    assert train(job(tmp_path, epochs=1)).resumed_from == 6


def test_checkpoints_come_by_time(tmp_path: Path) -> None:
    clock = FakeClock()
    made = job(tmp_path, clock=clock, checkpoint_seconds=10.0)
    made.model.register_forward_pre_hook(lambda m, _: clock.advance(4) if m.training else None)
    train(made)
    assert [(e["step"], e["why"]) for e in events(tmp_path, "checkpoint")] == [
        *((step, "time") for step in (3, 6, 9, 12, 15)),
        (18, "time"),
        (18, "end"),
    ]


def test_the_default_writes_one_checkpoint_in_a_short_run(tmp_path: Path) -> None:
    train(job(tmp_path))
    assert [e["why"] for e in events(tmp_path, "checkpoint")] == ["end"]


def test_a_last_batch_of_one_sample_is_left_out(tmp_path: Path) -> None:
    """Batch statistics of one sample do not exist; BatchNorm would refuse it."""
    made = job(tmp_path / "a", data=images(81))
    assert made.steps_per_epoch == 5
    assert train(made).steps == 15
    assert job(tmp_path / "b", data=images(82)).steps_per_epoch == 6
    whole = job(tmp_path / "c", data=images(81), batch=128)
    assert whole.steps_per_epoch == 1
    single = job(tmp_path / "d", data=images(1), model=nn.Sequential(nn.Flatten(), nn.Linear(36, 3)))
    assert train(single).steps == 3


def test_one_target_value_needs_no_dimension_of_its_own(tmp_path: Path) -> None:
    """(N,) against (N, 1) must not be broadcast to (N, N)."""
    data = numbers()
    data = Dataset(Split(data.train.x, data.train.y[:, :1]), Split(data.test.x, data.test.y[:, :1]), None)

    class Flat(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            torch.manual_seed(2)
            self.line = nn.Linear(5, 1)

        def forward(self, x: Tensor) -> Tensor:
            out: Tensor = self.line(x)[:, 0]
            return out

    assert train(job(tmp_path, model=Flat(), data=data, epochs=40, lr=0.05)).metrics["r2"] > 0.9


def test_finite_garbage_is_told(tmp_path: Path) -> None:
    data = images()
    data.test.y[:] = (data.test.y + 1) % 3  # what is learnt does not help
    astray = train(job(tmp_path / "astray", model=line_of_classes(), data=data, optimizer="sgd", lr=1e6))
    assert math.isfinite(astray.metrics["loss"])
    assert "warning: the test loss is" in astray.notes[-1] and "lower lr (it is 1e+06)" in astray.notes[-1]
    assert train(job(tmp_path / "good", model=line_of_classes())).notes == []


@pytest.mark.parametrize("loss", ["mse", "l1", "huber"])
def test_finite_garbage_is_told_of_regression(loss: str, tmp_path: Path) -> None:
    fields = {"data": numbers(), "optimizer": "sgd", "loss": loss}
    astray = train(job(tmp_path / "astray", model=nn.Linear(5, 2), lr=30.0 if loss == "mse" else 1e4, epochs=1, **fields))
    assert "times what guessing gives" in astray.notes[-1]
    assert train(job(tmp_path / "good", model=line(), lr=0.05, **fields)).notes == []


def line_of_classes() -> nn.Module:
    torch.manual_seed(3)
    return nn.Sequential(nn.Flatten(), nn.Linear(36, 3))

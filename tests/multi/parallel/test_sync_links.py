"""Sync over both links, with compression: what is learnt, what is told, and who may be killed or stopped on the way."""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from laminar.core.errors import LaminarError
from laminar.core.events import Event, nowhere, read
from laminar.stack.api import Stack
from tests.thinned import thinned

pytestmark = pytest.mark.usefixtures("warm_workers")

STACK = """\
[stack]
name = "team"

[data.digits]
source = "digits"
limit = 700

[[layer]]
name = "base"
model = "laminar:mlp"
args = {{ hidden = [24]{args} }}
data = "digits"
train = {{ epochs = {epochs}, batch = 50, lr = 0.01, seed = 0, threads = 1, {train} }}
"""
LINKS = ["memory", "gloo"]
DGC = 'compress = { kind = "dgc", sparsity = 0.9, warmup_epochs = 1 }'
DGC_TRAIN = 'optimizer = "sgd", momentum = 0.9, weight_decay = 1e-3, clip = 1.0'


def build(folder: Path, train: str, strategy: str = "", *, epochs: int = 4, args: str = "", emit: Callable[[Event], None] = nowhere) -> Any:
    folder.mkdir(parents=True, exist_ok=True)
    words = [train, f'strategy = {{ kind = "sync", {strategy} }}'] if strategy else [train]
    (folder / "laminar.toml").write_text(STACK.format(epochs=epochs, args=args, train=", ".join(words)))
    return Stack.load(folder / "laminar.toml").build(emit=emit).layers[0]


def events(folder: Path, kind: str) -> list[dict[str, Any]]:
    (path,) = (folder / ".laminar/runs").glob("*/events.jsonl")
    return [event for event in read(path) if event["event"] == kind]


def losses(folder: Path) -> list[float]:
    return [event["loss"] for event in events(folder, "step")]


def figures(folder: Path) -> list[tuple[Any, ...]]:
    return [(e["train"], e["test"], e["workers"], e["bytes"], e["dense_bytes"]) for e in events(folder, "epoch")]


def test_over_gloo_the_losses_are_those_of_one_process(tmp_path: Path) -> None:
    train = 'optimizer = "adamw", clip = 0.5'
    build(tmp_path / "alone", train)
    alone = losses(tmp_path / "alone")
    assert len(alone) >= 50
    for workers in (2, 3):
        heard: list[Event] = []
        build(tmp_path / str(workers), train, f'workers = {workers}, link = "gloo"', emit=heard.append)
        found = losses(tmp_path / str(workers))
        assert len(found) == len(alone)
        assert max(abs(a - b) for a, b in zip(alone[:50], found[:50], strict=True)) < 1e-5
        told = events(tmp_path / str(workers), "worker")
        assert [w["rank"] for w in told] == list(range(workers)) and len({w["pid"] for w in told}) == workers
        (team, *_) = [event["team"] for event in heard if event["event"] == "step"]
        assert team["workers"] == workers and team["bytes"] > 0 and team["staleness"] is None
        assert team["steps_per_second"] > 0 and team["samples_per_second"] > team["steps_per_second"]
        for epoch in events(tmp_path / str(workers), "epoch"):
            assert epoch["workers"] == workers and epoch["bytes"] == epoch["dense_bytes"] > 0
            assert len(epoch["busy"]) == workers and all(0 <= part <= 1 for part in epoch["busy"])


def test_over_gloo_steps_of_several_batches_are_those_of_one_process(tmp_path: Path) -> None:
    train = 'optimizer = "sgd", accumulate = 3'
    build(tmp_path / "alone", train)
    build(tmp_path / "three", train, 'workers = 3, link = "gloo"')
    alone, three = losses(tmp_path / "alone"), losses(tmp_path / "three")
    assert len(alone) == len(three) > 10
    assert max(abs(a - b) for a, b in zip(alone, three, strict=True)) < 1e-5


@pytest.mark.parametrize("link", thinned(LINKS))
def test_a_compressed_training_that_was_interrupted_goes_on_bit_by_bit(tmp_path: Path, link: str) -> None:
    strategy = f'workers = 2, link = "{link}", {DGC}'
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    build(whole, DGC_TRAIN, strategy, epochs=20, args=", dropout = 0.2")

    def interrupt(event: Event) -> None:
        if event["event"] == "step":
            signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        build(parts, DGC_TRAIN, strategy, epochs=20, args=", dropout = 0.2", emit=interrupt)
    stopped = events(parts, "checkpoint")[-1]["step"]
    assert 0 < stopped < len(losses(whole))
    layer = build(parts, DGC_TRAIN, strategy, epochs=20, args=", dropout = 0.2")
    assert events(parts, "resume")[0]["step"] == stopped
    assert losses(parts) == losses(whole)
    assert figures(parts) == figures(whole)  # also those of the epoch that was cut in two
    assert layer.metrics["accuracy"] > 0.7
    first, *_, last = events(parts, "epoch")
    assert first["bytes"] > last["bytes"] > 0  # the first epoch warms up
    assert last["bytes"] < last["dense_bytes"] / 5


def test_without_compression_nothing_goes_over_shared_memory(tmp_path: Path) -> None:
    heard: list[Event] = []
    build(tmp_path, 'optimizer = "adam"', "workers = 2", epochs=1, emit=heard.append)
    assert next(e["team"]["bytes"] for e in heard if e["event"] == "step") is None
    assert [(e["workers"], e["bytes"]) for e in events(tmp_path, "epoch")] == [(2, None)]


@pytest.mark.parametrize(("rank", "elastic"), [(1, "false"), (0, "true")])
def test_over_gloo_a_killed_worker_does_not_end_the_training(tmp_path: Path, rank: int, elastic: str) -> None:
    layer, pid = after_harm(tmp_path, signal.SIGKILL, rank, f'workers = 2, link = "gloo", elastic = {elastic}, {DGC}')
    assert layer.notes[0].startswith(f"worker {rank} (process {pid}) was ended by SIGKILL; training went on from step ")
    assert f"with {2 if elastic == 'true' else 1} worker" in layer.notes[0]


@pytest.mark.parametrize("link", thinned(LINKS))
def test_a_worker_that_stalls_is_not_waited_for_longer_than_the_timeout(tmp_path: Path, link: str) -> None:
    layer, pid = after_harm(tmp_path, signal.SIGSTOP, 1, f'workers = 2, link = "{link}", timeout = 4')
    assert layer.notes[0].startswith(f"worker 1 (process {pid}) was not heard of for 4 seconds; training went on from step ")


def after_harm(folder: Path, how: signal.Signals, rank: int, strategy: str) -> tuple[Any, int]:
    """The layer of a training one of whose workers was sent a signal, and the process that it was."""
    pids: list[int] = []

    def harm(event: Event) -> None:
        if event["event"] == "worker" and event["rank"] == rank:
            pids.append(event["pid"])
        if event["event"] == "checkpoint" and event["why"] == "time" and len(pids) == 1 and event["step"] >= 10:
            os.kill(pids[0], how)
            pids.append(0)

    layer = build(folder, DGC_TRAIN + ", checkpoint_seconds = 0.05", strategy, epochs=40, emit=harm)
    steps = [event["step"] for event in events(folder, "step")]
    assert steps == list(range(len(steps)))
    assert layer.metrics["accuracy"] > 0.8
    assert not Path(f"/proc/{pids[0]}").exists()
    return layer, pids[0]


def test_a_port_in_use_is_told_before_anything_starts(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(LaminarError) as caught:
            build(tmp_path, 'optimizer = "adam"', f'workers = 2, link = "gloo", port = {port}')
    assert (caught.value.code, caught.value.exit_code) == ("L405", 4)
    assert f"127.0.0.1:{port}" in caught.value.message

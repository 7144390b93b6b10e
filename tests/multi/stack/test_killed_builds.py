"""kill -9 at any moment leaves a good store, and the next build goes on and ends bit-equal; two builds train a shared layer once."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from laminar.core.events import read
from tests import warm
from tests.conftest import Example, write_example
from tests.thinned import thinned


def start(root: Path, *words: str) -> subprocess.Popen[str]:
    return warm.Popen(
        [sys.executable, "-m", "laminar", *words],
        cwd=root,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        stdin=subprocess.DEVNULL,
    )


def slow(example: Example) -> Example:
    """Many epochs, and a checkpoint after every step, so that a kill lands inside the training of the first layer."""
    example.edit("laminar.toml", "epochs = 2", "epochs = 40")
    example.edit("laminar.toml", "threads = 1", "threads = 1, checkpoint_seconds = 0")
    return example


@pytest.fixture(scope="module")
def unbroken(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    example = slow(write_example(tmp_path_factory.mktemp("unbroken") / "project"))
    return {name: built.id for name, built in example.build().items()}


@pytest.mark.parametrize("after", thinned([37, 1, 150]))
def test_a_killed_build_goes_on_and_ends_bit_equal(example: Example, unbroken: dict[str, str], after: int) -> None:
    slow(example)
    process = start(example.root, "build", "--json")
    events = _events_after(example, process, after)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert example.cli("verify", "--json").returncode == 0
    done = example.cli("build", "--json")
    layers = {layer["name"]: layer for layer in json.loads(done.stdout)["layers"]}
    assert {name: layer["id"] for name, layer in layers.items()} == unbroken
    resumed = [e for e in read(events) if e["event"] == "resume"]
    assert resumed and resumed[0]["step"] >= min(after, 1)
    steps = [e["step"] for e in read(events) if e["event"] == "step"]
    assert steps == list(range(len(steps)))


def _events_after(example: Example, process: subprocess.Popen[str], step: int) -> Path:
    """The event file of the run under way, once it tells of this step; looked at from time to time, as long as the build goes on."""
    while True:
        for found in (example.root / ".laminar" / "runs").glob("*/events.jsonl"):
            if any(event["event"] == "step" and event["step"] >= step for event in read(found)):
                return found
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(0.005)
            raise AssertionError(process.communicate())


def test_an_interrupt_keeps_a_checkpoint(example: Example, unbroken: dict[str, str]) -> None:
    slow(example)
    process = start(example.root, "build")
    _events_after(example, process, 5)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate()
    assert process.returncode == 130, said
    assert "laminar build" in said
    assert "Traceback" not in said
    done = json.loads(example.cli("build", "--json").stdout)
    assert {layer["name"]: layer["id"] for layer in done["layers"]} == unbroken


def test_two_builds_at_once_train_a_shared_layer_once(example: Example, tmp_path: Path) -> None:
    slow(example)
    other = slow(write_example(tmp_path / "other"))
    other.edit("laminar.toml", 'name = "digits"', 'name = "digits2"')
    other.edit("laminar.toml", "seed = 0, threads = 1 }   # quick", "seed = 1, threads = 1 }")
    env = {"LAMINAR_STORE": str(tmp_path / "shared")}
    processes = [
        warm.Popen(
            [sys.executable, "-m", "laminar", "build", "--json"],
            cwd=project.root,
            env={**os.environ, **env},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for project in (example, other)
    ]
    outputs = [process.communicate() for process in processes]
    assert [process.returncode for process in processes] == [0, 0], outputs
    reports = [{layer["name"]: layer for layer in json.loads(out)["layers"]} for out, _ in outputs]
    assert sorted(report["strokes"]["action"] for report in reports) == ["built", "cached"]
    assert reports[0]["strokes"]["id"] == reports[1]["strokes"]["id"]
    assert reports[0]["head"]["id"] != reports[1]["head"]["id"]
    # gc from one project keeps what the other stands on
    example.cli("gc", "--keep", "1", env=env)
    again = json.loads(other.cli("build", "--json", env=env).stdout)
    assert {layer["action"] for layer in again["layers"]} == {"cached"}

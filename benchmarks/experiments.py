"""Experiments: what the harness adds to its trials, and what a sweep of a top layer costs against as many full trainings.

    python benchmarks/experiments.py overhead | sweep

overhead: the same builds done directly, in a process that has loaded torch, and by `laminar experiment run`, by turns. What is counted: the
seconds from the first trial to the last that are no trial's own, as a share of the trials'; and all of them against the direct builds.
sweep: 20 rates of the top layer of three, against building all three layers 20 times (two such builds are run, and taken ten times).
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from laminar.core.heap import keep_freed_memory
from laminar.experiments.prepare import Prepared, prepare
from laminar.experiments.run import run
from laminar.experiments.spec import Sweep
from laminar.experiments.variants import apply
from laminar.stack.build import build
from laminar.stack.read import parse
from laminar.store.store import Store

ROUNDS, VARIANTS, REPEATS = 3, 2, 2  # of overhead
STACK = """
[stack]
name = "glyphs"
[data.letters]
source = "glyphs"
args = {{ domain = "letters", count = {count}, size = 16 }}
[data.digits]
source = "glyphs"
args = {{ domain = "digits", count = {count}, size = 16 }}
[[layer]]
name = "strokes"
model = "laminar:convnet"
args = {{ channels = [16, 32], hidden = [64] }}
data = "letters"
train = {{ epochs = {epochs}, batch = 64, threads = 1 }}
[[layer]]
name = "shapes"
freeze = ["features.conv0", "features.norm0"]
replace = {{ head = "laminar:head" }}
data = "digits"
train = {{ epochs = {epochs}, batch = 64, threads = 1 }}
[[layer]]
name = "head"
freeze = ["features"]
replace = {{ head = "laminar:head" }}
data = "digits"
train = {{ epochs = 3, batch = 64, threads = 1 }}
"""


def prepared(root: Path, sweep: Sweep, *, count: int, epochs: int) -> tuple[Prepared, Store]:
    root.mkdir(parents=True)
    path = root / "laminar.toml"
    path.write_text(STACK.format(count=count, epochs=epochs))
    store = Store.open(root / ".laminar")
    return prepare(sweep, parse(path.read_text(), path), store), store


def overhead(folder: Path) -> None:
    """By turns, so that a machine that gets slower slows both."""
    shares, ratios = [], []
    for number in range(ROUNDS):
        between, own = by_the_harness(folder / f"harness-{number}")
        words = [sys.executable, __file__, "direct", str(folder / f"direct-{number}")]
        direct = float(subprocess.run(words, check=True, capture_output=True, text=True).stdout)
        shares.append(100 * (between / own - 1))
        ratios.append(between / direct)
        print(f"{VARIANTS * REPEATS} trials: {own:.2f} s their own, {between:.2f} s in all; the same builds directly: {direct:.2f} s")
    against = ", ".join(f"{one:.3f}" for one in ratios)
    print(f"beside its trials the harness takes {min(shares):.2f} to {max(shares):.2f} %; with them {against} of direct builds")


def by_the_harness(folder: Path) -> tuple[float, float]:
    """Seconds from the end of the last warm-up to the end of all, and those of the trials themselves."""
    sweep = trials_of_strokes(even_if_busy=True)
    one, store = prepared(folder, sweep, count=3000, epochs=4)
    marks: list[float] = []
    trials = run(
        one.description, one.sweep, one.file, store, lambda e: marks.append(time.perf_counter()) if e["event"] == "experiment" else None
    )
    counted = [trial for trial in trials if trial.counted]
    assert len(counted) == VARIANTS * REPEATS
    return marks[-1] - marks[VARIANTS], sum(trial.wall for trial in counted)


def trials_of_strokes(*, even_if_busy: bool = False) -> Sweep:
    rates = [0.001, 0.003]
    assert len(rates) == VARIANTS
    return Sweep(name="o", layer="strokes", timed=True, even_if_busy=even_if_busy, warm_up=1, repeats=REPEATS, axes={"lr": rates})


def direct(folder: Path) -> None:
    import laminar.stack.train_layer  # noqa: F401

    keep_freed_memory()
    one, store = prepared(folder, trials_of_strokes(), count=3000, epochs=4)
    start = 0.0
    for repeat in range(-1, REPEATS):
        if repeat == 0:
            start = time.perf_counter()
        for variant in one.description.variants:
            stack = apply(one.file, one.description, variant, max(0, repeat), warm_up=repeat < 0)
            build(stack, store, targets=["strokes"], force=True, named=False)
    print(time.perf_counter() - start)


def sweep(folder: Path) -> None:
    rates = [round(0.0005 * 1.3**i, 6) for i in range(20)]
    full = []
    for number in range(2):
        words = [sys.executable, __file__, "full", str(folder / f"full-{number}")]
        full.append(float(subprocess.run(words, check=True, capture_output=True, text=True).stdout))
    one, store = prepared(folder / "sweep", Sweep(name="s", timed=False, repeats=1, axes={"lr": rates}), count=3000, epochs=4)
    start = time.perf_counter()
    trials = run(one.description, one.sweep, one.file, store)
    took = time.perf_counter() - start
    assert [trial.outcome for trial in trials] == ["done"] * 20
    all_full = 20 * statistics.fmean(full)
    print(
        f"20 points of the top layer: {took:.1f} s with the layers below and the start of the process; 20 full trainings: {all_full:.1f} s"
    )
    print(f"share: {took / all_full:.3f} (1/{all_full / took:.1f})")


def full(folder: Path) -> None:
    import laminar.stack.train_layer  # noqa: F401

    one, store = prepared(folder, Sweep(name="s", timed=False, repeats=1), count=3000, epochs=4)
    start = time.perf_counter()
    build(one.file, store)
    print(time.perf_counter() - start)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("what", choices=["overhead", "sweep", "direct", "full"])
    parser.add_argument("folder", nargs="?", type=Path)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        {"overhead": overhead, "sweep": sweep, "direct": direct, "full": full}[given.what](given.folder or Path(scratch) / "bench")

"""The founding paper's set-ups of a desktop grid (Kurochkin 2021), each with one command that prints its table beside the published one.

    LAMINAR_DATA=… python benchmarks/grid_founding.py sync  [--rounds 18] [--nodes 5]      textures in fragments, from a mirror
    LAMINAR_DATA=… python benchmarks/grid_founding.py async [--rounds 50] [--nodes 6]      Fashion-MNIST: SGD, and SGD with DGC

Servers, mirror and nodes are processes of their own, started as anybody would. In `sync` every task has a random local sample of its own,
6,000 fragments for training, balanced over the classes, fetched from the mirror; the layer is tested on 2,700 fragments of images that no
training sample touches. In `async` each answer is a step, aged by how old it is. Tasks are compared by adaptive replication, as by default.
Wanted: the paper's 0.792 for sync; for async DGC within 1.5 points of SGD, with 1/100 of the bytes or less.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

TEXTURES = """\
[stack]
name = "founding"

[data.textures]
source = "{index}"
fragment = {{ size = 48, overlap = 0.5, rotate = 30 }}
sample = {{ per_class = 667, test_per_class = 300, seed = 1 }}

[[layer]]
name = "net"
model = "laminar:convnet"
args = {{ channels = [16, 32, 64] }}
data = "textures"
train = {{ epochs = 18, batch = 64, optimizer = "adam", lr = 0.002, seed = 0, threads = 1 }}
"""
GARMENTS = """\
[stack]
name = "founding"

[data.garments]
source = "fashion-mnist"

[[layer]]
name = "net"
model = "laminar:convnet"
args = {{ channels = [16, 32], norm = false }}
data = "garments"
train = {{ epochs = 3, batch = 64, optimizer = "sgd", lr = {lr}, momentum = 0.9, seed = 0, threads = 1 }}
"""
PUBLISHED = {
    "sync": "synSGD, 18 iterations, 5 nodes, 12 + 3 textures: 0.792",
    "async": "50 iterations, 6 nodes, CIFAR: SGD 0.939, DGC 0.926",
}


def laminar(*words: str) -> list[str]:
    return [sys.executable, "-m", "laminar", *words]


@contextlib.contextmanager
def process(*words: str, cwd: Path) -> Iterator[dict[str, Any]]:
    """A command that serves, and the line in which it says where."""
    started = subprocess.Popen(laminar(*words), cwd=cwd, stdout=subprocess.PIPE, text=True)
    try:
        assert started.stdout is not None
        yield json.loads(started.stdout.readline())
    finally:
        started.terminate()
        started.wait(30)


def train(folder: Path, nodes: int, *words: str) -> dict[str, Any]:
    """A grid with so many nodes, and what came of a training on it."""
    with process("grid", "serve", "--port", "0", "--json", cwd=folder) as told:
        joined = []
        for i in range(nodes):
            how = ["--token", told["token"], "--name", f"n{i}", "--home", str(folder / f"n{i}"), "--cpu", "50%"]
            joined.append(subprocess.Popen(laminar("grid", "join", told["url"], *how), cwd=folder, stderr=subprocess.DEVNULL))
        try:
            began = time.monotonic()
            out = subprocess.check_output(laminar("grid", "train", "net", "-q", "--json", *words), cwd=folder)
            seconds = time.monotonic() - began
            run = json.loads(subprocess.check_output(laminar("grid", "status", "--json"), cwd=folder))["runs"][-1]
        finally:
            for node in joined:
                node.terminate()
            for node in joined:
                node.wait(30)
    (layer,) = json.loads(out)["layers"]
    return {"accuracy": layer["metrics"]["accuracy"], "seconds": seconds, "run": run}


def row(name: str, found: dict[str, Any]) -> None:
    run = found["run"]
    less = run["bytes"]["dense"] / max(1, run["bytes"]["up"])
    print(
        f"{name:8}{run['version']:>8}{run['answers']:>9}{found['accuracy']:>10.4f}{run['trust']['overhead']:>8.0%}"
        f"{run['bytes']['up'] / 1e6:>10.2f} MB  1/{less:.0f} of dense  staleness {run['staleness']:.2f}  {found['seconds']:.0f} s",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("which", choices=["sync", "async"])
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--nodes", type=int)
    parser.add_argument("--local-steps", type=int)
    args = parser.parse_args()
    print(f"published: {PUBLISHED[args.which]}")
    print(f"{'':8}{'steps':>8}{'answers':>9}{'accuracy':>10}{'twice':>8}{'up':>10}")
    with tempfile.TemporaryDirectory() as name, contextlib.ExitStack() as held:
        if args.which == "sync":
            images = Path(os.environ["LAMINAR_DATA"]) / "textures"
            serve = ["data", "serve", str(images), "--http", "0", "--host", "127.0.0.1", "--json"]
            mirror = held.enter_context(process(*serve, cwd=Path(name)))
            index = f"index:{mirror['urls'][0]}/index.json#sha256={mirror['sha256']}"
            (Path(name) / "laminar.toml").write_text(TEXTURES.format(index=index))
            nodes = args.nodes or 5
            steps = args.local_steps or 94  # once through the sample
            words = ["--workers", str(nodes), "--rounds", str(args.rounds or 18), "--quorum", "0.8", "--local-steps", str(steps)]
            row("sync", train(Path(name), nodes, *words))
            return
        for kind, lr, compress in (("SGD", 0.02, "none"), ("DGC", 0.02, "dgc:warmup_epochs=0,sparsity=0.995")):
            folder = Path(name) / kind
            folder.mkdir()
            (folder / "laminar.toml").write_text(GARMENTS.format(lr=lr))
            words = ["--mode", "async", "--workers", "6", "--rounds", str(args.rounds or 50), "--local-steps", str(args.local_steps or 60)]
            row(kind, train(folder, args.nodes or 6, *words, "--compress", compress))


if __name__ == "__main__":
    main()

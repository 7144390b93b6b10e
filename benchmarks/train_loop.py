"""Training loop: Laminar against the tightest hand-written loop, the usual DataLoader loop, and PyTorch Lightning.

    python benchmarks/train_loop.py                                          # needs Fashion-MNIST under $LAMINAR_DATA
    python benchmarks/train_loop.py --lightning-python /some/venv/bin/python    # a Python that has `lightning` and the same torch

Claims (samples per second, Fashion-MNIST, Adam):
    >= 0.95 x the tight loop      128-unit MLP and a small CNN, batches of 32 and 256
    >= 1.2  x the DataLoader loop  MLP, batches of 32
    >= 1.8  x Lightning            MLP, batches of 32

Every contender is a process of its own that lives through the benchmark; they take turns, round by round, with the same samples,
initial weights, threads and epochs, so that what else the machine does meets all of them. A ratio is the median over rounds of
(contender's time / Laminar's time) within the round: wall time, and processor time, which suffers less from neighbours.
One thread each by default: with one per core, any neighbour on the machine makes every contender wait at OpenMP's barriers, at random
and up to thirty times longer than a step takes, and no ratio means anything. `--threads` on a quiet machine.
Timed is training: gathering batches, forward, backward, step; no contender tests inside its time. Laminar writes its step history
and counts training accuracy in that time, the others do neither.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from figures import record

CONFIGS = {  # model, batch: samples of an epoch
    ("mlp", 32): 32_000,
    ("mlp", 256): 61_440,
    ("cnn", 32): 8_000,
    ("cnn", 256): 10_240,
}
BARS = {("tight", config): 0.95 for config in CONFIGS} | {("dataloader", ("mlp", 32)): 1.2, ("lightning", ("mlp", 32)): 1.8}
CONTENDERS = ("laminar", "tight", "dataloader", "dataloader-fused", "lightning")
LR = 1e-3


# ---- what all contenders share ----


def load(samples: int) -> tuple[Any, Any]:
    import numpy as np

    folder = Path(os.environ.get("LAMINAR_DATA", "data")) / "fashion-mnist"
    with gzip.open(folder / "train-images-idx3-ubyte.gz") as images, gzip.open(folder / "train-labels-idx1-ubyte.gz") as labels:
        x = np.frombuffer(images.read(), np.uint8, offset=16).reshape(-1, 1, 28, 28)
        y = np.frombuffer(labels.read(), np.uint8, offset=8).astype(np.int64)
    # a little more than there is where that makes whole batches; the same for everyone
    return np.resize(x, (samples, 1, 28, 28)), np.resize(y, samples)


def model_of(name: str) -> Any:
    import torch
    from torch import nn

    torch.manual_seed(0)
    if name == "mlp":
        return nn.Sequential(nn.Flatten(), nn.Linear(784, 128), nn.ReLU(), nn.Linear(128, 10))
    first = nn.Sequential(nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2))
    second = nn.Sequential(nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2))
    return nn.Sequential(first, second, nn.Flatten(), nn.Linear(32 * 49, 10))


class Timer:
    """Wall and processor time of what is inside."""

    def __enter__(self) -> Timer:
        self._wall, self._cpu = time.perf_counter(), time.process_time()
        return self

    def __exit__(self, *_: object) -> None:
        self.wall, self.cpu = time.perf_counter() - self._wall, time.process_time() - self._cpu


def tensors(x: Any, y: Any) -> tuple[Any, Any]:
    import torch

    return torch.from_numpy(x).float() / 255, torch.from_numpy(y)


# ---- contenders: (x, y, model, batch, epochs) -> Timer ----


def tight(x: Any, y: Any, model: Any, batch: int, epochs: int) -> Timer:
    """Tensors in memory, laid out once an epoch, fused Adam: nothing that could be left out is there."""
    import torch
    from torch.nn.functional import cross_entropy

    xs, ys = tensors(x, y)
    optimizer = torch.optim.Adam(model.parameters(), lr=LR, fused=True)
    model.train()
    with Timer() as timer:
        for _ in range(epochs):
            order = torch.randperm(len(xs))
            xe, ye = xs[order], ys[order]
            for i in range(0, len(xe), batch):
                optimizer.zero_grad(set_to_none=True)
                loss = cross_entropy(model(xe[i : i + batch]), ye[i : i + batch])
                loss.backward()
                optimizer.step()
    return timer


def dataloader(x: Any, y: Any, model: Any, batch: int, epochs: int, *, fused: bool | None = None) -> Timer:
    """What tutorials show."""
    import torch
    from torch.nn.functional import cross_entropy
    from torch.utils.data import DataLoader, TensorDataset

    loader = DataLoader(TensorDataset(*tensors(x, y)), batch_size=batch, shuffle=True)
    optimizer = torch.optim.Adam(model.parameters(), lr=LR, fused=fused)
    model.train()
    with Timer() as timer:
        for _ in range(epochs):
            for xb, yb in loader:
                optimizer.zero_grad()
                loss = cross_entropy(model(xb), yb)
                loss.backward()
                optimizer.step()
    return timer


def dataloader_fused(x: Any, y: Any, model: Any, batch: int, epochs: int) -> Timer:
    return dataloader(x, y, model, batch, epochs, fused=True)


def lightning(x: Any, y: Any, model: Any, batch: int, epochs: int) -> Timer:
    """`barebones` switches off logger, checkpoints, bar and summary: the setting Lightning documents for measuring overhead."""
    import logging
    import warnings

    import torch
    from lightning.pytorch import Callback, LightningModule, Trainer
    from torch.nn.functional import cross_entropy
    from torch.utils.data import DataLoader, TensorDataset

    warnings.simplefilter("ignore")
    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)

    class Module(LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.model = model

        def training_step(self, batch: Any, _: int) -> Any:
            return cross_entropy(self.model(batch[0]), batch[1])

        def configure_optimizers(self) -> Any:
            return torch.optim.Adam(self.parameters(), lr=LR, fused=True)

    timer = Timer()

    class Stopwatch(Callback):
        def on_train_start(self, *_: Any) -> None:
            timer.__enter__()

        def on_train_end(self, *_: Any) -> None:
            timer.__exit__()

    loader = DataLoader(TensorDataset(*tensors(x, y)), batch_size=batch, shuffle=True)
    Trainer(max_epochs=epochs, accelerator="cpu", devices=1, barebones=True, callbacks=[Stopwatch()]).fit(Module(), loader)
    return timer


def laminar(x: Any, y: Any, model: Any, batch: int, epochs: int) -> Timer:
    from laminar.core.clock import SYSTEM
    from laminar.data.dataset import Dataset, Split
    from laminar.train.job import Job
    from laminar.train.loop import train
    from laminar.train.recipe import Recipe

    data = Dataset(Split(x, y), Split(x[:batch], y[:batch]), tuple(map(str, range(10))))  # a test split too small to matter
    with tempfile.TemporaryDirectory() as folder:
        recipe = Recipe(epochs=epochs, batch=batch, lr=LR)
        job = Job(
            name="benchmark", model=model, data=data, recipe=recipe, frozen=None, folder=Path(folder), clock=SYSTEM, tensorboard=False
        )
        timer = Timer()

        def watch(event: dict[str, Any]) -> None:
            if event["event"] == "start":
                timer.__enter__()
            elif event["event"] == "end":
                timer.__exit__()

        train(job, watch)
    return timer


WORKERS: dict[str, Callable[[Any, Any, Any, int, int], Timer]] = {
    "laminar": laminar,
    "tight": tight,
    "dataloader": dataloader,
    "dataloader-fused": dataloader_fused,
    "lightning": lightning,
}


def work(name: str, threads: int) -> None:
    """A contender's process: one measurement per line asked for."""
    import torch

    torch.set_num_threads(threads)
    data: dict[int, Any] = {}
    print(json.dumps({"torch": torch.__version__}), flush=True)
    for line in sys.stdin:
        asked = json.loads(line)
        samples, batch = asked["samples"], asked["batch"]
        if samples not in data:
            data[samples] = load(samples)
        x, y = data[samples]
        model = model_of(asked["model"])
        WORKERS[name](x[: batch * 8], y[: batch * 8], model_of(asked["model"]), batch, 1)  # warm up: kernels, allocator, imports
        timer = WORKERS[name](x, y, model, batch, asked["epochs"])
        with torch.no_grad():
            xs, ys = tensors(x[:4096], y[:4096])
            learnt = float((model.eval()(xs).argmax(1) == ys).float().mean())
        print(json.dumps({"wall": timer.wall, "cpu": timer.cpu, "accuracy": learnt}), flush=True)


# ---- the benchmark ----


class Contender:
    def __init__(self, name: str, python: str, threads: int) -> None:
        command = [python, os.path.abspath(__file__), "--worker", name, "--threads", str(threads)]
        env = {**os.environ, "OMP_NUM_THREADS": str(threads)}
        self.name = name
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=env)
        self.torch = self._answer()["torch"]

    def measure(self, **asked: Any) -> dict[str, float]:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(asked) + "\n")
        self.process.stdin.flush()
        return self._answer()

    def _answer(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit(f"{self.name} died with code {self.process.wait()}")
        found: dict[str, Any] = json.loads(line)
        return found

    def close(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()


def has_lightning(python: str) -> bool:
    return subprocess.run([python, "-c", "import torch, lightning.pytorch"], capture_output=True, check=False).returncode == 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lightning-python", default=sys.executable, help="a Python with lightning and the same torch")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--only", nargs="*", help="such as mlp-32 cnn-256")
    parser.add_argument("--contenders", nargs="*", default=list(CONTENDERS))
    parser.add_argument("--json", type=Path, help="write the raw numbers here")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.worker:
        work(args.worker, args.threads)
        return 0

    names = [name for name in CONTENDERS if name in args.contenders]
    if "lightning" in names and not has_lightning(args.lightning_python):
        print("lightning: skipped, it is not installed; --lightning-python names a Python that has it")
        names.remove("lightning")
    found: dict[str, list[dict[str, float]]] = {}
    missed: list[str] = []
    contenders = [Contender(name, args.lightning_python if name == "lightning" else sys.executable, args.threads) for name in names]
    machine = f"{platform.machine()}, {os.cpu_count()} cores, {args.threads} threads"
    print(f"torch {contenders[0].torch}, Python {platform.python_version()}, {machine}")
    print(f"{args.rounds} rounds, {args.epochs} epochs each; ratio = Laminar's speed / the contender's\n")
    print(f"{'':10}{'':18}{'samples/s':>12}{'ratio':>9}{'by cpu':>9}{'bar':>7}{'learnt':>9}")
    try:
        for (model, batch), samples in CONFIGS.items():
            config = f"{model}-{batch}"
            if args.only and config not in args.only:
                continue
            rounds: dict[str, list[dict[str, float]]] = {name: [] for name in names}
            for number in range(args.rounds):
                turn = contenders[number % len(contenders) :] + contenders[: number % len(contenders)]
                for contender in turn:
                    rounds[contender.name].append(contender.measure(model=model, batch=batch, samples=samples, epochs=args.epochs))
            found |= {f"{config} {name}": results for name, results in rounds.items()}
            for name in names:
                wall, cpu = (
                    statistics.median(peer[kind] / own[kind] for peer, own in zip(rounds[name], rounds["laminar"], strict=True))
                    for kind in ("wall", "cpu")
                )
                speed = samples * args.epochs / statistics.median(result["wall"] for result in rounds[name])
                record(f"{config} {name}", speed)
                learnt = statistics.median(result["accuracy"] for result in rounds[name])
                bar = BARS.get((name, (model, batch)))
                if bar is not None and wall < bar:
                    missed.append(f"{config} against {name}: {wall:.2f}, wanted {bar}")
                ratio = "" if name == "laminar" else f"{wall:9.2f}{cpu:9.2f}{'' if bar is None else bar:>7}"
                print(f"{config:10}{name:18}{speed:12,.0f}{ratio:25}{learnt:9.3f}", flush=True)
    finally:
        for contender in contenders:
            contender.close()
    if args.json:
        args.json.write_text(json.dumps(found, indent=1))
    for line in missed:
        print(f"missed: {line}")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())

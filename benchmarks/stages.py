"""How much faster are two workers that share a model's operators than one process?

    LAMINAR_DATA=… python benchmarks/stages.py [--rounds 3] [--epochs 3] [--only mlp cnn branches] [--schedule 1f1b]
    LAMINAR_DATA=… python benchmarks/stages.py --memory

`laminar build` on samples of Fashion-MNIST with sgd, by one process on one thread and by two workers on one thread each, in turns:
mlp       sixteen hidden layers of 1024, batch 1024; a pipeline of 2 stages, 8 micro-batches. The limit is 2·8/9 = 1.78; wanted: 0.9 of it
cnn       nine 3x3 convolutions of 32 channels, batch 128; the same pipeline
branches  two Inception-like blocks of four branches; two lanes. Wanted: 1.6
A figure is samples/s of an epoch of training, as the run's events tell it: the median over the epochs but the first. Beside it stands
what the machine allows: two processes at once that have nothing to do with each other, both rates together against that of one alone.
`--memory`: instead, the most memory that a worker has at any time (VmHWM) against one process, for 500 MB of weights. Wanted: 0.6.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from figures import record
from mesh import run_build
from one_build import STACK

MODELS = '''\
import torch
from torch import nn


def conv(taken, made, size):
    return nn.Sequential(nn.Conv2d(taken, made, size, padding=size // 2), nn.ReLU())


class Block(nn.Module):
    """The branches of Inception-v3's first blocks (arXiv 1512.00567), with half of their channels."""

    def __init__(self, taken):
        super().__init__()
        self.one = conv(taken, 32, 1)
        self.five = nn.Sequential(conv(taken, 24, 1), conv(24, 32, 5))
        self.three = nn.Sequential(conv(taken, 32, 1), conv(32, 48, 3), conv(48, 48, 3))
        self.pool = nn.Sequential(nn.AvgPool2d(3, 1, 1), conv(taken, 32, 1))

    def forward(self, x):
        return torch.cat([self.one(x), self.five(x), self.three(x), self.pool(x)], 1)


class Wide(nn.Module):
    def __init__(self, classes):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(1, 96, 3, stride=2, padding=1), nn.ReLU())
        self.blocks = nn.Sequential(Block(96), Block(144))
        self.head = nn.Linear(144, classes)

    def forward(self, x):
        return self.head(self.blocks(self.stem(x)).mean((2, 3)))


def wide(classes):
    return Wide(classes)


def deep(classes):
    parts, taken = [], 1
    for _ in range(9):
        parts += [nn.Conv2d(taken, 32, 3, padding=1), nn.ReLU()]
        taken = 32
    return nn.Sequential(*parts, nn.AdaptiveAvgPool2d(4), nn.Flatten(), nn.Linear(32 * 16, classes))
'''

PIPE = "pipeline:stages=2,microbatches=8,schedule={schedule}"
KINDS = {
    "mlp": ("laminar:mlp", f"{{ hidden = {[1024] * 16} }}", 1024, 5_120, PIPE),
    "cnn": ("models:deep", "{ }", 128, 768, PIPE),
    "branches": ("models:wide", "{ }", 32, 1_280, "branches:lanes=2"),
    "memory": ("laminar:mlp", "{ hidden = [8192, 8192] }", 64, 640, PIPE),
}


def built(kind: str, epochs: int, strategy: str) -> tuple[float, dict[int, int], list[int]]:
    """Samples/s, the most bytes that each process had, and which of them were workers."""
    model, args, batch, samples, _ = KINDS[kind]
    train = f'epochs = {epochs}, batch = {batch}, optimizer = "sgd", lr = 0.01, seed = 0, threads = 1'
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        text = STACK.format(source="fashion-mnist", model=model, args=args, train=train)
        (folder / "laminar.toml").write_text(text.replace('source = "fashion-mnist"', f'source = "fashion-mnist"\nlimit = {samples}'))
        (folder / "models.py").write_text(MODELS)
        told, most = run_build(folder, "--strategy", strategy)
        return told.samples_per_second, most, [event["pid"] for event in told.all("worker")]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--only", nargs="+", default=["mlp", "cnn", "branches"])
    parser.add_argument("--schedule", default="1f1b")
    parser.add_argument("--memory", action="store_true")
    args = parser.parse_args()
    for kind in ["memory"] if args.memory else args.only:
        strategy = KINDS[kind][-1].format(schedule=args.schedule)
        if args.memory:
            _, one, _ = built(kind, 1, "solo")
            _, two, workers = built(kind, 1, strategy)
            alone, each = max(one.values()), [two[pid] for pid in workers]
            print(f"one process {alone / 1e6:,.0f} MB, workers {', '.join(f'{m / 1e6:,.0f}' for m in each)} MB: {max(each) / alone:.2f}")
            continue
        ratios, allowed = [], []
        for _ in range(args.rounds):
            alone, together = (built(kind, args.epochs, how)[0] for how in ("solo", strategy))
            with ThreadPoolExecutor(2) as pool:
                apart = sum(pool.map(lambda _: built(kind, args.epochs, "solo")[0], range(2)))  # noqa: B023
            record(f"{kind}, one process", alone)
            record(f"{kind}, two workers", together)
            ratios.append(together / alone)
            allowed.append(apart / alone)
            rates = f"one process {alone:,.0f} samples/s, two workers {together:,.0f}: {ratios[-1]:.2f}x"
            print(f"{kind}: {rates}; two processes apart {apart:,.0f}: {allowed[-1]:.2f}x", flush=True)
        both = [f"{statistics.median(some):.2f}x ({min(some):.2f} to {max(some):.2f})" for some in (ratios, allowed)]
        print(f"{kind}: {both[0]}, {strategy}; the machine allows {both[1]}", flush=True)


if __name__ == "__main__":
    main()

"""Do batches keep up with the tightest hand-written loop?

    python benchmarks/data_batches.py [--data fashion-mnist] [--rounds 5]

The peer keeps float32 tensors in memory, gathers x[perm] once an epoch and takes slices: nothing is left to save by hand.
Both loops train the same model with the same optimizer on one thread, in turns; the ratio is of the fastest epochs, and of the
medians. Wanted: 0.95 or more.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import torch
from torch import nn

from laminar.data.batches import Batches
from laminar.data.dataset import as_float
from laminar.data.open import open_data
from laminar.data.spec import DataSpec


def mlp() -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.LazyLinear(128), nn.ReLU(), nn.LazyLinear(10))


def cnn() -> nn.Module:
    return nn.Sequential(
        nn.LazyConv2d(8, 3), nn.ReLU(), nn.MaxPool2d(2), nn.LazyConv2d(16, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.LazyLinear(10)
    )


def stepper(model: nn.Module, x: torch.Tensor) -> Callable[[torch.Tensor, torch.Tensor], None]:
    model(x[:2])
    optimizer = torch.optim.Adam(model.parameters(), fused=True)
    loss_of = nn.CrossEntropyLoss()

    def step(bx: torch.Tensor, by: torch.Tensor) -> None:
        loss = loss_of(model(bx), by)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()

    return step


def nothing(bx: torch.Tensor, by: torch.Tensor) -> None:
    """No model: what is left is the cost of the batches alone."""


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", default="fashion-mnist")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--limit", type=int, default=None)
    parser.add_argument("--models", default="none,mlp,cnn")
    args = parser.parse_args()
    torch.set_num_threads(1)
    train = open_data(DataSpec(source=args.data, limit=args.limit), Path()).train
    x, y = torch.from_numpy(as_float(train.x)), torch.from_numpy(train.y)
    print(f"{args.data}: {len(x):,} samples, one thread, seconds per epoch (fastest of {args.rounds})")
    print(f"{'model':6}{'batch':>6}{'by hand':>10}{'batches':>10}{'ratio':>8}{'medians':>9}")
    for name in args.models.split(","):
        make = {"none": None, "mlp": mlp, "cnn": cnn}[name]
        for batch in (32, 256):
            model = make() if make else None
            step = stepper(model, x) if model else nothing

            def by_hand(step: Callable[..., None] = step, batch: int = batch) -> None:
                order = torch.randperm(len(x))
                xs, ys = x[order], y[order]
                for i in range(0, len(xs), batch):
                    step(xs[i : i + batch], ys[i : i + batch])

            times: dict[str, list[float]] = {"hand": [], "laminar": []}
            with Batches(train.x, train.y, batch=batch, seed=0) as batches:
                for epoch in range(args.rounds):
                    start = time.perf_counter()
                    by_hand()
                    middle = time.perf_counter()
                    for block in batches.epoch(epoch):
                        bx, by = torch.from_numpy(block.x[0]), torch.from_numpy(block.y)
                        for s in block.slices:
                            step(bx[s], by[s])
                    end = time.perf_counter()
                    times["hand"].append(middle - start)
                    times["laminar"].append(end - middle)
            best = min(times["hand"]), min(times["laminar"])
            medians = statistics.median(times["hand"]) / statistics.median(times["laminar"])
            print(f"{name:6}{batch:6}{best[0]:10.3f}{best[1]:10.3f}{best[0] / best[1]:8.2f}{medians:9.2f}", flush=True)


if __name__ == "__main__":
    main()

"""Do batches keep up with the tightest hand-written loop, with `DataLoader`, and with memory itself?

    python benchmarks/data_batches.py [--data fashion-mnist] [--rounds 5] [--part loops,loader,copy]

loops: the peer keeps float32 tensors in memory, gathers x[perm] once an epoch and takes slices: nothing is left to save by hand.
Both loops train the same model with the same optimizer on one thread, in turns; the ratio is of the fastest epochs, and of the
medians. Wanted: 0.95 or more.
loader: samples/s of shuffled, scaled batches against torch's `DataLoader` over a data set that gives one item at a time, with 0 to 4
workers; the ratio is against its best. Wanted: 10 or more.
copy: bytes of float32 delivered per second, in the middle of a run, against np.copyto that delivers as many, from float32 ("copy"), and
against the scaling of the stored bytes in their own order, without shuffling ("convert"). Wanted: 0.8 or more.
"""

from __future__ import annotations

import argparse
import statistics
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

from laminar.data.batches import Batches
from laminar.data.dataset import Split, as_float
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


class OneByOne(Dataset[tuple[torch.Tensor, int]]):
    """As people write it: an item is taken from the array, made a tensor, and scaled."""

    def __init__(self, split: Split) -> None:
        self.x, self.y = split.x, split.y

    def __len__(self) -> int:
        return len(self.y)

    def __getitem__(self, i: int) -> tuple[torch.Tensor, int]:
        return torch.from_numpy(self.x[i]).float() / 255, int(self.y[i])


def against_loader(train: Split, rounds: int) -> None:
    warnings.filterwarnings("ignore", message="This DataLoader will create")
    print(f"\n{'batch':>5}{'workers':>9}{'DataLoader':>12}{'batches':>12}{'ratio':>8}   samples/s, fastest epoch")
    for batch in (32, 256):
        with Batches(train.x, train.y, batch=batch, seed=0) as batches:
            ours = max(rate(train, lambda e: drain_blocks(batches, e), e) for e in range(rounds))
        best = 0.0
        for workers in (0, 1, 2, 4):
            loader = DataLoader(OneByOne(train), batch, shuffle=True, num_workers=workers, persistent_workers=workers > 0)
            theirs = max(rate(train, lambda _: sum(len(y) for _, y in loader), e) for e in range(2))  # noqa: B023
            best = max(best, theirs)
            print(f"{batch:5}{workers:9}{theirs:12,.0f}{ours:12,.0f}{ours / theirs:8.1f}", flush=True)
        print(f"{batch:5}{'best':>9}{best:12,.0f}{ours:12,.0f}{ours / best:8.1f}", flush=True)


def drain_blocks(batches: Batches, epoch: int) -> int:
    seen = 0
    for block in batches.epoch(epoch):
        x, y = torch.from_numpy(block.x[0]), torch.from_numpy(block.y)
        for s in block.slices:
            seen += len(y[s]) * bool(len(x[s]))
    return seen


def rate(train: Split, epoch: Callable[[int], int], number: int) -> float:
    start = time.perf_counter()
    assert epoch(number) == len(train)
    return len(train) / (time.perf_counter() - start)


def against_memory(train: Split, rounds: int) -> None:
    floats = as_float(train.x)
    out = np.empty_like(floats)
    times: dict[str, list[float]] = {"batches": [], "copy": [], "convert": []}
    with Batches(train.x, train.y, batch=64, seed=0) as batches:
        for turn in range(rounds):
            for name, work in (
                ("batches", lambda: drain_blocks(batches, 2 * turn + 1)),  # noqa: B023
                ("copy", lambda: np.copyto(out, floats)),
                ("convert", lambda: as_float(train.x, out)),
            ):
                if name == "batches":
                    drain_blocks(batches, 2 * turn)  # of an epoch right after another nothing lies ready
                start = time.perf_counter()
                work()
                times[name].append(time.perf_counter() - start)
                time.sleep(0.1)  # the thread fills its buffers and waits: no neighbour of the copy
    print(f"\n{'':10}{'GB/s':>8}{'median':>8}{'ratio':>8}{'medians':>9}   float32 delivered; {train.x.dtype} stored")
    for name, took in times.items():
        best, middle = floats.nbytes / min(took) / 1e9, floats.nbytes / statistics.median(took) / 1e9
        ratios = min(took) / min(times["batches"]), statistics.median(took) / statistics.median(times["batches"])
        print(f"{name:10}{best:8.2f}{middle:8.2f}{ratios[0]:8.2f}{ratios[1]:9.2f}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", default="fashion-mnist")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--limit", type=int, default=None)
    parser.add_argument("--models", default="none,mlp,cnn")
    parser.add_argument("--part", default="loops,loader,copy")
    args = parser.parse_args()
    torch.set_num_threads(1)
    train = open_data(DataSpec(source=args.data, limit=args.limit), Path()).train
    if "loops" in args.part:
        against_loops(train, args)
    if "loader" in args.part:
        against_loader(train, args.rounds)
    if "copy" in args.part:
        against_memory(train, 5 * args.rounds)


def against_loops(train: Split, args: argparse.Namespace) -> None:
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

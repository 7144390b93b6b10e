"""How much faster are two workers than one process?

    LAMINAR_DATA=… python benchmarks/sync.py [--rounds 3] [--epochs 5] [--cases mlp-256,mlp-1024,cnn-256] [--gloo] [--one-core] [--allowed]

`laminar build` of one layer on Fashion-MNIST with Adam, by one process on one thread and by `--strategy sync --workers 2`, in turns. A
figure is the samples/s of an epoch of training, testing left out, as the run's own events tell it: the median over the epochs but the
first, and over the rounds. The limit on two cores is 2.0. `--gloo` adds two workers that meet over torch.distributed on the loopback
device instead of in shared memory, as they would on two machines, against the same one process. One process gathers its next batches on
another thread, so it has most of a core besides; `--one-core` adds it bound to a single core, as each worker has one to itself.
`--allowed` adds what the machine allows: two such processes at once, a core and half of the batch each, that have nothing to do with each
other. It is below 2.0 where half of the samples take more than half of the time, and where two cores are not twice one. It is no upper
limit: each of the two makes the whole of an optimizer's step, which workers share out.
Wanted: 1.4 (mlp, batch 256), 1.75 (mlp, batch 1024), 1.85 (cnn, batch 256).
"""

from __future__ import annotations

import argparse
import statistics
from concurrent.futures import ThreadPoolExecutor

from figures import record
from one_build import build


def samples_per_second(case: str, epochs: int, *words: str, core: int | None = None, share: int = 1) -> float:
    """`share`: of the batch, one part of so many."""
    model, _, batch = case.partition("-")
    train = f"epochs = {epochs}, batch = {int(batch) // share}, lr = 0.001, seed = 0, threads = 1"
    return build(model, train, *words, before=() if core is None else ("taskset", "-c", str(core))).samples_per_second


def apart(case: str, epochs: int) -> float:
    with ThreadPoolExecutor(2) as pool:
        return sum(pool.map(lambda core: samples_per_second(case, epochs, core=core, share=2), range(2)))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--cases", default="mlp-256,mlp-1024,cnn-256")
    parser.add_argument("--gloo", action="store_true")
    parser.add_argument("--one-core", action="store_true")
    parser.add_argument("--allowed", action="store_true")
    args = parser.parse_args()
    print(f"{'case':10}{'':30}{'one':>10}{'two':>10}{'ratio':>8}{'worst':>8}{'best':>8}")
    for case in args.cases.split(","):
        found: dict[str, list[float]] = {}
        for _ in range(args.rounds):
            for name, rate in one_round(case, args).items():
                found.setdefault(name, []).append(rate)
                record(f"{case}, {name}", rate)
        peers = {"two workers, one process": ("one process", "two workers")}
        if args.one_core:
            peers["two workers, one core"] = ("on one core", "two workers")
        if args.gloo:
            peers["over gloo, one process"] = ("one process", "over gloo")
        if args.allowed:
            peers["apart, one process"] = ("one process", "apart")
            if args.one_core:
                peers["apart, one core"] = ("on one core", "apart")
        for name, (below, above) in peers.items():
            ratios = sorted(two / one for one, two in zip(found[below], found[above], strict=True))
            one, two = statistics.median(found[below]), statistics.median(found[above])
            print(
                f"{case:10}{name:30}{one:>10,.0f}{two:>10,.0f}{statistics.median(ratios):>8.2f}{ratios[0]:>8.2f}{ratios[-1]:>8.2f}",
                flush=True,
            )


def one_round(case: str, args: argparse.Namespace) -> dict[str, float]:
    rates = {
        "one process": samples_per_second(case, args.epochs),
        "two workers": samples_per_second(case, args.epochs, "--strategy", "sync", "--workers", "2"),
    }
    if args.one_core:
        rates["on one core"] = samples_per_second(case, args.epochs, core=0)
    if args.gloo:
        rates["over gloo"] = samples_per_second(case, args.epochs, "--strategy", "sync:link=gloo", "--workers", "2")
    if args.allowed:
        rates["apart"] = apart(case, args.epochs)
    return rates


if __name__ == "__main__":
    main()

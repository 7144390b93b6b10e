"""Downpour against one process: steps per second, and accuracy after as many epochs.

    LAMINAR_DATA=… python benchmarks/downpour.py [--model mlp|cnn] [--rounds 3] [--epochs 5] [--batch 256] [--n 12]

`laminar build` of one layer (a hidden layer of 128, or two convolutions) on Fashion-MNIST: by one process on one thread, by one worker and
one server, and by two workers and one server, in turns, without the first epoch, as the runs' own events tell. One process trains an
epoch, then tests; with downpour the chief tests while the workers train the next. So samples per second are counted in two ways: `all`
from the end of a test to the end of the last one, training and tests, which is the same work for each; `train` without the time in which
one process tests, which the others' tests still slow down.
`--solo` and `--server` are their optimizers and rates: pushes of several steps want a higher one.
Wanted: one worker >= 0.9, two workers >= 1.7 of one process; accuracy of two workers within 1 point of it.
"""

from __future__ import annotations

import argparse
import statistics

from one_build import build


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", choices=["mlp", "cnn"], default="mlp")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--n", type=int, default=12, help="steps between pushes, and between fetches")
    parser.add_argument("--solo", default='optimizer = "adam", lr = 0.001')
    parser.add_argument("--server", default='optimizer = "adam", lr = 0.01')
    parser.add_argument("--more", default="", help="further settings of the strategy")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    common = f"epochs = {args.epochs}, batch = {args.batch}, seed = {args.seed}, threads = 1"
    strategy = f"n_push = {args.n}, n_fetch = {args.n}{args.more and ', ' + args.more}"
    recipes = {
        "one process": f"{common}, {args.solo}",
        "1 worker, 1 server": f'{common}, {args.server}, strategy = {{ kind = "downpour", workers = 1, {strategy} }}',
        "2 workers, 1 server": f'{common}, {args.server}, strategy = {{ kind = "downpour", workers = 2, {strategy} }}',
    }
    found = [{name: build(args.model, train) for name, train in recipes.items()} for _ in range(args.rounds)]
    print(f"{'':28}{'samples/s':>12}{'ratio':>8}{'worst':>8}{'best':>8}{'accuracy':>10}  staleness")
    for name in recipes:
        accuracy = statistics.median(one[name].accuracy for one in found)
        ages = (found[-1][name].all("end")[-1].get("team") or {}).get("ages", "")
        for what, figure in (("all", "samples_per_second_with_tests"), ("train", "samples_per_second")):
            rates = [getattr(one[name], figure) for one in found]
            ratios = sorted(getattr(one[name], figure) / getattr(one["one process"], figure) for one in found)
            print(
                f"{name:22}{what:6}{statistics.median(rates):>12,.0f}{statistics.median(ratios):>8.2f}{ratios[0]:>8.2f}{ratios[-1]:>8.2f}"
                f"{accuracy:>10.4f}  {ages}",
                flush=True,
            )


if __name__ == "__main__":
    main()

"""Downpour against one process: steps per second, and accuracy after as many epochs.

    LAMINAR_DATA=… python benchmarks/downpour.py [--model mlp|cnn] [--rounds 3] [--epochs 5] [--batch 256] [--n 16]

`laminar build` of one layer (a hidden layer of 128, or two convolutions) on Fashion-MNIST: by one process on one thread, by one worker and
one server, and by two workers and one server, in turns, without the first epoch, as the runs' own events tell. One process trains an
epoch, then tests; with downpour the chief tests while the workers train the next. So samples per second are counted in two ways: `all`
from the end of a test to the end of the last one, training and tests, which is the same work for each; `train` without the time in which
one process tests, which the others' tests still slow down.
`--solo`, `--one` and `--two` are their optimizers and rates: two workers that push steps have twice the rate of one process
(docs/explanation-parallel-training.md). Gradients: `--n 12 --more '' --one 'optimizer = "adam", lr = 0.01'` and `--two` alike.
Wanted: one worker >= 0.9, two workers >= 1.7 of one process; accuracy of two workers within 1 point of it.
"""

from __future__ import annotations

import argparse
import statistics

from figures import record
from one_build import build


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", choices=["mlp", "cnn"], default="mlp")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--n", type=int, default=16, help="steps between pushes, and between fetches")
    parser.add_argument("--solo", default='optimizer = "adam", lr = 0.002')
    parser.add_argument("--one", default="", help="as --solo, of one worker; the same if left out")
    parser.add_argument("--two", default='optimizer = "adam", lr = 0.004', help="as --solo, of two workers")
    parser.add_argument("--more", default='push = "steps", smooth = 100', help="further settings of the strategy")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    common = f"epochs = {args.epochs}, batch = {args.batch}, seed = {args.seed}, threads = 1"
    strategy = f"n_push = {args.n}, n_fetch = {args.n}{args.more and ', ' + args.more}"
    recipes = {
        "one process": f"{common}, {args.solo}",
        "1 worker, 1 server": f'{common}, {args.one or args.solo}, strategy = {{ kind = "downpour", workers = 1, {strategy} }}',
        "2 workers, 1 server": f'{common}, {args.two}, strategy = {{ kind = "downpour", workers = 2, {strategy} }}',
    }
    found = [{name: build(args.model, train) for name, train in recipes.items()} for _ in range(args.rounds)]
    print(f"{'':28}{'samples/s':>12}{'ratio':>8}{'worst':>8}{'best':>8}{'accuracy':>10}  staleness")
    for name in recipes:
        accuracies = [one[name].accuracy for one in found]
        ages = (found[-1][name].all("end")[-1].get("team") or {}).get("ages", "")
        for what, figure in (("all", "samples_per_second_with_tests"), ("train", "samples_per_second")):
            rates = [getattr(one[name], figure) for one in found]
            record(f"{name}, {what}", statistics.median(rates))
            ratios = sorted(getattr(one[name], figure) / getattr(one["one process"], figure) for one in found)
            print(
                f"{name:22}{what:6}{statistics.median(rates):>12,.0f}{statistics.median(ratios):>8.2f}{ratios[0]:>8.2f}{ratios[-1]:>8.2f}"
                f"{statistics.median(accuracies):>10.4f}  {ages}",
                flush=True,
            )
        print(f"{'':22}accuracies {' '.join(f'{one:.4f}' for one in accuracies)}")


if __name__ == "__main__":
    main()

"""How much faster is a plan priced by editing the last simulation than by building and simulating all of it, and is it the same?

    python benchmarks/plan_delta.py [--part speed,walk,exact] [--rounds 5] [--edits 100] [--walk 10000] [--exact 10000]

A network like Inception, each operator split along rows, length and channels over any devices (FlexFlow's SOAP), forward and backward, with
transfers and summed gradients. An edit splits one operator anew, at random.

speed: an edit, half of them undone again (which is counted in), against making all tasks and simulating them; the same splits, in turns.
The medians of the rounds. Wanted: 4 times faster or more (FlexFlow's paper: 2.2 to 6.9 times, in C++).
walk: so many evaluations of a search that takes or undoes each edit (Metropolis), 288 operators on 8 devices, with the check against a full
simulation at every 1000th; from all operators split along rows, as FlexFlow begins, and from random splits, which lead to twice as many
tasks. Wanted: 60 s or less for 10,000.
exact: so many edits of the same operators, half of them undone: after each edit and each undo, every task has to begin and end as in a
full simulation, to the last bit. Wanted: no mismatch. Takes minutes.
"""

from __future__ import annotations

import argparse
import math
import statistics
import time
from random import Random

from laminar.plan.delta import Simulation
from laminar.plan.simulate import simulate
from laminar.testing.soap import Soap, Split, inception

SIZES = [(4, 288), (8, 288), (16, 288), (16, 626)]  # devices, operators with those of the way back
BETA = 1000.0  # an edit that makes it 0.1 % slower is taken with a chance of 1/e


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--part", default="speed,walk,exact")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--edits", type=int, default=100)
    parser.add_argument("--walk", type=int, default=10_000)
    parser.add_argument("--exact", type=int, default=10_000)
    args = parser.parse_args()
    parts = args.part.split(",")
    if "speed" in parts:
        for devices, operators in SIZES:
            speed(Soap(inception(operators // 2), devices), args.rounds, args.edits)
    soap = Soap(inception(144), 8)
    if "walk" in parts:
        walk(soap, "rows", soap.over_rows(), args.walk)
        walk(soap, "random splits", any_splits(soap, Random(0)), args.walk)
    if "exact" in parts:
        exact(soap, args.exact)


def any_splits(soap: Soap, rng: Random) -> list[Split]:
    return [soap.any_split(operator, rng) for operator in range(len(soap.graph))]


def speed(soap: Soap, rounds: int, edits: int) -> None:
    delta, full, tasks = [], [], 0
    for seed in range(rounds):
        rng = Random(seed)
        simulation = Simulation(soap, any_splits(soap, rng), check_every=0)
        moves = [(operator, soap.any_split(operator, rng), rng.random() < 0.5) for operator in rng.choices(range(len(soap.graph)), k=edits)]
        tried, found, spent = [], [], 0.0
        for operator, split, undone in moves:
            begin = time.perf_counter()
            found.append(simulation.change({operator: split}))
            spent += time.perf_counter() - begin
            tried.append(simulation.configs)
            begin = time.perf_counter()
            if undone:
                simulation.undo()
            spent += time.perf_counter() - begin
        delta.append(1e3 * spent / edits)
        tasks = len(simulation.timeline())
        del simulation  # a search without it would not have it in memory
        some = tried[:: max(1, edits // 25)]
        begin = time.perf_counter()
        same = [simulate(soap.everything(splits)).seconds for splits in some]
        full.append(1e3 * (time.perf_counter() - begin) / len(some))
        if same != found[:: max(1, edits // 25)]:
            raise SystemExit(f"not the same, in round {seed}")
    ratios = [a / b for a, b in zip(full, delta, strict=True)]
    print(
        f"{soap.devices:2} devices, {soap.operators} operators, {tasks} tasks: full {statistics.median(full):.2f} ms, "
        f"delta {statistics.median(delta):.2f} ms, ratio {statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})",
        flush=True,
    )


def walk(soap: Soap, name: str, start: list[Split], evaluations: int) -> None:
    rng = Random(1)
    begin = time.perf_counter()
    simulation = Simulation(soap, start)
    first = now = best = simulation.seconds
    taken = 0
    for _ in range(evaluations):
        operator = rng.randrange(len(soap.graph))
        then = simulation.change({operator: soap.any_split(operator, rng)})
        if then <= now or rng.random() < math.exp(-BETA * (then - now) / now):
            now, taken = then, taken + 1
            best = min(best, now)
        else:
            simulation.undo()
    spent = time.perf_counter() - begin
    print(
        f"from {name}: {evaluations} evaluations in {spent:.1f} s, {1e3 * spent / evaluations:.2f} ms each; {taken} taken, "
        f"{1e3 * first:.2f} to {1e3 * best:.2f} ms a step, {len(simulation.timeline())} tasks",
        flush=True,
    )


def exact(soap: Soap, edits: int) -> None:
    rng = Random(1)
    simulation = Simulation(soap, any_splits(soap, rng), check_every=0)
    before, wrong, undone = simulation.timeline(), 0, 0
    for _ in range(edits):
        operator = rng.randrange(len(soap.graph))
        seconds = simulation.change({operator: soap.any_split(operator, rng)})
        want = simulate(soap.everything(simulation.configs))
        wrong += simulation.timeline() != want or seconds != want.seconds
        if rng.random() < 0.5:
            undone += 1
            wrong += simulation.undo() != before.seconds or simulation.timeline() != before
        else:
            before = want
    print(f"{wrong} mismatches in {edits} edits and {undone} undone ones of {len(before)} tasks", flush=True)


if __name__ == "__main__":
    main()

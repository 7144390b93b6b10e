"""Does the circuit pay where a network calls a kernel?

    python benchmarks/kernel_circuit_calls.py [--rounds 15] [--part three,loop,halves,cholesky,lcs,sizes]

All by `laminar.kernel`, first on one thread of PyTorch and then on two, by turns; on one the kernel runs as scalar code. Every kernel is
called with few rounds first, and then with many. The bits of both are compared each time.

three: three independent equal calls of 10 ms or more each, `rounds` a parameter. Wanted: 0.72 of one thread's time or less; 0.667 is ideal.
loop, halves: `for (t ...) y[t] = heavy(x[t])`, and two loops over the halves of an array. Wanted: 1.8 times faster or more.
cholesky, lcs: examples/kernels, blocks of 96 x 96 in a matrix of 1,152, and of 2,048 x 2,048 of 8,192. Wanted: faster than one thread.
sizes: three independent calls of 0.3 ms to 10 ms each, as a circuit and whole, by turns: from which size on it pays.
Times of processors (`processor`) are told beside those of the clock: other programs change the one and not the other.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from figures import record

import laminar
from laminar.kernels.circuit.apart import Pairs
from laminar.kernels.circuit.build import build
from laminar.kernels.circuit.guess import Odds
from laminar.kernels.circuit.native_call import call
from laminar.kernels.circuit.run import run_circuit
from laminar.kernels.compile.variants import Variants
from laminar.kernels.language.kernel import read_kernel

EXAMPLES = Path(__file__).parent.parent / "examples" / "kernels"
HEAVY = """
#pragma laminar instances 1
double heavy(double a, int rounds) { double s = a; for (int k = 0; k < rounds; k++) s = s * 0.999999 + a; return s; }
"""
THREE = f"""{HEAVY}
void kernel(int i, int count, int rounds, const double x[3], out double y[1]) {{
    double a = heavy(x[0], rounds);
    double b = heavy(x[1], rounds);
    double c = heavy(x[2], rounds);
    y[0] = a + b + c;
}}
"""
LOOP = f"""{HEAVY}
void kernel(int i, int count, int n, int rounds, const double x[n], out double y[n]) {{
    for (int t = 0; t < n; t++) y[t] = heavy(x[t], rounds);
}}
"""
HALVES = f"""{HEAVY}
void kernel(int i, int count, int n, int rounds, const double x[n], out double y[n]) {{
    for (int t = 0; t < n / 2; t++) y[t] = heavy(x[t], rounds);
    for (int t = n / 2; t < n; t++) y[t] = heavy(x[t], rounds);
}}
"""
WARM = 6  # calls in which ways are measured


def in_turns(ask: Callable[[], torch.Tensor], rounds: int) -> dict[int, tuple[list[float], list[float]]]:
    """Seconds, and seconds of processors, of calls on one thread and on two."""
    spent: dict[int, tuple[list[float], list[float]]] = {1: ([], []), 2: ([], [])}
    for number in range(-WARM, rounds):
        answers = []
        for threads, (wall, processor) in spent.items():
            torch.set_num_threads(threads)
            began, worked = time.perf_counter(), time.process_time()
            answers.append(ask())
            if number >= 0:
                wall.append(time.perf_counter() - began)
                processor.append(time.process_time() - worked)
        assert answers[0].numpy().tobytes() == answers[1].numpy().tobytes(), "other bits on two threads"
    return spent


def rounds_for(seconds: float) -> int:
    """Of `heavy`, on one thread."""
    rounds, run = 1 << 16, laminar.kernel("three.c", source=THREE)
    x = torch.linspace(0.1, 0.9, 3, dtype=torch.float64)
    torch.set_num_threads(1)
    run(x, rounds=rounds)
    least = min(_seconds(lambda: run(x, rounds=rounds)) for _ in range(5)) / 3
    return int(rounds * seconds / least * 1.1)


def _seconds(work: Callable[[], Any]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def say(what: str, spent: dict[int, tuple[list[float], list[float]]], wanted: str) -> None:
    one, two = (statistics.median(spent[threads][0]) for threads in (1, 2))
    processor = [statistics.median(spent[threads][1]) for threads in (1, 2)]
    ratios = sorted(second / first for first, second in zip(spent[1][0], spent[2][0], strict=True))
    spread = f"{ratios[len(ratios) // 4]:.2f} to {ratios[-1 - len(ratios) // 4]:.2f}"
    times = f"{1e3 * one:.1f} and {1e3 * two:.1f} ms, processor {1e3 * processor[0]:.1f} and {1e3 * processor[1]:.1f} ms"
    print(f"{what}: {two / one:.3f} of the time, {one / two:.2f}x ({times}; half of the pairs {spread}); wanted {wanted}", flush=True)
    record(f"{what}: one thread", one, better="lower")
    record(f"{what}: two threads", two, better="lower")


def heavies(what: str, text: str, n: int, rounds: int, many: int, wanted: str) -> None:
    run, x = laminar.kernel(f"{what}.c", source=text), torch.linspace(0.1, 0.9, n, dtype=torch.float64)
    for _ in range(5):
        run(x, rounds=10)
    say(what, in_turns(lambda: run(x, rounds=many), rounds), wanted)


def cholesky(rounds: int) -> None:
    run, n = laminar.kernel(EXAMPLES / "cholesky.c"), 1152
    made = torch.randn(n, n, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    a = made @ made.T + n * torch.eye(n, dtype=torch.float64)
    found = torch.tril(run(a))
    off = float((found @ found.T - a).abs().max() / a.abs().max())
    assert off < 1e-12, off
    say("cholesky", in_turns(lambda: run(a), rounds), "less than one thread")


def lcs(rounds: int) -> None:
    run, n = laminar.kernel(EXAMPLES / "lcs.c"), 8192
    x, y = (torch.randint(0, 4, (n,), dtype=torch.int32, generator=torch.Generator().manual_seed(seed)) for seed in (0, 1))
    say("lcs", in_turns(lambda: run(x, y), rounds), "less than one thread")


def sizes(rounds: int, unit: int) -> None:
    """`unit`: rounds of a call of 10 ms."""
    kernel = read_kernel(THREE)
    circuit = build(kernel)
    pairs, whole = Pairs(circuit), Variants(kernel).scalar
    for milliseconds in (0.1, 0.3, 0.5, 1.0, 2.0, 5.0, 10.0):
        many, odds = int(unit * milliseconds / 10), Odds()
        times: tuple[list[float], list[float]] = ([], [])
        for number in range(-4, rounds):
            x, y, z = np.linspace(0.1, 0.9, 3), np.zeros(1), np.zeros(1)
            one = _seconds(lambda x=x, y=y, many=many: whole.run([x, y], [many], 1))  # type: ignore[misc]
            arrays = {"x": x, "y": z}
            began = time.perf_counter()
            run_circuit(circuit, call, arrays, {"rounds": many}, 1, threads=2, odds=odds, pairs=pairs)
            two = time.perf_counter() - began
            assert y.tobytes() == z.tobytes()
            if number >= 0:
                times[0].append(one)
                times[1].append(two)
        first, second = (1e3 * statistics.median(some) for some in times)
        print(f"three calls of {milliseconds:g} ms: whole {first:.2f} ms, as a circuit {second:.2f} ms: {second / first:.2f}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--part", default="three,loop,halves,cholesky,lcs,sizes")
    args = parser.parse_args()
    parts = args.part.split(",")
    many = rounds_for(0.010)
    print(f"{many:,} rounds are a call of some 11 ms", flush=True)
    if "three" in parts:
        heavies("three", THREE, 3, args.rounds, many, "0.72 or less")
    if "loop" in parts:
        heavies("loop", LOOP, 64, args.rounds, many // 10, "1.8x or more")
    if "halves" in parts:
        heavies("halves", HALVES, 64, args.rounds, many // 10, "1.8x or more")
    if "cholesky" in parts:
        cholesky(args.rounds)
    if "lcs" in parts:
        lcs(args.rounds)
    if "sizes" in parts:
        sizes(args.rounds, many)


if __name__ == "__main__":
    main()

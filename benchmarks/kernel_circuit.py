"""What do circuits and guesses bring on two threads?

    python benchmarks/kernel_circuit.py [--rounds 9]

independent: one instance with 8 functions that take some milliseconds each, and a sum: two threads against one. Wanted: 1.8 times faster.
right guesses: a condition that takes as long as what stands under it, always true: guesses against none, two threads. Wanted: 1.3.
wrong guesses: the same, never true, and every function guessed although it was never right before: time with guesses against none, on
two threads of which one has nothing else to do. Wanted: 1.05 at most.
loop: a while whose condition takes as long as its body: guesses against none.
In turns; medians; each run is checked against the kernel run as a whole.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from figures import record

from laminar.kernels.circuit.apart import Pairs
from laminar.kernels.circuit.build import build
from laminar.kernels.circuit.guess import Odds
from laminar.kernels.circuit.native_call import call
from laminar.kernels.circuit.run import run_circuit
from laminar.kernels.language.kernel import read_kernel
from laminar.kernels.language.tree import Kernel

SLOW = "double slow(double a, int m) { double s = a; for (int k = 0; k < 2000000; k++) s = s * 0.999999 + a * (double)m; return s; }\n"
SUMS = " + ".join("abcdefgh")
INDEPENDENT = "".join(f"    double {name} = slow(x[i], {number});\n" for number, name in enumerate("abcdefgh", 1))
HEAD = "void kernel(int i, int n, const double x[n], double y[n]) {\n"
KERNELS = {
    "independent": f"{SLOW}{HEAD}{INDEPENDENT}    y[i] = {SUMS};\n}}\n",
    "right": f"{SLOW}{HEAD}    double r = 1.0;\n    if (slow(x[i], 1) > 0.0) r = slow(x[i], 2);\n    y[i] = r;\n}}\n",
    "wrong": f"{SLOW}{HEAD}    double r = 1.0;\n    if (slow(x[i], 1) < 0.0) r = slow(x[i], 2);\n    y[i] = r;\n}}\n",
    "loop": f"{SLOW}{HEAD}    double t = x[i];\n    while (slow(t, 1) < 1e12) {{ t = slow(t, 2) * 0.001; }}\n    y[i] = t;\n}}\n",
}


class Always(Odds):
    def worth(self, function: Any, instances: int) -> bool:  # noqa: ARG002
        return True


def timed(kernel: Kernel, rounds: int, **two: dict[str, Any]) -> dict[str, float]:
    circuit = build(kernel)
    pairs = Pairs(circuit)
    x = np.full(1, 0.75)
    spent: dict[str, list[float]] = {name: [] for name in two}
    answers = set()
    for _ in range(rounds + 1):
        for name, options in two.items():
            arrays: Mapping[str, np.ndarray[Any, Any]] = {"x": x, "y": np.zeros(1)}
            began = time.perf_counter()
            run_circuit(circuit, call, arrays, {}, 1, pairs=pairs, **options)
            spent[name].append(time.perf_counter() - began)
            answers.add(float(arrays["y"][0]))
    assert len(answers) == 1, answers
    return {name: statistics.median(some[1:]) for name, some in spent.items()}


def say(what: str, found: dict[str, float], over: Sequence[str], wanted: str) -> None:
    for name, seconds in found.items():
        record(f"{what}: {name}", seconds, better="lower")
    times = ", ".join(f"{name} {1e3 * seconds:.1f} ms" for name, seconds in found.items())
    print(f"{what}: {found[over[0]] / found[over[1]]:.2f} ({times}); wanted {wanted}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=9)
    args = parser.parse_args()
    kernels = {name: read_kernel(text) for name, text in KERNELS.items()}
    found = timed(kernels["independent"], args.rounds, one={"threads": 1}, two={"threads": 2})
    say("8 independent functions, two threads against one", found, ("one", "two"), "1.8 or more")
    plain: dict[str, Any] = {"threads": 2, "guess": False}
    found = timed(kernels["right"], args.rounds, none=plain, guesses={"threads": 2, "odds": Odds()})
    say("slow condition, always true, guesses against none", found, ("none", "guesses"), "1.3 or more")
    found = timed(kernels["wrong"], args.rounds, none=plain, guesses={"threads": 2, "odds": Always()})
    say("slow condition, never true, every guess wrong: time against none", found, ("guesses", "none"), "1.05 or less")
    found = timed(kernels["loop"], args.rounds, none=plain, guesses={"threads": 2, "odds": Odds()})
    say("loop with a slow condition, guesses against none", found, ("none", "guesses"), "-")


if __name__ == "__main__":
    main()

"""What do kernels cost beside their work: counting, calling them from torch, compiling them?

    python benchmarks/kernel_overheads.py [--rounds 31] [--part counting,calling,compiling]

counting   native code with counters, bounds and (where instances may meet) race detection, against the same kernel without; the emulator's
           counts come from such code. Both are called with the same arrays, in turns. Wanted: at most 1.5 times.
calling    a kernel of 64 elements from torch without gradients, with torch's own operation beside it; and with gradients. Wanted: at most
           8 us without.
compiling  from the text of each kernel of kernels.py: without anything on the disk, and with. Wanted: at most 300 ms and 5 ms.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
from collections.abc import Callable

import numpy as np
import torch
from kernels import CONVOLUTION, LEAKY, LINE, POOL, PRODUCT, SAXPY, STENCIL, TANH, cases

import laminar
from laminar.kernels.circuit.counted_phases import CountedPhases
from laminar.kernels.circuit.native_phases import NativePhases
from laminar.kernels.compile.bench import in_turns, random_arrays
from laminar.kernels.compile.instrumented import Instrumented
from laminar.kernels.compile.native import compiled
from laminar.kernels.language.kernel import read_kernel

SCATTER = "void kernel(int i, int n, const int at[n], const float x[n], float y[n]) { y[at[i]] = x[i] + y[at[i]]; }"
TWO = """void kernel(int i, int n, const int at[n], const float x[n], float y[2 * n]) { y[at[i]] = x[i]; y[at[i] + n] = 2.0f * x[i]; }"""
SWEEPS = """void kernel(int i, int n, const float x[n], inout float z[n], inout float y[n]) {
    z[i] = x[i];
    for (int k = 0; k < 20; k++) {
        barrier();
        y[i] = 0.5f * z[i] + 0.5f * z[(i + 1) % n];
        barrier();
        z[i] = y[i];
    }
}"""
TEXTS = {
    "leaky": LEAKY,
    "saxpy": SAXPY,
    "tanh": TANH,
    "stencil": STENCIL,
    "line stencil": LINE,
    "product": PRODUCT,
    "convolution": CONVOLUTION,
    "pool": POOL,
}


def counting(rounds: int) -> None:
    wanted = ("leaky 1048576", "stencil 512x512", "product 128", "convolution 28x28", "pool 2x2")
    some = {case.name: (case.text, case.values, case.count, {}) for case in cases() if case.name in wanted}
    order = np.random.default_rng(0).permutation(1 << 17).astype("int32")
    some["scatter 131072"] = (SCATTER, {}, 1 << 17, {"at": order})
    some["two scatters 131072"] = (TWO, {}, 1 << 17, {"at": order})
    print(f"{'counting':24}{'plain us':>10}{'counted':>10}{'times':>8}")
    for name, (text, values, count, given) in some.items():
        kernel = read_kernel(text)
        arrays = random_arrays(kernel, values, count, given, name)
        numbers = [values[one.name] for one in kernel.values]
        counted = Instrumented(kernel).bound(arrays, values, count)
        assert counted is not None
        if not counted():
            raise SystemExit(f"{name}: something was found that is not there")
        plain = compiled(kernel).bound(arrays, numbers, count)
        times = {way: statistics.median(one) for way, one in in_turns({"plain": plain, "counted": counted}, rounds).items()}
        print(f"{name:24}{times['plain'] * 1e6:>10.1f}{times['counted'] * 1e6:>10.1f}{times['counted'] / times['plain']:>8.2f}")


def counting_with_barriers(rounds: int) -> None:
    """Whole runs, with copies of the arrays: phases keep what they have counted from one to the next."""
    kernel, count = read_kernel(SWEEPS), 1 << 17
    arrays = dict(zip("xzy", random_arrays(kernel, {}, count, {}, "sweeps"), strict=True))
    counted, native = CountedPhases.of(kernel), NativePhases(kernel)
    assert counted is not None

    def plain() -> None:
        native.run([np.array(one) for one in arrays.values()], [], count)

    def watched() -> None:
        if counted.run(arrays, {}, count) is None:
            raise SystemExit("sweeps: something was found that is not there")

    watched()
    times = {way: statistics.median(one) for way, one in in_turns({"plain": plain, "counted": watched}, rounds).items()}
    print(f"{'sweeps, 41 phases':24}{times['plain'] * 1e6:>10.1f}{times['counted'] * 1e6:>10.1f}{times['counted'] / times['plain']:>8.2f}")


def each(way: Callable[[], object], calls: int = 2000) -> float:
    """Microseconds of a call: the median of rows of them."""
    found = []
    for _ in range(9):
        start = time.perf_counter()
        for _ in range(calls):
            way()
        found.append((time.perf_counter() - start) / calls * 1e6)
    return statistics.median(found[1:])


def calling() -> None:
    leaky, saxpy = laminar.kernel("leaky.c", source=LEAKY), laminar.kernel("saxpy.c", source=SAXPY)
    x, z = torch.randn(64), torch.randn(64)
    grad = torch.randn(64, requires_grad=True)
    print(f"{'calling, 64 elements':34}{'us':>8}")
    with torch.no_grad():
        print(f"{'leaky(x, slope=0.1)':34}{each(lambda: leaky(x, slope=0.1)):>8.2f}")
        print(f"{'saxpy(x, z, a=0.7)':34}{each(lambda: saxpy(x, z, a=0.7)):>8.2f}")
        print(f"{'torch.add, for scale':34}{each(lambda: torch.add(x, z)):>8.2f}")
    print(f"{'leaky with a gradient wanted':34}{each(lambda: leaky(grad, slope=0.1)):>8.2f}")
    print(f"{'torch.leaky_relu with one':34}{each(lambda: torch.nn.functional.leaky_relu(grad, 0.1)):>8.2f}")


def compiling() -> None:
    print(f"{'compiling':24}{'cold ms':>10}{'cached':>10}")
    with tempfile.TemporaryDirectory() as folder:
        os.environ["LAMINAR_CACHE"] = folder
        compiled(read_kernel("void kernel(int i, int n, float y[n]) { y[i] = i; }"))  # loads LLVM
        for name, text in TEXTS.items():
            kernel = read_kernel(text)
            start = time.perf_counter()
            compiled(kernel)
            cold = time.perf_counter()
            cached = []
            for _ in range(5):
                again = time.perf_counter()
                compiled(kernel)
                cached.append(time.perf_counter() - again)
            print(f"{name:24}{(cold - start) * 1e3:>10.1f}{statistics.median(cached) * 1e3:>10.2f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=31)
    parser.add_argument("--part", default="counting,calling,compiling")
    given = parser.parse_args()
    torch.set_num_threads(1)
    parts = given.part.split(",")
    if "counting" in parts:
        counting(given.rounds)
        counting_with_barriers(given.rounds)
    if "calling" in parts:
        calling()
    if "compiling" in parts:
        compiling()


if __name__ == "__main__":
    main()

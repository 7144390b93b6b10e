"""How fast is native code of kernels, beside gcc, OpenMP, Numba and torch?

    python benchmarks/kernels.py [--rounds 21] [--numba PYTHON] [--only leaky,stencil]

Each kernel's text goes to `gcc -O3 -march=native` as it is, in a loop over the instances, and to the same with OpenMP on two threads.
torch does the same operation with its own functions. Contenders on one thread take turns, so that a busy moment of the machine meets all of
them; those on two are called many times in a row, in turns of such rows. Ratios are of medians (peer / ours: above 1 we are faster).
`--numba` names an interpreter that has Numba, which need not be Laminar's: the same loops with prange, in a process of its own, whose rows
of calls take turns with ours. All work on the same memory, which both processes share: of an array's own memory it is up to chance whether
its pages are large, which may matter.
Wanted, on one thread: element-wise and stencil kernels at least 0.95 of gcc, matrix products up to n = 256 at least 10 times gcc and 0.6 of
torch.mm, a 3x3 convolution at least 0.5 of torch. On two: at least 0.95 of OpenMP and Numba.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import re
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TypeAlias

import numpy as np
import torch
from figures import record

from laminar.kernels.compile.bench import in_turns, random_arrays
from laminar.kernels.compile.native import Options, compiled
from laminar.kernels.language.kernel import read_kernel
from laminar.kernels.language.tree import Kernel

ROWS: Final = 9
TYPES = {"int": ctypes.c_int32, "long": ctypes.c_int64, "float": ctypes.c_float, "double": ctypes.c_double, "bool": ctypes.c_bool}


@dataclass(frozen=True)
class Case:
    name: str
    text: str
    values: dict[str, float]
    count: int
    torch: Callable[..., Any] | None = None  # of the arrays, as tensors
    numba: str = ""  # the body, with i for the instance
    exact: bool = True  # gcc computes the same bits
    given: dict[str, Any] = field(default_factory=dict)


LEAKY = """void kernel(int i, int n, float slope, const float x[n], float y[n]) {
    float v = x[i];
    if (v < 0.0f) v = slope * v;
    y[i] = v;
}"""
SAXPY = "void kernel(int i, int n, float a, const float x[n], const float z[n], float y[n]) { y[i] = a * x[i] + z[i]; }"
TANH = "void kernel(int i, int n, const float x[n], float y[n]) { y[i] = tanhf(x[i]); }"
STENCIL = """void kernel(int i, int count, int h, int w, const float x[h][w], float y[h][w]) {
    int row = i / w;
    int col = i % w;
    if (row > 0 && row < h - 1 && col > 0 && col < w - 1)
        y[row][col] = 0.5f * x[row][col] + 0.125f * (x[row - 1][col] + x[row + 1][col] + x[row][col - 1] + x[row][col + 1]);
    else
        y[row][col] = x[row][col];
}"""
LINE = """void kernel(int i, int n, const float x[n], float y[n]) {
    if (i > 0 && i < n - 1) y[i] = 0.25f * x[i - 1] + 0.5f * x[i] + 0.25f * x[i + 1];
    else y[i] = x[i];
}"""
PRODUCT = """void kernel(int i, int count, int n, const float a[n][n], const float b[n][n], float c[n][n]) {
    int row = i / n;
    int col = i % n;
    float sum = 0.0f;
    for (int k = 0; k < n; k++) sum += a[row][k] * b[k][col];
    c[row][col] = sum;
}"""
CONVOLUTION = """void kernel(int i, int count, int images, int ins, int outs, int h, int w, const float x[images][ins][h][w],
            const float k[outs][ins][3][3], const float b[outs], float y[images][outs][h][w]) {
    int col = i % w;
    int row = (i / w) % h;
    int out = (i / (w * h)) % outs;
    int image = i / (w * h * outs);
    float sum = b[out];
    for (int in_ = 0; in_ < ins; in_++)
        for (int dy = 0; dy < 3; dy++)
            for (int dx = 0; dx < 3; dx++) {
                int yy = row + dy - 1;
                int xx = col + dx - 1;
                if (yy >= 0 && yy < h && xx >= 0 && xx < w) sum += k[out][in_][dy][dx] * x[image][in_][yy][xx];
            }
    y[image][out][row][col] = sum;
}"""
POOL = """void kernel(int i, int count, int planes, int h, int w, const float x[planes][2 * h][2 * w], float y[planes][h][w]) {
    int col = i % w;
    int row = (i / w) % h;
    int plane = i / (w * h);
    float best = x[plane][2 * row][2 * col];
    for (int dy = 0; dy < 2; dy++)
        for (int dx = 0; dx < 2; dx++) best = fmaxf(best, x[plane][2 * row + dy][2 * col + dx]);
    y[plane][row][col] = best;
}"""


def cases() -> list[Case]:
    found = []
    for size in (1 << 17, 1 << 20):
        found += [
            Case(
                f"leaky {size}",
                LEAKY,
                {"slope": 0.1},
                size,
                lambda x, _: torch.nn.functional.leaky_relu(x, 0.1),
                "v = x[i]\ny[i] = v if v >= 0 else slope * v",
            ),
            Case(
                f"saxpy {size}",
                SAXPY,
                {"a": 0.7},
                size,
                lambda x, z, y: torch.add(z, x, alpha=0.7, out=y),
                "y[i] = a * x[i] + z[i]",
                exact=False,
            ),
            Case(f"tanh {size}", TANH, {}, size, lambda x, y: torch.tanh(x, out=y), "y[i] = math.tanh(x[i])", exact=False),
            Case(
                f"line stencil {size}",
                LINE,
                {},
                size,
                None,
                "y[i] = 0.25 * x[i - 1] + 0.5 * x[i] + 0.25 * x[i + 1] if 0 < i < n - 1 else x[i]",
                exact=False,
            ),
        ]
    found.append(Case("stencil 512x512", STENCIL, {"h": 512, "w": 512}, 512 * 512, exact=False))
    found += [
        Case(f"product {n}", PRODUCT, {"n": n}, n * n, lambda a, b, c: torch.mm(a, b, out=c), exact=False)
        for n in (64, 100, 128, 200, 256, 512)
    ]
    sizes = {"images": 4, "ins": 32, "outs": 32, "h": 32, "w": 32}
    found.append(
        Case(
            "convolution 32x32",
            CONVOLUTION,
            sizes,
            4 * 32 * 32 * 32,
            lambda x, k, b, _: torch.nn.functional.conv2d(x, k, b, padding=1),
            exact=False,
        )
    )
    sizes = {"images": 8, "ins": 16, "outs": 16, "h": 28, "w": 28}
    found.append(
        Case(
            "convolution 28x28",
            CONVOLUTION,
            sizes,
            8 * 16 * 28 * 28,
            lambda x, k, b, _: torch.nn.functional.conv2d(x, k, b, padding=1),
            exact=False,
        )
    )
    sizes = {"planes": 128, "h": 32, "w": 32}
    found.append(Case("pool 2x2", POOL, sizes, 128 * 32 * 32, lambda x, _: torch.nn.functional.max_pool2d(x, 2)))
    return found


def wrapped(kernel: Kernel, text: str) -> str:
    """The kernel, and loops over its instances."""
    given = [one for one in kernel.parameters if one.role in ("value", "array")]
    declared = re.search(r"void kernel\((.*?)\)\s*\{", text, re.S)
    assert declared is not None
    rest = declared.group(1).split(",", 2)[2]
    count = f"int {kernel.count.name}"
    call = f"kernel((int)i_, {kernel.count.name}, {', '.join(one.name for one in given)});"
    loops = f"void alone({count}, {rest}) {{ for (long i_ = 0; i_ < {kernel.count.name}; i_++) {call} }}\n"
    loops += f"void together({count}, {rest}) {{\n#pragma omp parallel for schedule(static) num_threads(2)\n"
    loops += f"for (long i_ = 0; i_ < {kernel.count.name}; i_++) {call} }}\n"
    return "#include <math.h>\n#include <stdbool.h>\nstatic inline " + text + "\n" + loops


def by_gcc(folder: Path, case: Case, kernel: Kernel, arrays: list[Any]) -> dict[str, Callable[[], None]]:
    source, library = folder / "kernel.c", folder / f"{case.name.replace(' ', '_')}.so"
    source.write_text(wrapped(kernel, case.text))
    subprocess.run(["gcc", "-O3", "-march=native", "-fopenmp", "-shared", "-fPIC", source, "-o", library, "-lm"], check=True)
    loaded = ctypes.CDLL(str(library))
    rest: list[Any] = []
    by_name = dict(zip((one.name for one in kernel.arrays), arrays, strict=True))
    for one in kernel.parameters:
        if one.role == "value":
            rest.append(TYPES[one.of.type](case.values[one.name]))
        elif one.role == "array":
            rest.append(ctypes.c_void_p(by_name[one.name].ctypes.data))
    return {
        "gcc": lambda: loaded.alone(ctypes.c_int(case.count), *rest),
        "gcc OpenMP 2": lambda: loaded.together(ctypes.c_int(case.count), *rest),
    }


NUMBA = """
import json, math, sys, time
import numba, numpy as np
numba.set_num_threads(min(2, numba.config.NUMBA_NUM_THREADS))
case = json.loads(sys.stdin.readline())
arrays = {{name: np.memmap(path, "float32", "r+").view(np.ndarray) for name, path in case["arrays"].items()}}
@numba.njit(parallel=True, fastmath=False)
def work(n, {names}):
    for i in numba.prange(n):
{body}
given = [case["count"], *(np.float32(one) for one in case["values"]), *arrays.values()]
work(*given)
for line in sys.stdin:
    times = []
    for number in range(int(line) + 10):
        start = time.perf_counter(); work(*given); times.append(time.perf_counter() - start)
    print(json.dumps(times[10:]), flush=True)
"""

Row: TypeAlias = Callable[[int], list[float]]
"""Seconds of so many calls, one right after another; some before do not count."""


def row_of(way: Callable[[], None]) -> Row:
    def row(rounds: int) -> list[float]:
        found = []
        for _ in range(rounds + 10):
            start = time.perf_counter()
            way()
            found.append(time.perf_counter() - start)
        return found[10:]

    return row


def in_rows(ways: dict[str, Row], rounds: int) -> dict[str, list[float]]:
    """Rows in turns: who has threads keeps them awake for a while, and they would be in the way of others."""
    found: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(ROWS):
        for name, row in ways.items():
            time.sleep(0.1)
            found[name] += row(rounds)
    return found


@contextmanager
def by_numba(python: str | None, case: Case, kernel: Kernel, files: list[Path]) -> Iterator[dict[str, Row]]:
    if not python or not case.numba:
        yield {}
        return
    body = "\n".join("        " + line for line in case.numba.split("\n"))
    names = ", ".join([*(one.name for one in kernel.values), *(one.name for one in kernel.arrays)])
    told = {
        "count": case.count,
        "arrays": {one.name: str(path) for one, path in zip(kernel.arrays, files, strict=True)},
        "values": list(case.values.values()),
    }
    with subprocess.Popen(
        [python, "-c", NUMBA.format(names=names, body=body)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None and process.stdout is not None
        print(json.dumps(told), file=process.stdin, flush=True)

        def row(rounds: int) -> list[float]:
            print(rounds, file=process.stdin, flush=True)
            found: list[float] = json.loads(process.stdout.readline())  # type: ignore[union-attr]
            return found

        row(1)  # compiles
        yield {"Numba 2": row}
        process.stdin.close()


def in_files(folder: Path, arrays: list[np.ndarray[Any, Any]]) -> tuple[list[np.ndarray[Any, Any]], list[Path]]:
    """The same numbers in memory that other processes can have, too."""
    files = [folder / f"array{number}" for number in range(len(arrays))]
    found: list[np.ndarray[Any, Any]] = []
    for array, path in zip(arrays, files, strict=True):
        path.unlink(missing_ok=True)
        made = np.memmap(path, array.dtype, "w+", shape=array.shape)
        made[...] = array
        found.append(made.view(np.ndarray))
    return found, files


def measured(case: Case, folder: Path, rounds: int, numba: str | None) -> dict[str, float]:
    """Median seconds of each contender."""
    kernel = read_kernel(case.text)
    arrays, files = in_files(folder, random_arrays(kernel, case.values, case.count, case.given, case.name))
    numbers = [case.values[one.name] for one in kernel.values]
    native = compiled(kernel, Options(cached=False))
    gcc = by_gcc(folder, case, kernel, arrays)
    ways: dict[str, Callable[[], None]] = {"ours": native.bound(arrays, numbers, case.count), "gcc": gcc["gcc"]}
    result = arrays[-1]
    ways["ours"]()
    mine = result.copy()
    ways["gcc"]()
    if not np.allclose(mine, result, atol=1e-3) or (case.exact and mine.tobytes() != result.tobytes()):
        raise SystemExit(f"{case.name}: gcc has another result")
    if case.torch is not None:
        tensors = [torch.from_numpy(one) for one in arrays]
        operate = case.torch

        def by_torch() -> None:
            operate(*tensors)

        ways["torch"] = by_torch
    several = {"ours 2": row_of(native.bound(arrays, numbers, case.count, 2)), "gcc OpenMP 2": row_of(gcc["gcc OpenMP 2"])}
    found = {name: statistics.median(times) for name, times in in_turns(ways, rounds).items()}
    with by_numba(numba, case, kernel, files) as third:
        found |= {name: statistics.median(times) for name, times in in_rows({**several, **third}, rounds).items()}
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=21)
    parser.add_argument("--numba", metavar="PYTHON")
    parser.add_argument("--only", default="")
    given = parser.parse_args()
    torch.set_num_threads(1)
    os.environ.setdefault("OMP_NUM_THREADS", "2")
    print(f"{'':24}{'ours us':>10}{'2 threads':>10}{'gcc':>9}{'torch 1':>9}{'OpenMP 2':>10}{'Numba 2':>9}    peer / ours")
    memory = "/dev/shm" if os.path.isdir("/dev/shm") else None  # files that are in memory and nowhere else
    with tempfile.TemporaryDirectory(dir=memory) as folder, torch.no_grad():
        for case in cases():
            if given.only and not any(case.name.startswith(one) for one in given.only.split(",")):
                continue
            found = measured(case, Path(folder), given.rounds, given.numba)
            ours, two = found["ours"], found["ours 2"]
            record(f"{case.name}, one thread", ours, better="lower")
            record(f"{case.name}, two threads", two, better="lower")
            cells = [
                found["gcc"] / ours,
                found.get("torch", 0) / ours,
                found["gcc OpenMP 2"] / two,
                found.get("Numba 2", 0) / two,
            ]
            text = "".join(f"{one:>{width}.2f}" if one else f"{'':>{width}}" for one, width in zip(cells, (9, 9, 10, 9), strict=True))
            print(f"{case.name:24}{ours * 1e6:>10.1f}{two * 1e6:>10.1f}{text}")


if __name__ == "__main__":
    main()

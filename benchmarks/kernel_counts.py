"""Are loads and stores counted as Oclgrind counts them, and how much faster?

    python benchmarks/kernel_counts.py --oclgrind ROOT/usr/bin/oclgrind-kernel [--rounds 3]

Oclgrind 21.10 is a Debian package; without installing it: `apt-get download oclgrind liboclgrind-21.10 libllvm14 libclang-cpp14
libclang-common-14-dev`, `dpkg-deb -x` of each into ROOT, and LD_LIBRARY_PATH=ROOT/usr/lib/x86_64-linux-gnu.
The same kernels in OpenCL and in Laminar's language, compiled by Oclgrind without optimisation, so that what is counted is what the text
says. Compared: loads and stores of global and of shared (OpenCL: local) memory, and their bytes. Times are of a run, starting left out: of
Oclgrind the whole command less the same with one group of instances; of ours a run with counters, bounds and race detection (Oclgrind
without its race detection), compiled before.
Wanted: equal counts, 20 times faster or more.
"""

from __future__ import annotations

import argparse
import re
import statistics
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from laminar.kernels.compile.instrumented import Instrumented
from laminar.kernels.language.kernel import read_kernel

N = 4096
SIDE = 64
GROUP = 64
# name: OpenCL, ours, lines of the .sim file for its arguments, our arrays and values, instances
KERNELS: dict[str, tuple[str, str, str, dict[str, Any], dict[str, Any], int]] = {
    "leaky": (
        "kernel void run(float slope, global const float *x, global float *y) {\n"
        "  int i = get_global_id(0); float v = x[i]; if (v < 0.0f) v = slope * v; y[i] = v; }",
        "void kernel(int i, int n, float slope, const float x[n], float y[n]) { float v = x[i]; if (v < 0.0f) v = slope * v; y[i] = v; }",
        f"<size=4 float>\n0.1\n<size={4 * N} float range=-{N // 2}:1:{N // 2 - 1}>\n<size={4 * N} float fill=0>\n",
        {"x": np.arange(-N // 2, N // 2, dtype=np.float32), "y": np.zeros(N, np.float32)},
        {"slope": 0.1},
        N,
    ),
    "stencil": (
        "kernel void run(global const float *x, global float *y) {\n"
        "  int i = get_global_id(0); int n = get_global_size(0); float s = x[i];\n"
        "  if (i > 0) s += x[i - 1]; if (i < n - 1) s += x[i + 1]; y[i] = s / 3.0f; }",
        "void kernel(int i, int n, const float x[n], float y[n]) {\n"
        "  float s = x[i]; if (i > 0) s += x[i - 1]; if (i < n - 1) s += x[i + 1]; y[i] = s / 3.0f; }",
        f"<size={4 * N} float fill=1>\n<size={4 * N} float fill=0>\n",
        {"x": np.ones(N, np.float32), "y": np.zeros(N, np.float32)},
        {},
        N,
    ),
    "matmul": (
        f"kernel void run(global const float *a, global const float *b, global float *c) {{\n"
        f"  int i = get_global_id(0); int row = i / {SIDE}, col = i % {SIDE}; float s = 0.0f;\n"
        f"  for (int k = 0; k < {SIDE}; k++) s += a[row * {SIDE} + k] * b[k * {SIDE} + col]; c[i] = s; }}",
        f"void kernel(int i, int n, const float a[{SIDE}][{SIDE}], const float b[{SIDE}][{SIDE}], float c[{SIDE}][{SIDE}]) {{\n"
        f"  int row = i / {SIDE}, col = i % {SIDE}; float s = 0.0f;\n"
        f"  for (int k = 0; k < {SIDE}; k++) s += a[row][k] * b[k][col]; c[row][col] = s; }}",
        f"<size={4 * SIDE * SIDE} float fill=1>\n<size={4 * SIDE * SIDE} float fill=2>\n<size={4 * SIDE * SIDE} float fill=0>\n",
        {name: np.full((SIDE, SIDE), value, np.float32) for name, value in (("a", 1), ("b", 2), ("c", 0))},
        {},
        SIDE * SIDE,
    ),
    "gather": (
        "kernel void run(global const int *at, global const float *x, global float *y) {\n"
        "  int i = get_global_id(0); float s = 0.0f; for (int k = 0; k < 16; k++) s += x[at[(i + k) % 4096]]; y[i] = s; }",
        f"void kernel(int i, int n, const int at[{N}], const float x[{N}], float y[n]) {{\n"
        "  float s = 0.0f; for (int k = 0; k < 16; k++) s += x[at[(i + k) % 4096]]; y[i] = s; }",
        f"<size={4 * N} int range={N - 1}:-1:0>\n<size={4 * N} float fill=1>\n<size={4 * N} float fill=0>\n",
        {"at": np.arange(N - 1, -1, -1, dtype=np.int32), "x": np.ones(N, np.float32), "y": np.zeros(N, np.float32)},
        {},
        N,
    ),
}
_COUNT = re.compile(r"(\d+) - (load|store) (global|local) \((\d+) bytes\)")


def oclgrind(command: str, text: str, arguments: str, instances: int) -> tuple[float, dict[tuple[str, str], tuple[int, int]]]:
    """Seconds, and how many and how many bytes by kind and memory."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "k.cl").write_text(text)
        (folder / "k.sim").write_text(f"k.cl\nrun\n{instances} 1 1\n{min(GROUP, instances)} 1 1\n\n{arguments}")
        began = time.perf_counter()
        words = [command, "--inst-counts", "--num-threads", "1", "--build-options", "-cl-opt-disable", "k.sim"]
        done = subprocess.run(words, cwd=folder, capture_output=True, text=True, check=True)
        spent = time.perf_counter() - began
    found = {(kind, memory): (int(times), int(size)) for times, kind, memory, size in _COUNT.findall(done.stdout)}
    if not found:
        raise SystemExit(f"Oclgrind counted nothing:\n{done.stdout}{done.stderr}")
    return spent, found


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--oclgrind", required=True)
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    for name, (theirs, ours, words, arrays, values, count) in KERNELS.items():
        kernel = read_kernel(ours)
        watched = Instrumented(kernel, f"{name}.c")
        watched.run(arrays, values, count)
        times, peers = [], []
        for _ in range(args.rounds):
            whole, counted = oclgrind(args.oclgrind, theirs, words, count)
            start, _ = oclgrind(args.oclgrind, theirs, words, GROUP)
            peers.append(whole - start)
            began = time.perf_counter()
            report = watched.run(arrays, values, count)
            times.append(time.perf_counter() - began)
        mine = report.to_json(dict.fromkeys(report.outputs, ""))["counts"]
        equal = all(
            counted.get((kind, theirs_), (0, 0))[0] == mine[memory][word]
            for theirs_, memory in (("global", "global"), ("local", "shared"))
            for kind, word in (("load", "reads"), ("store", "writes"))
        )
        ratio = statistics.median(peers) / statistics.median(times)
        told = f"reads {mine['global']['reads']:,}, writes {mine['global']['writes']:,}"
        print(
            f"{name}: counts {'equal' if equal else f'DIFFER: {counted} and {mine}'} ({told}); {ratio:,.0f} times faster "
            f"({1e3 * statistics.median(peers):.0f} ms against {1e3 * statistics.median(times):.2f} ms)",
            flush=True,
        )


if __name__ == "__main__":
    main()

"""How soon the command line answers: `laminar --help`, and a build of ten layers that has nothing to do.

    python benchmarks/cli_start.py

Peers in the same run: `python -c pass` (what Python itself needs) and `python -c "import torch"` (what a tool that imports torch at
start-up needs before it says its first word). Goals: --help within 150 ms; the no-op build within 0.5 s after Python's start-up.
"""

from __future__ import annotations

import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from figures import record

RUNS = 15
LAYERS = 10

HEAD = """
[stack]
name = "ten"
[data.digits]
source = "digits"
limit = 64
"""
LAYER = """
[[layer]]
name = "layer{i}"
{model}
data = "digits"
train = {{ epochs = 1, batch = 64, seed = {i} }}
"""


def measured(commands: dict[str, list[str]], cwd: Path, env: dict[str, str]) -> dict[str, tuple[float, float]]:
    """Median (wall, processor) seconds of each command; they take turns, so that what else the machine does meets all of them."""
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in commands}
    for _ in range(RUNS):
        for name, command in commands.items():
            before, start = _spent(), time.perf_counter()
            subprocess.run(command, cwd=cwd, env=env, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            times[name].append((time.perf_counter() - start, _spent() - before))
    return {name: tuple(map(statistics.median, zip(*runs, strict=True))) for name, runs in times.items()}  # type: ignore[misc]


def _spent() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def main() -> None:
    laminar = str(Path(sys.executable).with_name("laminar"))
    commands = {
        "python -c pass": [sys.executable, "-c", "pass"],
        "python -c 'import torch'": [sys.executable, "-c", "import torch"],
        "laminar --help": [laminar, "--help"],
        "laminar build, no-op": [laminar, "build", "-q", "--json"],
        "laminar build, no-op, table": [laminar, "build", "-q"],
        "laminar status": [laminar, "status", "--json"],
    }
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        # Compiled once, as an installed package is, wherever this machine keeps such files.
        env = {n: v for n, v in os.environ.items() if n != "PYTHONDONTWRITEBYTECODE"} | {"PYTHONPYCACHEPREFIX": str(folder / "compiled")}
        model = ['model = "laminar:mlp"\nargs = { hidden = [32] }', *[""] * (LAYERS - 1)]
        (folder / "laminar.toml").write_text(HEAD + "".join(LAYER.format(i=i, model=model[i]) for i in range(LAYERS)))
        for command in ([laminar, "build", "-q"], *commands.values()):
            subprocess.run(command, cwd=folder, env=env, check=True, stdout=subprocess.DEVNULL)
        found = measured(commands, folder, env)
    python, torch = (found[name] for name in ("python -c pass", "python -c 'import torch'"))
    print(f"{'median of ' + str(RUNS):30}{'wall':>9}{'cpu':>9}{'after start-up':>16}{'of torch':>10}")
    for name, (wall, cpu) in found.items():
        record(name, wall, better="lower")
        print(f"{name:30}{wall * 1000:6.0f} ms{cpu * 1000:6.0f} ms{(wall - python[0]) * 1000:13.0f} ms{wall / torch[0]:10.2f}")
    late = found["laminar build, no-op"][0] - python[0]
    print(f"laminar --help within 150 ms: {_met(found['laminar --help'][0] <= 0.15)}")
    print(f"laminar build, no-op, of {LAYERS} layers within 500 ms after start-up: {_met(late <= 0.5)}")


def _met(good: bool) -> str:
    return "met" if good else "MISSED"


if __name__ == "__main__":
    main()

"""How soon the command line answers: `laminar --help`, and a build of ten layers that has nothing to do.

    python benchmarks/cli_start.py

Peers in the same run: `python -c pass` (what Python itself needs) and `python -c "import torch"` (what a tool that imports torch at
start-up needs before it says its first word). Goals: --help within 150 ms; the no-op build within 0.5 s after Python's start-up.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

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


def median_seconds(command: list[str], cwd: Path, runs: int = RUNS) -> float:
    times = []
    for _ in range(runs):
        start = time.perf_counter()
        subprocess.run(command, cwd=cwd, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def main() -> None:
    laminar = [str(Path(sys.executable).with_name("laminar"))]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        model = ['model = "laminar:mlp"\nargs = { hidden = [32] }', *[""] * (LAYERS - 1)]
        (folder / "laminar.toml").write_text(HEAD + "".join(LAYER.format(i=i, model=model[i]) for i in range(LAYERS)))
        subprocess.run([*laminar, "build", "-q"], cwd=folder, check=True, stdout=subprocess.DEVNULL)
        python = median_seconds([sys.executable, "-c", "pass"], folder)
        torch = median_seconds([sys.executable, "-c", "import torch"], folder, 5)
        helped = median_seconds([*laminar, "--help"], folder)
        noop = median_seconds([*laminar, "build", "-q", "--json"], folder)
        status = median_seconds([*laminar, "status", "--json"], folder)
    late = noop - python
    print(f"python -c pass            {python * 1000:7.0f} ms")
    print(f"python -c 'import torch'  {torch * 1000:7.0f} ms")
    print(
        f"laminar --help            {helped * 1000:7.0f} ms, {helped / torch:.2f} of importing torch; goal 150 ms: {_met(helped <= 0.15)}"
    )
    print(f"laminar build, no-op      {late * 1000:7.0f} ms after start-up, {LAYERS} layers; goal 500 ms: {_met(late <= 0.5)}")
    print(f"laminar status            {(status - python) * 1000:7.0f} ms after start-up")


def _met(good: bool) -> str:
    return "met" if good else "MISSED"


if __name__ == "__main__":
    main()

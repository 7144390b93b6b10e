"""Is this code slower than it was? A script, run with the code of a base commit and with this one, in turns.

    python benchmarks/by_turns.py BASE benchmarks/sync.py [--pairs 8] [--json FILE] [-- --cases mlp-256 --rounds 1]

BASE is any commit. What stands behind `--` goes to the script, which is this commit's for both; only `src` differs. A pair is a run with
each, and who begins changes from pair to pair. The script hands its figures over by `figures.record`. For each the ratio (above 1: this
code is better) is taken within the pair; reported are its median over the pairs and the interval that holds the true median with a level
of at least 90 % (sign test; nothing is assumed of how figures spread). "SLOWER" means that the interval lies below 0.97, and ends with
exit 1; "faster" that it lies above 1.03. What lies between was not shown to differ.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import statistics
import subprocess
import sys
import tarfile
import tempfile
from collections import defaultdict
from pathlib import Path

from figures import VARIABLE

from laminar.experiments.intervals import of_median

ROOT = Path(__file__).resolve().parents[1]
LEVEL = 0.9
SLOWER, FASTER = 0.97, 1.03
FEWEST = 7  # pairs

Figures = dict[str, float]


def unpack(base: str, folder: Path) -> Path:
    """The `src` of a commit, compiled, so that its first run is not slower than its others."""
    archive = subprocess.run(["git", "archive", base, "src"], cwd=ROOT, check=True, capture_output=True).stdout
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        tar.extractall(folder, filter="data")
    subprocess.run([sys.executable, "-m", "compileall", "-q", folder / "src"], check=True)
    return folder / "src"


def run(src: Path, script: Path, words: list[str]) -> Figures:
    """What the script recorded, turned so that more is better: the median where a figure was recorded several times."""
    with tempfile.NamedTemporaryFile("r", suffix=".jsonl") as file:
        env = os.environ | {VARIABLE: file.name, "PYTHONPATH": str(src)}
        done = subprocess.run([sys.executable, str(script), *words], env=env, capture_output=True, text=True, check=False)
        lines = [json.loads(line) for line in file]
    if done.returncode not in (0, 1) or not lines:  # 1: a bar was missed, which is not the question here
        raise SystemExit(f"{script.name} with {src} ended with {done.returncode} and recorded {len(lines)} figures:\n{done.stderr[-3000:]}")
    values: dict[str, list[float]] = defaultdict(list)
    for line in lines:
        values[line["name"]].append(line["value"] if line["better"] == "higher" else 1 / line["value"])
    return {name: statistics.median(several) for name, several in values.items()}


def verdict(ratios: list[float]) -> tuple[str, str]:
    """("SLOWER", "0.91 (0.89-0.95)"), or "faster", or "not shown to differ"."""
    interval = of_median(ratios, LEVEL)
    assert interval is not None
    word = "SLOWER" if interval.high < SLOWER else "faster" if interval.low > FASTER else "not shown to differ"
    return word, f"{statistics.median(ratios):.3f} ({interval.low:.3f}-{interval.high:.3f})"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("base", help="a commit")
    parser.add_argument("script", type=Path)
    parser.add_argument("--pairs", type=int, default=8, help=f"at least {FEWEST}")
    parser.add_argument("--json", type=Path, help="write the raw figures here")
    here = sys.argv.index("--") if "--" in sys.argv else len(sys.argv)
    own, words = sys.argv[1:here], sys.argv[here + 1 :]
    args = parser.parse_args(own)
    if args.pairs < FEWEST:
        parser.error(f"{args.pairs} pairs show nothing; at least {FEWEST}")
    with tempfile.TemporaryDirectory() as name:
        sources = {"base": unpack(args.base, Path(name) / "base"), "this": unpack_this(Path(name) / "this")}
        pairs: list[dict[str, Figures]] = []
        for number in range(args.pairs):
            turn = list(sources) if number % 2 == 0 else list(reversed(sources))
            figures = {who: run(sources[who], args.script, words) for who in turn}
            pairs.append(figures)
            parts = [f"{key} {figures['this'][key] / figures['base'][key]:.3f}" for key in figures["this"] if key in figures["base"]]
            print(f"pair {number + 1}: {', '.join(parts)}", file=sys.stderr, flush=True)
    slower = False
    print(f"{args.script.name} {' '.join(words)}: this code against {args.base}, {args.pairs} pairs; above 1: this code is better")
    for key in (key for key in pairs[0]["this"] if all(key in pair[who] for pair in pairs for who in pair)):
        word, ratio = verdict([pair["this"][key] / pair["base"][key] for pair in pairs])
        slower |= word == "SLOWER"
        print(f"{key:44} {ratio:24} {word}")
    if args.json:
        args.json.write_text(json.dumps(pairs, indent=1))
    return 1 if slower else 0


def unpack_this(folder: Path) -> Path:
    """A copy of `src` as it stands now, so that edits during the runs change nothing."""
    folder.mkdir(parents=True)
    subprocess.run(["cp", "-r", str(ROOT / "src"), str(folder)], check=True)
    subprocess.run([sys.executable, "-m", "compileall", "-q", folder / "src"], check=True)
    return folder / "src"


if __name__ == "__main__":
    sys.exit(main())

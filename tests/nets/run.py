"""Run one net for some minutes: python -m tests.nets.run NAME [--minutes 5] [--seed S]. See the package's docstring."""

from __future__ import annotations

import argparse
import importlib
import json
import sys
import time
import traceback
from collections import Counter
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).resolve().parents[2] / ".fuzz"


class Progress:
    """How far a net has come, kept in `.fuzz/NAME.json` so that the next run goes on from there."""

    def __init__(self, name: str, seed: int | None, folder: Path) -> None:
        self.path = folder / f"{name}.json"
        before: dict[str, Any] = json.loads(self.path.read_text()) if self.path.exists() else {}
        self.resumes = seed is None
        self.seed = int(before.get("seed", 0)) if seed is None else seed
        self.counts = Counter(before.get("counts", {}) if self.resumes else {})
        self.failed: list[int] = list(before.get("failed", [])) if self.resumes else []

    def save(self) -> None:
        """A run with a seed of its own does not move the one that resumes."""
        if self.resumes:
            self.path.parent.mkdir(exist_ok=True)
            aside = self.path.with_suffix(".part")
            aside.write_text(json.dumps({"seed": self.seed, "counts": self.counts, "failed": self.failed}, indent=1) + "\n")
            aside.replace(self.path)


def run(name: str, minutes: float, seed: int | None, folder: Path = FOLDER) -> int:
    """Check one seed after another until the time is over; returns how many failed in this run. At least one is checked."""
    net = importlib.import_module(f"tests.nets.{name}")
    progress = Progress(name, seed, folder)
    first, failures, began = progress.seed, 0, time.monotonic()
    saved = began
    try:
        while progress.seed == first or time.monotonic() - began < minutes * 60:
            try:
                progress.counts[net.check(progress.seed)] += 1
            except Exception:
                failures += 1
                progress.counts["failed"] += 1
                progress.failed.append(progress.seed)
                traceback.print_exc()
                print(f"seed {progress.seed} failed; again: make fuzz NET={name} SEED={progress.seed} MINUTES=0", flush=True)
            progress.seed += 1
            if time.monotonic() - saved > 5:
                saved = time.monotonic()
                progress.save()
                print(f"\r{name}: seed {progress.seed}, {(saved - began) / 60:.1f} of {minutes:g} min", end="", file=sys.stderr, flush=True)
    except KeyboardInterrupt:
        print("interrupted; the next run goes on here", file=sys.stderr)
    finally:
        progress.save()
        getattr(net, "close", lambda: None)()
    counts = ", ".join(f"{count:,} {word}" for word, count in sorted(progress.counts.items()))
    print(f"\n{name}: seeds {first} to {progress.seed - 1} in {(time.monotonic() - began) / 60:.1f} min; in all {counts}")
    if progress.failed:
        print(f"failed: seeds {', '.join(map(str, progress.failed[-20:]))}")
    return failures


def main() -> None:
    parser = argparse.ArgumentParser(description="Run one net for some minutes.")
    parser.add_argument("name", choices=sorted(path.stem for path in Path(__file__).parent.glob("[a-z]*.py") if path.stem != "run"))
    parser.add_argument("--minutes", type=float, default=5.0)
    parser.add_argument("--seed", type=int, help="begin here (left out: go on where the last run stopped)")
    args = parser.parse_args()
    sys.exit(1 if run(args.name, args.minutes, args.seed) else 0)


if __name__ == "__main__":
    main()

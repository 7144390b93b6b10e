"""How long does the key of a large data set take when its fingerprint is known?

    python benchmarks/data_fingerprint.py [--folder /tmp] [--size 1.0]

Two data sets of `size` GB each: one npz file, and a folder of 10,000 images in ten classes. Wanted: 50 ms or less when known.
The peer is sha256 over the same files in one go, which is what a key without a memory costs.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from laminar.core import digest
from laminar.core.clock import FakeClock
from laminar.data.fingerprint import fingerprint
from laminar.data.spec import DataSpec

CLASSES, EACH = 10, 1000


def seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--folder", type=Path, default=None, help="where to put the data, for a while")
    parser.add_argument("--size", type=float, default=1.0, help="GB of each data set")
    args = parser.parse_args()
    total = int(args.size * 1e9)
    later = FakeClock(time.time() + 60)  # the files are new; a user's have been at rest
    with tempfile.TemporaryDirectory(dir=args.folder) as name:
        root = Path(name)
        samples = total // 3072
        np.savez(root / "one.npz", x=np.zeros((samples, 3, 32, 32), dtype=np.uint8), y=np.arange(samples) % 10)
        for c in range(CLASSES):
            (root / "many" / f"class{c}").mkdir(parents=True)
            for i in range(EACH):
                (root / "many" / f"class{c}" / f"{i:05}.png").write_bytes(os.urandom(64) + bytes(total // (CLASSES * EACH) - 64))
        cases = [("one npz file", DataSpec(source="npz:one.npz"), [root / "one.npz"])]
        cases += [("10,000 images", DataSpec(source="folder:many"), sorted((root / "many").rglob("*.png")))]
        print(f"{'data set':16}{'GB':>6}{'sha256 s':>10}{'first s':>10}{'known ms':>10}{'worst ms':>10}")
        for title, spec, files in cases:
            cache = root / "cache"

            def work(spec: DataSpec = spec, cache: Path = cache) -> object:
                return fingerprint(spec, root, cache, clock=later)

            peer = seconds(lambda files=files: [digest.of_file(f) for f in files])  # type: ignore[misc]
            first = seconds(work)
            known = [1000 * seconds(work) for _ in range(21)]
            size = sum(f.stat().st_size for f in files) / 1e9
            print(f"{title:16}{size:6.2f}{peer:10.2f}{first:10.2f}{statistics.median(known):10.1f}{max(known):10.1f}", flush=True)


if __name__ == "__main__":
    main()

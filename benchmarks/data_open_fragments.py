"""How long, and in how much memory, does a data set of millions of fragments open?

    python benchmarks/data_open_fragments.py [--folder /tmp] [--images 654]

654 images of 2272x1704 pixels in three classes, squares of 224 pixels that overlap by half, every 15 degrees: 4.7 million fragments.
Wanted: seconds, and less than 200 MB, Python and libraries included. The peer is what a list of all fragments would be: one small
tuple each. Each is opened in a process of its own, the first time (every file is read for its sha256) and again.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from PIL import Image

ROTATE = 15
CHILD = """\
import json, sys, time
from pathlib import Path
from laminar.data.fragments.virtual import VirtualFragments
from laminar.data.remember import Memory
from laminar.data.spec import DataSpec, FragmentSpec, SampleSpec
start = time.perf_counter()
spec = DataSpec(source="folder:images", grey=True, fragment=FragmentSpec(size=224, overlap=0.5, rotate=int(sys.argv[3])))
found = VirtualFragments.of(spec, Path(sys.argv[1]), Memory(Path(sys.argv[1]) / "memory"))
opened = time.perf_counter() - start
if sys.argv[2] == "list":
    import numpy as np
    at = found.table.locate(np.arange(len(found)))
    every = list(zip(at.image.tolist(), at.x.tolist(), at.y.tolist(), at.angle.tolist()))
else:
    drawn = found.draw(SampleSpec(per_class=400, seed=7))
print(json.dumps({"fragments": len(found), "opened": opened, "seconds": time.perf_counter() - start,
    "MB": int(Path("/proc/self/status").read_text().partition("VmHWM:")[2].split()[0]) / 1024}))
"""


def child(root: Path, what: str) -> dict[str, float]:
    done = subprocess.run([sys.executable, "-c", CHILD, str(root), what, str(ROTATE)], capture_output=True, text=True, check=True)
    return dict(json.loads(done.stdout))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--folder", type=Path, default=None, help="where to put the images, for a while")
    parser.add_argument("--images", type=int, default=654)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=args.folder) as name:
        root = Path(name)
        rng = np.random.default_rng(0)
        for i in range(args.images):
            path = root / "images" / f"class{i % 3}" / f"{i:04}.jpg"
            path.parent.mkdir(parents=True, exist_ok=True)
            coarse = Image.fromarray(rng.integers(0, 256, (213, 284), dtype=np.uint8))
            coarse.resize((2272, 1704), Image.Resampling.BILINEAR).save(path, quality=70)
            os.utime(path, (1, 1))
        size = sum(path.stat().st_size for path in root.rglob("*.jpg")) / 1e6
        print(f"{args.images} images, {size:.0f} MB")
        print(f"{'':28}{'fragments':>12}{'seconds':>9}{'MB':>8}")
        for title, what in (("first time, and a sample", "draw"), ("again, and a sample", "draw"), ("peer: a list of all", "list")):
            found = child(root, what)
            print(f"{title:28}{int(found['fragments']):>12,}{found['seconds']:>9.2f}{found['MB']:>8.0f}")


if __name__ == "__main__":
    main()

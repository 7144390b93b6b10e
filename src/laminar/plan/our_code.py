"""Our code: what was measured of a part of Laminar is true of that part as it was. No torch here.

Links, loops, kernels of splits and whole trials go through code that becomes faster from version to version. Figures that are kept name the
code that they were measured with, so that a newer Laminar measures them again and no prediction is corrected by runs of an older one.
"""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path
from typing import Final

from laminar import __version__

ROOT: Final = Path(__file__).parent.parent
TRAINING: Final = ("data", "parallel", "train", "plan")  # all that a prediction and a run go through


@cache
def our_code(*parts: str) -> str:
    """A digest of files and folders, named as they lie in the package; of its version where there are no files to read."""
    state = hashlib.sha256(__version__.encode())
    for part in parts:
        place = ROOT / part
        for path in sorted(place.rglob("*.py")) if place.is_dir() else [place]:
            try:
                state.update(path.relative_to(ROOT).as_posix().encode() + path.read_bytes())
            except OSError:  # out of an archive
                continue
    return state.hexdigest()[:16]

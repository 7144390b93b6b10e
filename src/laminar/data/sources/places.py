"""Places: where a file named in a source is looked for."""

from __future__ import annotations

import os
from pathlib import Path

from laminar.core.errors import LaminarError


def find(text: str, root: Path, *, what: str) -> Path:
    """The absolute path of `text`: beside laminar.toml, then in the folder $LAMINAR_DATA; L101 with all that was tried."""
    given = Path(text).expanduser()
    tried = [root.absolute() / given]  # an absolute path stays itself
    shared = os.environ.get("LAMINAR_DATA")
    if shared and not given.is_absolute():
        tried.append(Path(shared).absolute() / given)
    for path in tried:
        if path.exists():
            return path
    raise LaminarError(
        "L101",
        f"source: there is no {what} at " + " nor at ".join(map(str, tried)),
        hint="correct the path in source, or put the data there",
    )


def cache_folder() -> Path:
    """Where downloads are kept for all projects."""
    given = os.environ.get("LAMINAR_CACHE")
    if given:
        return Path(given).absolute()
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "laminar"

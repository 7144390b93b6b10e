"""Declared: reads that Laminar cannot observe, listed in the stack file: `reads = ["weights.bin", "configs/*.json"]`, `env = ["SCALE"]`.

A pattern that matches nothing is not an error, since the file may be created later. A pattern that names a folder means all below it.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from laminar.core.observe import ENV, FILE, DigestOf, shown, state


def declared(reads: Iterable[str], env: Iterable[str], root: Path, digest_of: DigestOf) -> dict[str, str]:
    """Return the present state of each file that a pattern matches and of each variable, by tag."""
    root = root.resolve()
    paths = {path for pattern in reads for path in _matching(pattern, root)}
    tags = [*(FILE + shown(str(path), root) for path in sorted(paths)), *(ENV + name for name in sorted(set(env)))]
    return {tag: state(tag, root, digest_of) for tag in tags}


def _matching(pattern: str, root: Path) -> Iterable[Path]:
    given = Path(pattern).expanduser()
    base, rest = (Path(given.anchor), str(given.relative_to(given.anchor))) if given.is_absolute() else (root, str(given))
    found = [path.absolute() for path in base.glob(rest)] if rest != "." else [base]
    for path in found:
        yield from (inner for inner in path.rglob("*") if inner.is_file()) if path.is_dir() else [path]

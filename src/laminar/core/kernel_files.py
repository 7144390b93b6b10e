"""Files with kernels that a module reads: `laminar.kernel("leaky.c")` names one, so that its text is as good as the module's own.

A name that is computed may mean any `.c` file of the project: then all of them count.
What a kernel is called where its text is not (in graphs, among the nodes of a grid): KernelName.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Final

from laminar.core import digest

DESCRIBED: Final = ".params.toml"
"""`leaky.params.toml` describes the parameters of leaky.c."""
_COMMENT: Final = re.compile(r"/\*.*?\*/|//[^\n]*", re.DOTALL)


@dataclass(frozen=True)
class KernelName:
    """A kernel by its file's name and the sha256 of that name and its text."""

    stem: str
    sha256: str

    @classmethod
    def of(cls, text: str, file: str) -> KernelName:
        """Of the whole text, with what is said of parameters beside it (kernels/open_file.py). Comments and spaces do not count."""
        stem = cls.stem_of(file)  # it counts: `leaky_backward` is told by it
        return cls(stem, digest.of_json([stem, _plain(_COMMENT.sub(" ", text))]))

    @staticmethod
    def stem_of(file: str) -> str:
        return re.sub(r"\W", "_", PurePath(file).stem, flags=re.ASCII) or "kernel"

    @property
    def operator(self) -> str:
        """As torch has it."""
        return f"{self.stem}_{self.sha256}"

    def __str__(self) -> str:
        return f"{self.stem}.c (sha256 {digest.short(self.sha256)}…)"


def kernel_names(statements: Iterable[ast.stmt]) -> frozenset[str]:
    """What `laminar.kernel` is called where these imports are."""
    found: set[str] = set()
    for node in (node for statement in statements for node in ast.walk(statement)):
        if isinstance(node, ast.Import):
            found |= {f"{alias.asname or alias.name}.kernel" for alias in node.names if alias.name == "laminar"}
        elif isinstance(node, ast.ImportFrom) and node.module == "laminar" and not node.level:
            found |= {alias.asname or alias.name for alias in node.names if alias.name == "kernel"}
    return frozenset(found)


def kernel_files(statement: ast.stmt, names: frozenset[str]) -> Iterator[str | None]:
    """The path of each kernel that is read; None where it is computed. Text that is given in the module counts as it is."""
    for node in _calls(statement, names):
        if any(keyword.arg == "source" for keyword in node.keywords):
            continue
        given = node.args[0] if node.args else next((k.value for k in node.keywords if k.arg == "path"), None)
        yield given.value if isinstance(given, ast.Constant) and isinstance(given.value, str) else None


def only_reads_kernels(statement: ast.stmt, names: frozenset[str]) -> bool:
    """Does it call nothing else? Then it has no effects on import."""
    return all(any(node is call for call in _calls(statement, names)) for node in ast.walk(statement) if isinstance(node, ast.Call))


def kernel_paths(given: str | None, home: Path, root: Path) -> list[Path]:
    """As kernels/operator/find.py looks for it: beside the module, then in the project's folder."""
    if given is None:
        return sorted(root.rglob("*.c"))
    return [path for path in (home / given, root / given) if path.is_file()][:1]


def kernel_text(file: Path) -> str:
    """Without comments, and with one space where there is any; with what the file beside it says of its parameters."""
    beside = file.with_suffix(DESCRIBED)
    bare = _COMMENT.sub(" ", file.read_text(encoding="utf-8", errors="replace"))
    bare += beside.read_text(encoding="utf-8", errors="replace") if beside.is_file() else ""
    return _plain(bare)


def _plain(text: str) -> str:
    return "\n".join(" ".join(line.split()) for line in text.splitlines() if line.strip())


def _calls(statement: ast.stmt, names: frozenset[str]) -> Iterator[ast.Call]:
    for node in ast.walk(statement):
        if isinstance(node, ast.Call) and ast.unparse(node.func) in names:
            yield node

"""Module paths: the dotted names by which freeze and replace find their place, with globs and a good error."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterable

from torch import nn

from laminar.core.errors import LaminarError
from laminar.core.nearest import nearest


def paths(model: nn.Module) -> list[str]:
    """Every module's dotted path, in the model's order; the model itself ('') is left out. A shared module has several."""
    return [name for name, _ in model.named_modules(remove_duplicate=False) if name]


def expand(model: nn.Module, wanted: Iterable[str], *, what: str) -> list[str]:
    """The paths that `wanted` (paths or globs such as `block.*`) stand for; a word that fits nothing is L203."""
    known = paths(model)
    found: dict[str, None] = {}
    for word in wanted:
        fits = [path for path in known if path == word] or [
            p for p in known if fnmatch.fnmatchcase(p, word) and any(c in word for c in "*?[")
        ]
        if not fits:
            raise unknown(model, word, known, what=what)
        found.update(dict.fromkeys(fits))
    return list(found)


def unknown(model: nn.Module, word: str, known: list[str], *, what: str) -> LaminarError:
    top = [name for name, _ in model.named_children()]
    best = nearest(word, known)
    tensors = {name for name, _ in model.named_parameters(remove_duplicate=False)} | {
        name for name, _ in model.named_buffers(remove_duplicate=False)
    }
    clause = f"did you mean '{best}'? " if best else ""
    if word in tensors:
        owner = word.rpartition(".")[0]
        clause = (
            f"it is a tensor of the module '{owner}'. "
            if owner
            else "it is a tensor of the model itself, and only modules have paths here. "
        )
        best = owner or best
    return LaminarError(
        "L203",
        f"{what}: the model has no module '{word}'; {clause}Its modules are: {', '.join(top) if top else 'none'}",
        hint=f"write {what.split()[0]} with '{best}'" if best else "print(model) shows every path",
    )

"""Replace: put another module at a path of the model."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import nn

from laminar.core.errors import LaminarError
from laminar.core.seeds import derive
from laminar.model.build import make_model
from laminar.model.paths import paths, unknown


def replace(
    model: nn.Module, path: str, factory: str, args: Mapping[str, Any], root: Path, *, seed: int, inject: Mapping[str, Any] | None = None
) -> nn.Module:
    """Put `factory(**args)` at `path` and return it. The factory may ask for `old` (the module replaced), `classes`, `input_shape`."""
    old = module_at(model, path, what="replace")
    new = make_model(factory, args, root, seed=derive(seed, "replace", path), inject={**(inject or {}), "old": old})
    if new is model or any(part is new for part in model.modules() if part is not old):
        raise LaminarError("L202", f"'{factory}' returned a module that is already elsewhere in the model", hint="return a new module")
    new.train(model.training)
    put(model, path, new)
    return new


def module_at(model: nn.Module, path: str, *, what: str) -> nn.Module:
    if path not in paths(model):
        raise unknown(model, path, paths(model), what=what)
    return model.get_submodule(path)


def put(model: nn.Module, path: str, new: nn.Module) -> None:
    """Set the module at `path`, also where its parent is a Sequential or a ModuleList."""
    parent, _, name = path.rpartition(".")
    model.get_submodule(parent).add_module(name, new)

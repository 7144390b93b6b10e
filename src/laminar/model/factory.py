"""Factories: from the text `models:convnet` in laminar.toml to a callable. No torch until a built-in is asked for."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from laminar.core import project_code
from laminar.core.closure import module_file
from laminar.core.errors import LaminarError
from laminar.core.nearest import did_you_mean
from laminar.model.author_errors import last_line, raised_at

BUILTIN: Final = "laminar"
BUILTINS: Final = {  # and their modules below laminar.model, which cannot be asked without torch
    "alexnet": "networks.alexnet",
    "convnet": "builtin",
    "head": "builtin",
    "inceptionv3": "networks.inception",
    "linear": "builtin",
    "lstm": "networks.series",
    "mlp": "builtin",
    "resnet152": "networks.resnet",
    "resnet50": "networks.resnet",
    "tcnn": "networks.alexnet",
    "transformer": "networks.series",
    "vgg16": "networks.vgg",
}

Factory = Callable[..., Any]


def load_factory(text: str, root: Path) -> Factory:
    """The callable that `module:name` names: in `module.py` of the project at `root`, or the built-in `laminar:name`."""
    module_name, colon, name = text.partition(":")
    if not colon or not all(part.isidentifier() for part in [*module_name.split("."), name]):
        raise LaminarError(
            "L201", f"'{text}' names no model factory: expected 'module:function'", hint='write e.g. "models:convnet" or "laminar:mlp"'
        )
    if module_name == BUILTIN:
        return _builtin(name)
    file = module_file(module_name, root)
    if file is None:
        raise _no_module(text, module_name, root)
    module = _import(text, module_name, root)
    found = module.__dict__.get(name)
    shown = file.relative_to(root)
    if found is None:
        names = [n for n, value in vars(module).items() if callable(value) and not n.startswith("_") and _defined_in(value, module)]
        raise LaminarError(
            "L201",
            f"there is no '{name}' in {shown}, which '{text}' asks for; {did_you_mean(name, names)}",
            hint=f"define `def {name}(...)` in {shown}",
        )
    if not callable(found):
        raise LaminarError(
            "L201", f"'{name}' in {shown} is a {type(found).__name__}, not a function or class", hint=f"define `def {name}(...)` in {shown}"
        )
    return found  # type: ignore[no-any-return]


def no_builtin(name: str) -> LaminarError:
    return LaminarError(
        "L201",
        f"there is no built-in model 'laminar:{name}'; {did_you_mean(name, BUILTINS)}",
        hint="use one of " + ", ".join(f"laminar:{n}" for n in BUILTINS),
    )


def _builtin(name: str) -> Factory:
    if name not in BUILTINS:
        raise no_builtin(name)
    return getattr(importlib.import_module(f"laminar.model.{BUILTINS[name]}"), name)  # type: ignore[no-any-return]


def _no_module(text: str, module_name: str, root: Path) -> LaminarError:
    wanted = module_name.replace(".", "/") + ".py"
    known = [
        ".".join(p.relative_to(root).with_suffix("").parts) for p in [*root.glob("*.py"), *root.glob("*/*.py")] if p.name != "__init__.py"
    ]
    return LaminarError(
        "L201",
        f"'{text}' asks for {wanted} in {root}, which is not there; {did_you_mean(module_name, [*known, BUILTIN])}",
        hint=f"create {wanted} with the factory in it, or correct the name in laminar.toml",
    )


def _import(text: str, module_name: str, root: Path) -> ModuleType:
    try:
        return project_code.import_from(root, module_name)
    except LaminarError:
        raise
    except (Exception, SystemExit) as error:  # code that calls exit() must not end a build as if it were done
        where = raised_at(error, root)
        raise LaminarError(
            "L202",
            f"importing {module_name} for '{text}' failed" + (f" at {where}" if where else "") + f": {last_line(error)}",
            hint=f"correct {where.partition(':')[0] or module_name}, or install what it imports",
        ) from error


def _defined_in(value: Any, module: ModuleType) -> bool:
    return getattr(value, "__module__", None) == module.__name__

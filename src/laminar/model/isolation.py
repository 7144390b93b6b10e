"""Isolation: changes that the code of one layer makes to the process are undone before the next layer is made.

A factory may set torch's default dtype, patch a class, or set a variable. Such changes stay while its layer is trained, but the next layer
of the same build must be what it would be in a fresh process. This module restores: settings of torch, random numbers, classes and
functions of torch, variables, the working folder, `sys.path`, and the user's modules that were loaded by other means than `import`.
"""

from __future__ import annotations

import contextlib
import os
import random
import sys
import types
from collections.abc import Callable, Iterator
from typing import Any, Final

import numpy as np
import torch
from torch import nn

from laminar.core import watch

_MODULES: Final = (
    "torch",
    "torch.nn",
    "torch.nn.functional",
    "torch.nn.init",
    "torch.optim",
    "torch.linalg",
    "numpy",
    "math",
    "random",
    "builtins",
)


@contextlib.contextmanager
def undone() -> Iterator[None]:
    """Whatever the block does to the process is undone after it."""
    restore = [*_settings(), *_namespaces(), _environment(), _paths(), _own_modules()]
    python, numpy, generator = random.getstate(), np.random.get_state(), torch.get_rng_state()
    try:
        yield
    finally:
        for put_back in restore:
            put_back()
        random.setstate(python)
        np.random.set_state(numpy)
        torch.set_rng_state(generator)


def _settings() -> Iterator[Callable[[], None]]:
    pairs: list[tuple[Callable[[], Any], Callable[[Any], Any]]] = [
        (torch.get_default_dtype, torch.set_default_dtype),
        (torch.is_grad_enabled, torch.set_grad_enabled),
        (torch.get_float32_matmul_precision, torch.set_float32_matmul_precision),
        (torch.is_deterministic_algorithms_warn_only_enabled, lambda _: None),
        (torch.is_anomaly_enabled, torch.autograd.set_detect_anomaly),
    ]
    for get, put in pairs:
        before = get()

        def put_back(get: Callable[[], Any] = get, put: Callable[[Any], Any] = put, before: Any = before) -> None:
            if get() != before:
                put(before)

        yield put_back
    deterministic, warn_only = torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()

    def as_deterministic() -> None:
        if deterministic != torch.are_deterministic_algorithms_enabled():
            torch.use_deterministic_algorithms(deterministic, warn_only=warn_only)

    yield as_deterministic


def _namespaces() -> Iterator[Callable[[], None]]:
    """Functions of these modules, and methods of torch's module classes, as they are now."""
    for name in _MODULES:
        module = sys.modules.get(name)
        if module is not None:
            yield _put_back(
                module, {n: v for n, v in vars(module).items() if isinstance(v, types.FunctionType | types.BuiltinFunctionType | type)}
            )
    for kind in {value for value in vars(nn).values() if isinstance(value, type) and issubclass(value, nn.Module)}:
        yield _put_back(kind, dict(vars(kind)), strict=True)
    yield _put_back(torch.Tensor, {n: v for n, v in vars(torch.Tensor).items() if callable(v) and not n.startswith("__")})


def _put_back(owner: Any, before: dict[str, Any], *, strict: bool = False) -> Callable[[], None]:
    """`strict`: what was not there is taken away, too. Modules get more names by themselves, when they are first asked for them."""

    def put_back() -> None:
        now = vars(owner)
        for name, value in before.items():
            wrapped_by_torch = not strict and getattr(now.get(name), "__name__", "") == getattr(value, "__name__", None)
            if now.get(name) is not value and not wrapped_by_torch and name not in ("__dict__", "__weakref__", "__doc__"):
                setattr(owner, name, value)
        for name in [n for n in now if strict and n not in before and not n.startswith("_")]:
            delattr(owner, name)

    return put_back


def _environment() -> Callable[[], None]:
    before = dict(os.environ)

    def put_back() -> None:
        for name in [n for n in os.environ if n not in before]:
            del os.environ[name]
        for name, value in before.items():
            if os.environ.get(name) != value:
                os.environ[name] = value

    return put_back


def _paths() -> Callable[[], None]:
    folder, path = os.getcwd(), list(sys.path)

    def put_back() -> None:
        with contextlib.suppress(OSError):
            if os.getcwd() != folder:
                os.chdir(folder)
        if sys.path != path:
            sys.path[:] = path

    return put_back


def _own_modules() -> Callable[[], None]:
    """A module that was found by `import_module` runs again for the next layer, so that what it reads is seen again."""
    before = set(sys.modules)

    def put_back() -> None:
        for name in [n for n in sys.modules if n not in before]:
            file = getattr(sys.modules[name], "__file__", None)
            generated = name.startswith(("_laminar_project_", "torch", "sympy"))
            if (
                isinstance(file, str)
                and not generated
                and not file.startswith((*watch.libraries(), watch.LAMINAR))
                and file.endswith(".py")
            ):
                del sys.modules[name]

    return put_back

"""Laminar trains neural networks in layers, in parallel, on the machines you have.

    import laminar
    laminar.Stack.load("laminar.toml").build()
    model = laminar.load("digits/head")          # an nn.Module in eval mode
    leaky = laminar.kernel("leaky.c")            # a C-like kernel as an operator of torch

Read in this order: core (errors, digests), store (what is kept), data, model, train, stack (laminar.toml to layers), cli.
Names below are loaded when first used, so that importing laminar costs milliseconds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"
__all__ = ["LaminarError", "Stack", "__version__", "kernel", "load"]

if TYPE_CHECKING:
    from laminar.core.errors import LaminarError
    from laminar.kernels.operator.find import kernel
    from laminar.stack.api import Stack, load


def __getattr__(name: str) -> Any:
    if name == "LaminarError":
        from laminar.core.errors import LaminarError

        return LaminarError
    if name in ("Stack", "load"):
        from laminar.stack import api

        return getattr(api, name)
    if name == "kernel":
        from laminar.kernels.operator.find import kernel

        return kernel
    raise AttributeError(f"module 'laminar' has no attribute {name!r}")

"""Build: call a model factory, and say clearly what went wrong when it fails."""

from __future__ import annotations

import contextlib
import inspect
import random
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from torch import nn

from laminar.core.errors import LaminarError
from laminar.core.nearest import nearest
from laminar.core.seeds import derive
from laminar.model.author_errors import last_line, raised_at
from laminar.model.factory import Factory, load_factory

INJECTED: Final = ("old", "classes", "input_shape")


def make_model(factory: str, args: Mapping[str, Any], root: Path, *, seed: int, inject: Mapping[str, Any] | None = None) -> nn.Module:
    """The module that `factory(**args)` returns, its random weights drawn from `seed` alone.

    `inject` holds values for the parameters `old`, `classes` and `input_shape`: given by name where the factory requires them
    (no default) and `args` does not set them.
    """
    function = load_factory(factory, root)
    given = {**args, **injections(function, args, inject or {})}
    _check_arguments(factory, function, given, root)
    with seeded(derive(seed, "model", factory)):
        try:
            made = function(**given)
        except LaminarError:
            raise
        except (Exception, SystemExit) as error:  # code that calls exit() must not end a build as if it were done
            where = raised_at(error, root)
            raise LaminarError(
                "L202",
                f"{call_text(factory, given)} failed" + (f" at {where}" if where else "") + f": {last_line(error)}",
                hint=f"correct {where.partition(':')[0] or 'the args'} or the args of '{factory}' in laminar.toml",
            ) from error
    if not isinstance(made, nn.Module):
        raise LaminarError(
            "L202",
            f"{call_text(factory, given)} returned a {type(made).__name__}, expected a torch.nn.Module",
            hint=f"return the module at the end of '{factory}'",
        )
    return made


def injections(function: Factory, args: Mapping[str, Any], inject: Mapping[str, Any]) -> dict[str, Any]:
    """What of `inject` the factory requires and `args` leaves out."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return {}
    return {
        p.name: inject[p.name]
        for p in parameters
        if p.name in INJECTED
        and p.name in inject
        and p.name not in args
        and p.default is inspect.Parameter.empty
        and p.kind in (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    }


@contextlib.contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Random numbers of torch, numpy and random come from `seed` inside the block; outside it nothing has happened."""
    python, numpy = random.getstate(), np.random.get_state()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        random.seed(seed)
        np.random.seed(seed % (1 << 32))
        try:
            yield
        finally:
            random.setstate(python)
            np.random.set_state(numpy)


def call_text(factory: str, args: Mapping[str, Any]) -> str:
    """`models:convnet(channels=[16, 32], old=Linear)`: the call as people would write it, modules by their class."""
    shown = (f"{name}={type(value).__name__ if isinstance(value, nn.Module) else repr(value)}" for name, value in args.items())
    return f"{factory}({', '.join(shown)})"


def _check_arguments(factory: str, function: Factory, given: Mapping[str, Any], root: Path) -> None:
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return  # a callable without a signature: the call itself will tell
    parameters = signature.parameters.values()
    takes = [p.name for p in parameters if p.kind in (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)]
    anything = any(p.kind is inspect.Parameter.VAR_KEYWORD for p in parameters)
    unknown = [] if anything else [name for name in given if name not in takes]
    if unknown:  # said first: what is misspelt here is also what is missing there
        best = nearest(unknown[0], [name for name in takes if name not in given] or takes)
        problem = f"unknown argument '{unknown[0]}'" + (f", did you mean '{best}'?" if best else "")
    else:
        try:
            signature.bind(**given)
            return
        except TypeError as error:
            problem = str(error)
    raise LaminarError(
        "L202",
        f"{call_text(factory, given)}: {problem} (it takes {', '.join([*takes, *(['…'] if anything else [])]) or 'no arguments'})",
        hint=f"correct args of '{factory}' in laminar.toml" + _where_defined(function, root),
    )


def _where_defined(function: Factory, root: Path) -> str:
    try:
        path = Path(inspect.getsourcefile(function) or "").resolve().relative_to(root.resolve())
        return f", or its definition at {path.as_posix()}:{inspect.getsourcelines(function)[1]}"
    except (TypeError, ValueError, OSError):
        return ""

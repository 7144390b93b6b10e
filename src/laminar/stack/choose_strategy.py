"""Choosing a strategy on the command line: for all layers of a build, in the place of what the stack file says."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec

from laminar.core.errors import LaminarError
from laminar.core.nearest import did_you_mean
from laminar.stack.read import StackFile
from laminar.train.strategies import BY_NAME, AnyStrategy
from laminar.train.strategies import strategy as strategy_of


def with_strategy(file: StackFile, name: str | None, workers: int | None, *, elastic: bool = False) -> StackFile:
    """The same stack, trained so. What is not given is as written for each layer; workers alone mean sync."""
    if name is not None and name not in BY_NAME:
        raise LaminarError(
            "L008", f"--strategy: there is no '{name}'; {did_you_mean(name, BY_NAME)}", hint=f"strategies: {', '.join(BY_NAME)}"
        )
    layers = [
        msgspec.structs.replace(
            layer, train=msgspec.structs.replace(layer.train, strategy=_chosen(strategy_of(layer.train.strategy), name, workers, elastic))
        )
        for layer in file.spec.layer
    ]
    return replace(file, spec=msgspec.structs.replace(file.spec, layer=layers))


def _chosen(written: AnyStrategy, name: str | None, workers: int | None, elastic: bool) -> AnyStrategy:
    kind = BY_NAME[name] if name is not None else type(written) if written.workers > 1 or workers is None else BY_NAME["sync"]
    said: dict[str, Any] = msgspec.structs.asdict(written) if kind is type(written) else {}
    said |= {"workers": workers} if workers is not None else {}
    said |= {"elastic": True} if elastic else {}
    try:
        return kind(**said)
    except (TypeError, ValueError) as error:
        raise LaminarError("L008", f"--strategy {kind.__struct_config__.tag}: {error}", hint="laminar build --help") from error

"""Own state: what a member's process has to itself, and no other can change for it. While it changes, nobody stands in for the member.

Random streams, and what modules keep beside their parameters and buffers: a count of calls, say, by which something is warmed up. Modules
of torch itself keep nothing there that changes. What a model keeps outside its modules is not seen.
"""

from __future__ import annotations

import random
from collections import deque
from typing import Any, Final, final

import numpy as np
import torch
from torch import Tensor, nn

DEPTH: Final = 3  # of lists in lists that are looked into
MOST: Final = 64  # things of a list that are
LARGE: Final = 4096  # numbers

_OF_TORCH: Final = frozenset(vars(nn.Module()))


@final
class OwnState:
    def __init__(self, model: nn.Module | None) -> None:
        modules = [] if model is None else model.modules()
        self._kept = [vars(module) for module in modules if not type(module).__module__.startswith("torch.nn.")]

    def __call__(self) -> tuple[Any, ...]:
        """Equal to that of another time if nothing has changed. Takes 0.1 ms, and 2 us for each module of an author."""
        numpy: dict[str, Any] = np.random.get_state(legacy=False)["state"]
        streams = torch.get_rng_state().numpy().tobytes(), numpy["key"].tobytes(), numpy["pos"], random.getstate()
        return streams, [_value(kept[name], DEPTH) for kept in self._kept for name in kept if name not in _OF_TORCH]


def _value(value: object, depth: int) -> Any:
    """Something small that is another when the value is. Whatever an author keeps, this does not fail."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, Tensor):
        return _sum(value)
    if isinstance(value, np.generic):
        return value.tobytes()
    if isinstance(value, np.ndarray):
        return _sum(torch.from_numpy(value)) if value.dtype.kind == "f" and value.flags.writeable else value.shape
    if isinstance(value, dict):
        return [_value(one, depth) for one in (list(value), list(value.values()))]
    if isinstance(value, list | tuple | deque):
        return len(value), [_value(one, depth - 1) for one in list(value)[-MOST:]] if depth else []
    return type(value).__name__


def _sum(tensor: Tensor) -> tuple[Any, ...]:
    """Of a large one only a part is looked at, whose sum changes with every value that is learned or averaged."""
    part = tensor.detach()
    if part.device.type != "cpu" or part.layout != torch.strided or part.is_complex() or part.is_quantized:
        return tuple(part.shape), tensor._version
    while part.numel() > LARGE:
        part = part[-1]
    return tuple(tensor.shape), tensor._version, float(part.double().sum())

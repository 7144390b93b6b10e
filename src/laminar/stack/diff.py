"""Diff: two layers compared by their inputs, their tensors (how far each has moved) and their metrics. Needs numpy, no torch."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from laminar.stack.key import changes
from laminar.store.manifest import Manifest
from laminar.store.raw import RawTensor
from laminar.store.store import Store

_NUMPY = {"F64": "f8", "F32": "f4", "F16": "f2", "I64": "i8", "I32": "i4", "I16": "i2", "I8": "i1", "U8": "u1", "BOOL": "?"}


@dataclass(frozen=True)
class TensorChange:
    name: str
    state: str  # "changed" | "added" | "removed" | "reshaped"
    moved: float | None = None  # norm of the difference over the norm of the first, where both can be compared
    cosine: float | None = None  # of the angle between the two
    norms: tuple[float, float] | None = None
    size: int = 0  # elements; of the second where there is one

    def to_json(self) -> dict[str, Any]:
        return {"name": self.name, "state": self.state, "moved": self.moved, "cosine": self.cosine}


@dataclass(frozen=True)
class Diff:
    a: str
    b: str
    inputs: list[tuple[str, Any, Any]]
    tensors: list[TensorChange]
    equal_tensors: int
    metrics: dict[str, tuple[float | None, float | None]]

    def to_json(self) -> dict[str, Any]:
        return {
            "a": self.a,
            "b": self.b,
            "inputs": [{"input": f, "from": x, "to": y} for f, x, y in self.inputs],
            "tensors": [t.to_json() for t in self.tensors],
            "equal_tensors": self.equal_tensors,
            "metrics": {name: {"a": x, "b": y} for name, (x, y) in self.metrics.items()},
        }


def diff(store: Store, a: str, b: str) -> Diff:
    first, second = store.layer(a), store.layer(b)
    old, new = store.record(first.key), store.record(second.key)
    names = sorted({*first.tensors, *second.tensors})
    differing = [
        n for n in names if n not in first.tensors or n not in second.tensors or first.tensors[n].digest != second.tensors[n].digest
    ]
    tensors = [_change(store, first, second, n) for n in differing]
    metrics = {m: (first.metrics.get(m), second.metrics.get(m)) for m in sorted({*first.metrics, *second.metrics})}
    return Diff(a, b, changes(old.inputs if old else {}, new.inputs if new else {}), tensors, len(names) - len(differing), metrics)


def _change(store: Store, first: Manifest, second: Manifest, name: str) -> TensorChange:
    """One tensor at a time: a layer may be larger than the memory."""
    old, new = first.tensors.get(name), second.tensors.get(name)
    size = math.prod((new or old).shape) if new or old else 0  # type: ignore[union-attr]
    if old is None or new is None:
        return TensorChange(name, "added" if old is None else "removed", size=size)
    if old.shape != new.shape or old.dtype != new.dtype:
        return TensorChange(name, "reshaped", size=size)
    if old.dtype not in _NUMPY:
        return TensorChange(name, "changed", size=size)
    x, y = (_array(store.get_tensors(layer, [name])[name]) for layer in (first, second))
    base, other, moved = (float(np.linalg.norm(each)) for each in (x, y, y - x))
    cosine = float(np.dot(x, y)) / (base * other) if base and other else None
    return TensorChange(name, "changed", moved / base if base else None, cosine, (base, other), size)


def _array(tensor: RawTensor) -> NDArray[np.float64]:
    return np.frombuffer(tensor.data, dtype=_NUMPY[tensor.dtype]).astype(np.float64)

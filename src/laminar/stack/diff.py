"""Diff: two layers compared by their inputs, their tensors (how far each has moved) and their metrics. Needs numpy, no torch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from laminar.stack.key import changes
from laminar.store.raw import RawTensor
from laminar.store.store import Store

_NUMPY = {"F64": "f8", "F32": "f4", "F16": "f2", "I64": "i8", "I32": "i4", "I16": "i2", "I8": "i1", "U8": "u1", "BOOL": "?"}


@dataclass(frozen=True)
class TensorChange:
    name: str
    state: str  # "changed" | "added" | "removed" | "reshaped"
    moved: float | None = None  # norm of the difference over the norm of the first, where both can be compared

    def to_json(self) -> dict[str, Any]:
        return {"name": self.name, "state": self.state, "moved": self.moved}


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
    both = [n for n in differing if n in first.tensors and n in second.tensors]
    ours, theirs = store.get_tensors(first, both), store.get_tensors(second, both)
    tensors = [
        TensorChange(n, "added")
        if n not in first.tensors
        else TensorChange(n, "removed")
        if n not in second.tensors
        else _compare(n, ours[n], theirs[n])
        for n in differing
    ]
    metrics = {m: (first.metrics.get(m), second.metrics.get(m)) for m in sorted({*first.metrics, *second.metrics})}
    return Diff(a, b, changes(old.inputs if old else {}, new.inputs if new else {}), tensors, len(names) - len(differing), metrics)


def _compare(name: str, old: RawTensor, new: RawTensor) -> TensorChange:
    if old.shape != new.shape or old.dtype != new.dtype:
        return TensorChange(name, "reshaped")
    if old.dtype not in _NUMPY:
        return TensorChange(name, "changed")
    x, y = _array(old), _array(new)
    base = float(np.linalg.norm(x))
    moved = float(np.linalg.norm(y - x))
    return TensorChange(name, "changed", moved / base if base else None)


def _array(tensor: RawTensor) -> NDArray[np.float64]:
    return np.frombuffer(tensor.data, dtype=_NUMPY[tensor.dtype]).astype(np.float64)

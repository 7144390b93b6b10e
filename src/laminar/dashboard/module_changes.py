"""Module changes: how far apart two layers are, module by module. From the store alone, without torch."""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec

from laminar.stack.diff import Diff, TensorChange
from laminar.store.manifest import Manifest


class ModuleChange(msgspec.Struct, frozen=True, kw_only=True):
    """The tensors of one module that differ, those of floating-point numbers taken as one vector.

    `state`: changed, added, removed, reshaped, or equal.
    """

    name: str
    state: str
    tensors: int
    elements: int
    moved: float | None = None
    cosine: float | None = None
    norms: tuple[float, float] | None = None


def modules(diff: Diff, first: Manifest, second: Manifest) -> list[ModuleChange]:
    """By module, in the order of the second model; modules without a difference are there as equal."""
    changed: dict[str, list[TensorChange]] = {}
    for one in diff.tensors:
        changed.setdefault(module_of(one.name), []).append(one)
    sizes: dict[str, int] = {}
    for name, tensor in {**first.tensors, **second.tensors}.items():
        sizes[module_of(name)] = sizes.get(module_of(name), 0) + math.prod(tensor.shape)
    order = dict.fromkeys(module_of(name) for name in (*second.tensors, *first.tensors))
    # a counter of steps beside weights would be all that is seen of them
    learnt = {name for name, tensor in second.tensors.items() if tensor.dtype.startswith("F")}
    return [_module(name, changed.get(name, []), sizes[name], learnt) for name in order]


def module_of(tensor: str) -> str:
    """`features.0.weight` is of `features.0`; a tensor of the model itself is of `(model)`."""
    return tensor.rpartition(".")[0] or "(model)"


def _module(name: str, changed: Sequence[TensorChange], size: int, learnt: set[str]) -> ModuleChange:
    if not changed:
        return ModuleChange(name=name, state="equal", tensors=0, elements=size)
    states = {one.state for one in changed}
    state = next(state for state in ("reshaped", "added", "removed", "changed") if state in states)
    known = [(one.norms, one.cosine or 0.0) for one in changed if one.norms is not None and one.name in learnt]
    if not known:
        return ModuleChange(name=name, state=state, tensors=len(changed), elements=size)
    first, second = (math.sqrt(math.fsum(norms[side] ** 2 for norms, _ in known)) for side in (0, 1))
    along = math.fsum(cosine * norms[0] * norms[1] for norms, cosine in known)
    apart = math.sqrt(max(0.0, first**2 + second**2 - 2 * along))
    return ModuleChange(
        name=name,
        state=state,
        tensors=len(changed),
        elements=size,
        moved=apart / first if first else None,
        cosine=along / (first * second) if first and second else None,
        norms=(first, second),
    )

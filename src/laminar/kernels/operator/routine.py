"""A kernel with what goes in, what is made and what comes out: of the kernel and of its adjoint alike."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from laminar.core.errors import LaminarError
from laminar.kernels.analyse.facts import Facts
from laminar.kernels.analyse.written import written_everywhere
from laminar.kernels.arguments import MOST
from laminar.kernels.derive.by_hand import GRAD
from laminar.kernels.language.tree import Kernel, Load, Object, Read, expressions, statements, walk
from laminar.kernels.operator.engine import DTYPES, Engine, engine_of
from laminar.kernels.operator.sizes import instances, size


@dataclass(frozen=True, eq=False)
class Routine:
    """`given`: arrays that the caller has; those in `copied` are changed, so that the routine works on copies. `made`: the rest, of zeros.
    `returned`: what is given back. `flat`: arrays of one element an instance, which take the shape of the first that is given."""

    name: str  # for torch: unique for the text
    kernel: Kernel
    file: str
    given: tuple[str, ...]
    copied: frozenset[str]
    returned: tuple[str, ...]
    flat: frozenset[str]
    by_hand: bool = False  # somebody wrote it beside the kernel: its sizes are its own, and looked at in every call

    @functools.cached_property
    def engine(self) -> Engine:
        return engine_of(self.kernel, self.file)

    @functools.cached_property
    def filled(self) -> frozenset[str]:
        """Arrays of which every element is written, and none read: they need no zeros, if there are as many instances as the text says."""
        kernel = self.kernel
        parts = [part for one in statements(kernel.body) for whole in expressions(one) for part in walk(whole)]
        read = {part.object for part in parts if isinstance(part, Load)}
        facts = Facts.of(kernel, said=True)
        return frozenset(name for name, one in self.objects.items() if one not in read and written_everywhere(facts, one) is not None)

    @functools.cached_property
    def objects(self) -> dict[str, Object]:
        return {one.name: one.of for one in self.kernel.arrays if isinstance(one.of, Object)}

    def shape(self, name: str, given: Sequence[Tensor], values: Sequence[Any], count: Any) -> Any:
        """Sizes may be numbers or torch's symbols."""
        if name in self.flat:
            like = next((tensor for tensor, other in zip(given, self.given, strict=True) if other in self.flat), None)
            if like is not None:
                return like.shape
        known = {one.of: value for one, value in zip(self.kernel.values, values, strict=True)}
        known[self.kernel.count] = count
        return [size(one, known) for one in self.objects[name].shape]

    def _as_said(self, given: Sequence[Tensor], values: Sequence[Any], count: int) -> bool:
        """Does what `filled` takes for granted hold (analyse/facts.py)?"""
        known: dict[Any, Any] = {one.of: value for one, value in zip(self.kernel.values, values, strict=True)}
        return (self._counted or instances(self, known) == count) and all(one.numel() <= MOST for one in given)

    @functools.cached_property
    def _counted(self) -> bool:
        """Do sizes name the number of instances?"""
        sizes = (part for one in self.objects.values() if one.memory == "global" for size in one.shape for part in walk(size))
        return self.kernel.instances is None and any(isinstance(part, Read) and part.variable is self.kernel.count for part in sizes)

    def _check_sizes(self, given: Sequence[Tensor], values: Sequence[Any], count: int) -> None:
        """That arrays have as many elements as the text says: native code goes by it. Raises L702."""
        known: dict[Any, Any] = {one.of: value for one, value in zip(self.kernel.values, values, strict=True)}
        known[self.kernel.count] = count
        held = dict(zip(self.given, given, strict=True))
        for one in self.kernel.arrays:
            tensor = held.get(one.name)
            if tensor is None and one.name not in self.flat:
                continue  # made by what the text says
            has = list(self.shape(one.name, given, values, count) if tensor is None else tensor.shape)
            said = [size(part, known) for part in self.objects[one.name].shape]
            if math.prod(has) != math.prod(said):
                at, what = one.at, f"`{one.name}` of {self.kernel.name} has the shape {said}, and here it has {has}"
                hint = f"the sizes that `{one.name.removeprefix(GRAD)}` has in the kernel"
                raise LaminarError("L702", f"{self.file}:{at.line}:{at.column}: {what}", hint=hint)

    def run(self, given: Sequence[Tensor], values: Sequence[Any], count: int, slots: bytes | None = None) -> tuple[Tensor, ...]:
        """`given` in order, of the right dtypes and shapes."""
        held: dict[str, Tensor] = {}
        if self.by_hand:
            self._check_sizes(given, values, count)
        filled = self.filled if self._as_said(given, values, count) else frozenset[str]()
        for name, tensor in zip(self.given, given, strict=True):
            plain = tensor.detach().resolve_neg()
            held[name] = plain.clone(memory_format=torch.contiguous_format) if name in self.copied else plain.contiguous()
        for name, object_ in self.objects.items():
            if name not in held:
                shape = self.shape(name, given, values, count)
                make = torch.empty if name in filled and math.prod(shape) <= MOST else torch.zeros
                try:
                    held[name] = make(shape, dtype=DTYPES[object_.type])
                except RuntimeError as error:
                    said = f"{self.file}: there is no memory for `{name}` of the shape {list(shape)}: {str(error).splitlines()[0]}"
                    raise LaminarError("L702", said, hint="smaller sizes") from None
        engine = self.engine
        engine.run([held[name] for name in self.objects], engine.slots(values) if slots is None else slots, values, count)
        return tuple(held[name] for name in self.returned)

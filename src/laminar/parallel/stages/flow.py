"""Flow: what operators of a placed model need of each other, where gradients go back, and what may be computed anywhere. No torch here."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from functools import cached_property
from typing import Final, final

from laminar.parallel.split.backward import gradients
from laminar.parallel.split.calls import Value
from laminar.parallel.split.place import Operation, Placed

_RANDOM: Final = ("dropout", "attention")  # kernels that draw
_DRAWS: Final = "nondeterministic_seeded"  # torch's tag for operators that do


@final
class Flow:
    def __init__(self, placed: Placed, trained: Collection[str]) -> None:
        """`trained`: the model's tensors that are learned, by name."""
        self.placed = placed
        self.operations = placed.operations
        self.maker: dict[Value, int] = {op.call.name: i for i, op in enumerate(self.operations)}
        self._tensors = placed.traced.tensors
        self._inputs = set(placed.traced.inputs)
        self._trained = trained
        self._mixing: dict[int, list[Operation]] = {}

    @cached_property
    def users(self) -> dict[Value, list[int]]:
        """Operators that take each value."""
        found: dict[Value, list[int]] = {}
        for i, op in enumerate(self.operations):
            for node in op.operands:
                found.setdefault(node, []).append(i)
        return found

    def mixing(self, rows: int, find: Callable[[], list[Operation]]) -> list[Operation]:
        """Operators that mix rows, as `find` sees it on so many of them: once, however often it is cut."""
        if rows not in self._mixing:
            self._mixing[rows] = find()
        return self._mixing[rows]

    @cached_property
    def anywhere(self) -> frozenset[int]:
        """Operators that need nothing of a sample, only tensors of the model: a transposed weight, say. Whoever needs one computes it."""
        found: set[int] = set()
        for i, op in enumerate(self.operations):
            fixed = all(node in self._tensors or self.maker.get(node) in found for node in op.operands)
            if fixed and not draws(op) and not writes(op):
                found.add(i)
        return frozenset(found)

    @cached_property
    def learns(self) -> frozenset[Value]:
        """Values and tensors that gradients go back to."""
        traced = self.placed.traced
        found = gradients(traced, traced.calls, lambda name: name in self._trained, [traced.output])
        return found.learns & found.wanted

    def several(self, node: Value) -> bool:
        """Is it a row of tensors, of which later operators take one each?"""
        return len(self.placed.values[node]) != 1

    def with_what_they_need(self, some: Iterable[int]) -> list[int]:
        """Operators, and those of `anywhere` without which they cannot be run, in order."""
        found = set(some)
        ahead = list(found)
        while ahead:
            for node in self.operations[ahead.pop()].operands:
                i = self.maker.get(node)
                if i in self.anywhere and i not in found:
                    found.add(i)
                    ahead.append(i)
        return sorted(found)

    def needs(self, some: Iterable[int]) -> dict[Value, int]:
        """Values of samples that operators take from others, and who makes those."""
        own = set(some)
        found: dict[Value, int] = {}
        for i in sorted(own):
            for node in self.operations[i].operands:
                maker = self.maker.get(node)
                if maker is not None and maker not in own:
                    found[node] = maker
        return found

    def inputs(self, some: Iterable[int]) -> list[Value]:
        return list(dict.fromkeys(node for i in some for node in self.operations[i].operands if node in self._inputs))

    def tensors(self, some: Iterable[int]) -> list[str]:
        return list(dict.fromkeys(self._tensors[node] for i in some for node in self.operations[i].operands if node in self._tensors))

    @cached_property
    def crossing(self) -> list[list[Value]]:
        """For each place between operators, and before the first: values that are made before it and needed behind it."""
        last: dict[Value, int] = {}
        for i, op in enumerate(self.operations):
            if i in self.anywhere:
                continue
            for node in op.operands:
                if (maker := self.maker.get(node)) is not None and maker not in self.anywhere:
                    last[node] = i
        found: list[list[Value]] = [[] for _ in self.operations]
        for node, until in last.items():
            for place in range(self.maker[node] + 1, until + 1):
                found[place].append(node)
        return found


def writes(op: Operation) -> bool:
    """Does it change one of the model's buffers?"""
    return op.run != "item" and bool(op.call.schema.is_mutable)


def draws(op: Operation) -> bool:
    """Is it random?"""
    return op.run in _RANDOM or (op.run != "item" and any(tag.name == _DRAWS for tag in getattr(op.call.function, "tags", ())))


def of_a_batch(op: Operation) -> bool:
    """Does it normalise by statistics over the rows of a batch?"""
    if "batch_norm" not in op.call.target:
        return False
    names = [argument.name for argument in op.call.schema.arguments]
    given = dict(zip(names, op.call.args, strict=False)) | op.call.kwargs
    return bool(given.get("training", given.get("train", False)))


def written(op: Operation) -> list[Value]:
    """What it writes into; of batch norms, their running statistics."""
    if of_a_batch(op):
        return [one for one in op.call.args[3:5] if isinstance(one, Value)]
    return [one for one in op.call.args[:1] if isinstance(one, Value)] if writes(op) else []

"""Regions: pieces of a kernel that run from their start to their end, so that one counter tells how often all that is in them was done.

As blocks of the emulator (emulate/writer.py): what is counted is what the tree says, whatever the compiler makes of it. Some of them need
no counter, for those of others tell: whoever comes to a loop, or back to it, is asked for its condition (Knuth, Stevenson, BIT 13, 1973).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from laminar.kernels.compile.differs import narrows
from laminar.kernels.language.tree import (
    SIZES,
    Added,
    Assign,
    At,
    Atomic,
    Binary,
    Block,
    Choice,
    Expression,
    If,
    Kernel,
    Load,
    Loop,
    Object,
    Read,
    Scope,
    Statement,
    Store,
    Variable,
    parts,
)

Part: TypeAlias = Literal["all", "rest", "then", "other", "test", "body", "update", "right", "yes", "no"]
Key: TypeAlias = tuple[int, Part]
"""Id of a node, and which part of it. `rest`: the node and what follows it in its block."""

ALL: Key = (0, "all")


@dataclass
class Regions:
    """`accesses`: region, place, array and kind of each; `sites`: their numbers, by id. `registers`: reads, writes and bytes by region and
    line. `sums`: regions that are not counted, and the factors of others that they are the sum of."""

    numbers: dict[Key, int] = field(default_factory=dict)
    accesses: list[tuple[int, At, Object, Literal["read", "write", "atomic"]]] = field(default_factory=list)
    sites: dict[int, int] = field(default_factory=dict)
    registers: dict[tuple[int, int], list[int]] = field(default_factory=dict)
    sums: dict[int, dict[int, int]] = field(default_factory=dict)
    _here: int = 0
    _target: Store | None = None

    @staticmethod
    def of(kernel: Kernel) -> Regions:
        made = Regions()
        made._enter(ALL)
        made._block(kernel.body)
        return made

    def all(self, counted: Sequence[int]) -> list[int]:
        """How often each region was run: what was counted, and what follows from it."""

        def times(region: int) -> int:
            sums = self.sums.get(region)
            return counted[region] if sums is None else sum(factor * times(other) for other, factor in sums.items())

        return [times(region) for region in range(len(counted))]

    def _enter(self, key: Key) -> None:
        self._here = self.numbers.setdefault(key, len(self.numbers))

    def _within(self, key: Key, block: Block) -> None:
        here = self._here
        self._enter(key)
        self._block(block)
        self._here = here

    def _block(self, block: Block) -> None:
        for number, one in enumerate(block):
            self._statement(one)
            if narrows(one) and number + 1 < len(block):
                self._enter((id(block[number + 1]), "rest"))

    def _statement(self, one: Statement) -> None:
        match one:
            case Assign():
                self._expression(one.value)
                self._register(one.variable, one.at, write=True)
            case Store():
                for part in one.index:
                    self._expression(part)
                self._target = one
                self._expression(one.value)
                self._target = None
                self._access(one, "write")
            case Atomic():
                for part in (*one.index, one.value):
                    self._expression(part)
                self._access(one, "atomic")
            case If():
                self._expression(one.condition)
                self._within((id(one), "then"), one.then)
                self._within((id(one), "other"), one.other)
                self.sums[self.numbers[id(one), "other"]] = {self._here: 1, self.numbers[id(one), "then"]: -1}
            case Loop():
                here = self._here
                self._enter((id(one), "test"))
                self._block(one.before)
                self._expression(one.condition)
                self._within((id(one), "body"), one.body)
                self._within((id(one), "update"), one.update)
                self._here = here
                self._loop_sums(one)
            case Scope():
                here = self._here
                self._block(one.body)
                self._here = here

    def _loop_sums(self, one: Loop) -> None:
        test, body, update = (self.numbers[id(one), part] for part in ("test", "body", "update"))
        if not any(narrows(inner) for inner in one.body):
            self.sums[update] = {body: 1}
        if not any(narrows(inner) for inner in one.update):
            self.sums[test] = {update: 1} if one.test_last else {self._here: 1, update: 1}

    def _expression(self, one: Expression) -> None:
        match one:
            case Read():
                self._register(one.variable, one.at, write=False)
                return
            case Choice():
                self._expression(one.condition)
                self._side((id(one), "yes"), one.yes)
                self._side((id(one), "no"), one.no)
                return
            case Binary(operator="and" | "or"):
                self._expression(one.left)
                self._side((id(one), "right"), one.right)
                return
        if not (isinstance(one, Load) and is_target(self._target, one)):
            for part in parts(one):
                self._expression(part)
        if isinstance(one, Load):
            self._access(one, "read")

    def _access(self, one: Load | Store | Atomic, kind: Literal["read", "write", "atomic"]) -> None:
        self.sites.setdefault(id(one), len(self.accesses))
        self.accesses.append((self._here, one.at, one.object, kind))

    def _side(self, key: Key, one: Expression) -> None:
        here = self._here
        self._enter(key)
        self._expression(one)
        self._here = here

    def _register(self, variable: Variable, at: At, *, write: bool) -> None:
        if isinstance(at, Added):
            return
        counts = self.registers.setdefault((self._here, at.line), [0, 0, 0])
        counts[write] += 1
        counts[2] += SIZES[variable.type]


def is_target(store: Store | None, load: Load) -> bool:
    """Of `a[k] += v`: the element that is written, whose index is looked at once."""
    return store is not None and store.object is load.object and store.index == load.index

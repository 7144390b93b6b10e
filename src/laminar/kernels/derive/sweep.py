"""Statements: values forwards, gradients backwards.

Of every block two are made. The first computes its values again and keeps what it overwrites; the second goes backwards, puts back what
was overwritten, and turns `v = e` into: the gradients of what e is made of grow by the gradient of v, which is then 0 (Griewank and
Walther, Evaluating Derivatives, ch. 6). Most of it turns out to be needed by nobody and is pruned.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, NoReturn, TypeAlias

from laminar.kernels.derive.active import Data, depends
from laminar.kernels.derive.fill import zero_of, zeros
from laminar.kernels.derive.partials import Emit, Spread, negative, plus
from laminar.kernels.language.rewrite import Rewrite
from laminar.kernels.language.same import same_all
from laminar.kernels.language.tree import (
    Assign,
    At,
    Atomic,
    Binary,
    Block,
    Call,
    Constant,
    Declare,
    Expression,
    If,
    Load,
    Loop,
    Object,
    Read,
    Statement,
    Store,
    Variable,
    statements,
    walk,
)

if TYPE_CHECKING:
    from laminar.kernels.derive.extremes import Extreme

Way: TypeAlias = Literal["own", "atomic", "register"]


@dataclass
class Frame:
    """What is declared at the start of a stretch that runs forwards and then backwards: the kernel, or one iteration."""

    within: frozenset[Data]  # arrays that are declared in it
    outermost: bool
    start: Emit = field(default_factory=list)


@dataclass
class Sweep:
    active: frozenset[Data]
    dropped: frozenset[Object]  # outputs that nobody reads: no need to write them again
    once: frozenset[Object]
    gradient: dict[Data, Data]
    ways: dict[Object, Way]
    zeroed: frozenset[Object]  # outputs whose elements may be written twice
    refuse: Callable[[At, str], NoReturn]
    loop: Callable[[Sweep, Loop, Block], tuple[Block, Block]]  # loops.py
    frame: Frame
    gradients: set[Data] = field(default_factory=set)
    registers: dict[Object, Variable] = field(default_factory=dict)
    extremes: dict[int, Extreme] = field(default_factory=dict)  # by the id of their statement
    losses: dict[Variable, Object] = field(default_factory=dict)

    def both(self, block: Block, *, nested: bool = True) -> tuple[Block, Block]:
        """(forwards, backwards)."""
        forward: Emit = []
        backward: list[Block] = []
        first: Emit = []
        for place, one in enumerate(block):
            if isinstance(one, Declare):
                self._declare(one, forward, first, nested)
                continue
            there, back = self._statement(one, block[:place])
            forward.extend(there)
            backward.append(back)
        return tuple(forward), (*first, *(part for back in reversed(backward) for part in back))

    def _declare(self, one: Declare, forward: Emit, first: Emit, nested: bool) -> None:
        what = one.what
        if isinstance(what, Object) and what.memory == "shared" and what in self.active:
            self.refuse(one.at, f"`{what.name}` is shared by the instances")
        into = self.frame.start if nested else forward
        into.append(one)
        if isinstance(what, Object) and what not in self.once:
            into.extend(zeros(what))
        elif isinstance(what, Variable) and nested:
            into.append(Assign(one.at, what, Constant(one.at, what.type, zero_of(what.type))))
        if what in self.active:
            made = self.adjoint_of(what)
            first.append(Declare(one.at, made))
            first.extend(zeros(made) if isinstance(made, Object) else (Assign(one.at, made, Constant(one.at, made.type, 0.0)),))

    def adjoint_of(self, what: Data) -> Data:
        found = self.gradient.get(what)
        if found is None:
            if isinstance(what, Variable):
                found = Variable(f"d_{what.name}", what.type, what.at)
            else:
                found = Object(f"d_{what.name}", what.type, what.shape, "local", what.at)
            self.gradient[what] = found
            self.gradients.add(found)
        return found

    def _statement(self, one: Statement, preceding: Block) -> tuple[Block, Block]:
        extreme = self.extremes.get(id(one))
        if extreme is not None:
            return (), extreme.backward(self)
        match one:
            case Assign():
                return self._assign(one)
            case Store():
                return self._store(one)
            case Atomic():
                return self._atomic(one)
            case If():
                return self._if(one)
            case Loop():
                return self.loop(self, one, preceding)
        raise AssertionError(one)  # normal.py

    def _assign(self, one: Assign) -> tuple[Block, Block]:
        kept = self.keep(one.variable)
        there = (Assign(one.at, kept, Read(one.at, one.variable)), one)
        back: Emit = [Assign(one.at, one.variable, Read(one.at, kept))]
        if one.variable in self.active:
            slot = self.adjoint_of(one.variable)
            assert isinstance(slot, Variable)
            rest = _rest(one.value, lambda part: isinstance(part, Read) and part.variable is one.variable)
            if rest is not None:
                self.spread(rest, Read(one.at, slot), back)
            else:
                self._taken(one, Read(one.at, slot), Assign(one.at, slot, Constant(one.at, slot.type, 0.0)), back)
        return there, tuple(back)

    def _store(self, one: Store) -> tuple[Block, Block]:
        object_, there, back = one.object, list[Statement](), list[Statement]()
        if object_ not in self.dropped:
            if object_ not in self.once:
                kept = self.keep(Variable(object_.name, object_.type, one.at))
                there.append(Assign(one.at, kept, Load(one.at, object_, one.index)))
                back.append(Store(one.at, object_, one.index, Read(one.at, kept)))
            if self.frame.outermost or object_ not in self.once or object_ in self.frame.within:
                there.append(one)
        if object_ in self.active:
            slot = self.adjoint_of(object_)
            assert isinstance(slot, Object)
            read = Load(one.at, slot, one.index)
            rest = _rest(one.value, lambda part: isinstance(part, Load) and part.object is object_ and same_all(part.index, one.index))
            if rest is not None:
                self.spread(rest, read, back)
            else:
                clear = Store(one.at, slot, one.index, Constant(one.at, slot.type, 0.0))
                self._taken(one, read, clear if object_ not in self.dropped or object_ in self.zeroed else None, back)
        return tuple(there), tuple(back)

    def _taken(self, one: Assign | Store, share: Read | Load, clear: Statement | None, back: Emit) -> None:
        """The gradient is handed on, and there is none any more."""
        if depends(one.value, self.active):
            variable = Variable("d", share.type, one.at)
            back += [Declare(one.at, variable), Assign(one.at, variable, share)]
            back += [clear] if clear else []
            self.spread(one.value, Read(one.at, variable), back)
        elif clear:
            back.append(clear)

    def _atomic(self, one: Atomic) -> tuple[Block, Block]:
        if one.object not in self.active:
            return (), ()
        if one.operator != "add":
            self.refuse(one.at, f"atomic_{one.operator} does not tell whose value it kept")
        if one.object.memory != "global":
            self.refuse(one.at, f"`{one.object.name}` is shared by the instances")
        slot = self.adjoint_of(one.object)
        assert isinstance(slot, Object)
        back: Emit = []
        self.spread(one.value, Load(one.at, slot, one.index), back)
        return (), tuple(back)

    def _if(self, one: If) -> tuple[Block, Block]:
        test = Variable("test", "bool", one.at)
        self.frame.start += [Declare(one.at, test), Assign(one.at, test, Constant(one.at, "bool", False))]
        then, then_back = self.both(one.then)
        other, other_back = self.both(one.other)
        read = Read(one.at, test)
        return (Assign(one.at, test, one.condition), If(one.at, read, then, other)), (If(one.at, read, then_back, other_back),)

    def keep(self, what: Variable) -> Variable:
        kept = Variable(f"kept_{what.name}", what.type, what.at)
        self.frame.start += [Declare(what.at, kept), Assign(what.at, kept, Constant(what.at, what.type, zero_of(what.type)))]
        return kept

    def lost(self, what: Object, at: At) -> Variable:
        """Stands for values of a global array that are overwritten and not kept: if it is needed in the end, there is no gradient."""
        made = Variable(f"lost_{what.name}", what.type, at)
        self.losses[made] = what
        return made

    def spread(self, value: Expression, share: Expression, out: Emit) -> None:
        Spread(self.active, self._leaf).spread(value, share, out)

    def _leaf(self, part: Read | Load, share: Expression, out: Emit) -> None:
        at = part.at
        if isinstance(part, Read):
            slot = self.adjoint_of(part.variable)
            assert isinstance(slot, Variable)
            out.append(Assign(at, slot, plus(Read(at, slot), share)))
            return
        if part.object in self.registers:
            register = self.registers[part.object]
            out.append(Assign(at, register, plus(Read(at, register), share)))
            return
        slot = self.adjoint_of(part.object)
        assert isinstance(slot, Object)
        if self.ways.get(part.object) == "atomic":
            out.append(Atomic(at, "add", slot, part.index, share))
        else:
            out.append(Store(at, slot, part.index, plus(Load(at, slot, part.index), share)))


class Plain(Rewrite):
    """A block's values alone: outputs that nobody reads are not written again, nor what is there already."""

    def __init__(self, sweep: Sweep) -> None:
        self.sweep = sweep

    def statement(self, one: Statement) -> Block:
        sweep = self.sweep
        if isinstance(one, Atomic) or id(one) in sweep.extremes:
            return ()
        if isinstance(one, Store) and one.object in sweep.dropped:
            return ()
        if isinstance(one, Store) and one.object in sweep.once and not sweep.frame.outermost and one.object not in sweep.frame.within:
            return ()
        return super().statement(one)


def _rest(value: Expression, is_itself: Callable[[Expression], bool]) -> Expression | None:
    """e of `v = v + e`, where e does not have v in it: the gradient of v stays as it is."""
    terms: list[tuple[Expression, bool]] = []

    def split(one: Expression, minus: bool) -> None:
        if isinstance(one, Binary) and one.operator in ("+", "-"):
            split(one.left, minus)
            split(one.right, minus != (one.operator == "-"))
        elif isinstance(one, Call) and one.name == "fma" and is_itself(one.arguments[2]):
            first, second, third = one.arguments
            terms.extend(((Binary(one.at, one.type, "*", first, second), minus), (third, minus)))
        else:
            terms.append((one, minus))

    split(value, False)
    own = [minus for one, minus in terms if is_itself(one)]
    others = [(one, minus) for one, minus in terms if not is_itself(one)]
    if own != [False] or any(is_itself(part) for one, _ in others for part in walk(one)):
        return None
    made: Expression = Constant(value.at, value.type, 0.0)
    for place, (one, minus) in enumerate(others):
        signed = negative(one) if minus else one
        made = signed if place == 0 else plus(made, signed)
    return made


def declared_in(block: Block) -> frozenset[Data]:
    return frozenset(one.what for one in statements(block) if isinstance(one, Declare))

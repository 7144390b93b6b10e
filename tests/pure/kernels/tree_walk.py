"""A second emulator, as plain as can be: walks the operator tree of one instance after another, counts each access as it is done, and
computes with numpy's scalars. For kernels without barriers; what comes out is compared with the emulator's."""

from __future__ import annotations

import math
from collections import Counter
from fractions import Fraction
from typing import Any

import numpy as np

from laminar.kernels.arguments import DTYPES, shape_of
from laminar.kernels.language.tree import (
    SIZES,
    WHOLE,
    Assign,
    At,
    Atomic,
    Binary,
    Block,
    Break,
    Call,
    Cast,
    Choice,
    Constant,
    Continue,
    Declare,
    Expression,
    If,
    Kernel,
    Leave,
    Load,
    Loop,
    Object,
    Read,
    Scope,
    Statement,
    Store,
    Type,
    Unary,
    Variable,
)

_COMPARE = {"<": np.less, "<=": np.less_equal, ">": np.greater, ">=": np.greater_equal, "==": np.equal, "!=": np.not_equal}


class Jump(Exception):
    def __init__(self, to: Any) -> None:
        self.to = to


class Walk:
    """`counts`: (memory, line, "reads" or "writes") to how often."""

    def __init__(self, kernel: Kernel, arrays: dict[str, np.ndarray[Any, Any]], values: dict[str, Any], count: int) -> None:
        self.kernel = kernel
        self.counts: Counter[tuple[str, int, str]] = Counter()
        self.bytes: Counter[str] = Counter()
        scalars = {kernel.count: count} | {one.of: values[one.name] for one in kernel.values if isinstance(one.of, Variable)}
        self.memory: dict[Object, Any] = {one.of: arrays[one.name].copy() for one in kernel.arrays if isinstance(one.of, Object)}
        self.sizes = {one: shape_of(one, scalars) for one in kernel.objects}
        with np.errstate(all="ignore"):
            for number in range(count):
                self.variables: dict[Variable, Any] = {one: _typed(value, one.type) for one, value in scalars.items()}
                self.variables[kernel.instance] = np.int32(number)
                self.block(kernel.body)

    def count(self, memory: str, at: At, way: str, type_: Type) -> None:
        self.counts[memory, at.line, way] += 1
        self.bytes[memory] += SIZES[type_]

    def block(self, block: Block) -> None:
        for one in block:
            self.statement(one)

    def statement(self, one: Statement) -> None:
        match one:
            case Declare(what=Object() as what):
                self.memory[what] = np.zeros(self.sizes[what], DTYPES[what.type])
            case Assign():
                value = self.value(one.value)
                self.count("register", one.at, "writes", one.variable.type)
                self.variables[one.variable] = value
            case Store():
                index = tuple(self.value(part) for part in one.index)
                self.target = (one, index)
                value = self.value(one.value)
                self.target = None
                self.count(one.object.memory, one.at, "writes", one.object.type)
                self.memory[one.object][index] = value
            case Atomic():
                raise NotImplementedError
            case If():
                self.block(one.then if self.value(one.condition) else one.other)
            case Loop():
                self.loop(one)
            case Break():
                raise Jump("break")
            case Continue():
                raise Jump("continue")
            case Leave():
                raise Jump(one.number)
            case Scope():
                try:
                    self.block(one.body)
                except Jump as jump:
                    if jump.to != one.number:
                        raise

    def loop(self, one: Loop) -> None:
        first = one.test_last
        while True:
            if not first:
                self.block(one.before)
                if not self.value(one.condition):
                    return
            first = False
            try:
                self.block(one.body)
            except Jump as jump:
                if jump.to == "break":
                    return
                if jump.to != "continue":
                    raise
            self.block(one.update)

    target: tuple[Store, tuple[Any, ...]] | None = None

    def value(self, one: Expression) -> Any:
        match one:
            case Constant():
                return _typed(one.value, one.type)
            case Read():
                self.count("register", one.at, "reads", one.type)
                return self.variables[one.variable]
            case Load():
                same = self.target and self.target[0].object is one.object and self.target[0].index == one.index
                index = self.target[1] if self.target and same else tuple(self.value(part) for part in one.index)
                self.count(one.object.memory, one.at, "reads", one.type)
                return self.memory[one.object][index]
            case Unary():
                inner = self.value(one.value)
                return np.bool_(not inner) if one.operator == "!" else ~inner if one.operator == "~" else -inner
            case Binary(operator="and"):
                return self.value(one.left) and self.value(one.right)
            case Binary(operator="or"):
                return self.value(one.left) or self.value(one.right)
            case Binary():
                return self.binary(one, self.value(one.left), self.value(one.right))
            case Choice():
                return self.value(one.yes if self.value(one.condition) else one.no)
            case Cast():
                return _cast(self.value(one.value), one.type)
            case Call():
                return _called(one, [self.value(part) for part in one.arguments])

    def binary(self, one: Binary, left: Any, right: Any) -> Any:
        match one.operator:
            case "+":
                return left + right
            case "-":
                return left - right
            case "*":
                return left * right
            case "&":
                return left & right
            case "|":
                return left | right
            case "^":
                return left ^ right
            case "<" | "<=" | ">" | ">=" | "==" | "!=":
                return _COMPARE[one.operator](left, right)
            case "<<" | ">>":
                by = type(left)(right & (31 if one.type == "int" else 63))
                return left << by if one.operator == "<<" else left >> by
        if one.type not in WHOLE:
            return left / right
        if right == 0:
            return type(left)(0)
        whole = abs(int(left)) // abs(int(right)) * (1 if (left < 0) == (right < 0) else -1)
        return _typed(whole if one.operator == "/" else int(left) - whole * int(right), one.type)


def _typed(value: Any, type_: Type) -> Any:
    if type_ in ("int", "long"):
        bits = 8 * SIZES[type_]
        value = (int(value) + 2 ** (bits - 1)) % 2**bits - 2 ** (bits - 1)
    return np.dtype(DTYPES[type_]).type(value)


def _cast(value: Any, type_: Type) -> Any:
    if type_ in ("int", "long") and isinstance(value, np.floating):
        low, high = -(2 ** (8 * SIZES[type_] - 1)), 2 ** (8 * SIZES[type_] - 1) - 1
        return _typed(0 if np.isnan(value) else low if value <= low else high if value >= high else int(value), type_)
    if type_ == "bool":
        return np.bool_(value != 0)
    return _typed(value, type_) if type_ in ("int", "long") else np.dtype(DTYPES[type_]).type(value)


def _called(one: Call, given: list[Any]) -> Any:
    if one.name == "fma":
        return _fma(*given)
    if one.name in ("fmin", "fmax"):
        first, second = given
        return first if np.isnan(second) or (first < second if one.name == "fmin" else first > second) else second
    if one.name == "round":
        (value,) = given
        below = np.floor(abs(value))
        return np.copysign(below + (abs(value) - below >= 0.5), value).astype(value.dtype) if np.isfinite(value) else value
    return getattr(np, one.name)(*given)


def _fma(one: Any, other: Any, more: Any) -> Any:
    kind = type(one)
    if not (np.isfinite(one) and np.isfinite(other) and np.isfinite(more)):
        return kind(float(one) * float(other) + float(more)) if not np.isfinite(one * other) or np.isfinite(more) else more
    exact = Fraction(float(one)) * Fraction(float(other)) + Fraction(float(more))
    if exact == 0:
        return one * other + more if one == 0 or other == 0 else kind(0)
    largest = Fraction(float(np.finfo(kind).max))
    if abs(exact) > largest:
        half = largest + Fraction(float(np.spacing(np.finfo(kind).max))) / 2
        return kind(math.copysign(math.inf if abs(exact) >= half else float(largest), exact))
    near = kind(float(exact))
    options = [near, np.nextafter(near, kind(-math.inf)), np.nextafter(near, kind(math.inf))]
    options = [one for one in options if np.isfinite(one)]
    bits = f"u{kind().itemsize}"
    best = min(options, key=lambda one: (abs(Fraction(float(one)) - exact), int(np.asarray(one).view(bits)) & 1))
    return kind(math.copysign(0.0, exact)) if best == 0 else best

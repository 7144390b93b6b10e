"""LLVM's text, written line by line: functions, blocks and operations on scalars and vectors alike."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

from laminar.kernels.language.tree import Type

KINDS: Final[dict[Type, str]] = {"bool": "i1", "int": "i32", "long": "i64", "float": "float", "double": "double"}
BITS: Final[dict[str, int]] = {"i1": 1, "i8": 8, "i16": 16, "i32": 32, "i64": 64, "float": 32, "double": 64}


@dataclass(frozen=True)
class Word:
    """A value of LLVM: `%12` of type `<16 x float>`, or a constant."""

    name: str
    type: str

    @property
    def kind(self) -> str:
        """Of one element."""
        return element(self.type)

    @property
    def width(self) -> int:
        """Elements; 0 of a scalar."""
        return int(self.type[1:].split(" ", 1)[0]) if self.type[0] == "<" else 0

    @property
    def constant(self) -> bool:
        return self.name[0] != "%"

    def __str__(self) -> str:
        return f"{self.type} {self.name}"


def element(type_: str) -> str:
    return type_.split(" x ")[1][:-1] if type_[0] == "<" else type_


def wide(kind: str, width: int) -> str:
    """`width` 0: a scalar."""
    return f"<{width} x {kind}>" if width else kind


def number(kind: str, value: float, width: int = 0) -> Word:
    """A constant; the same in all lanes."""
    if kind in ("float", "double"):
        if kind == "float":
            value = struct.unpack("f", struct.pack("f", value))[0] if abs(value) != float("inf") else value
        text = f"0x{struct.unpack('Q', struct.pack('d', value))[0]:016X}"
    else:
        text = str(int(value)) if kind != "i1" else ("true" if value else "false")
    return Word(f"splat ({kind} {text})", wide(kind, width)) if width else Word(text, kind)


def lanes(kind: str, width: int, step: int = 1) -> Word:
    """0, step, 2 step, …"""
    return Word("<" + ", ".join(f"{kind} {one * step}" for one in range(width)) + ">", wide(kind, width))


@dataclass
class Module:
    """Functions, and what they call."""

    declared: dict[str, str] = field(default_factory=dict)
    functions: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        return "\n".join([*self.declared.values(), *self.functions, '!0 = !{!"branch_weights", i32 1, i32 2000}', ""])


@dataclass
class Code:
    """One function while it is written. `open`: the block that is being written has no end yet."""

    module: Module
    name: str
    parameters: Sequence[tuple[Word, str]]  # and attributes
    result: str = "i32"
    attributes: str = ""
    lines: list[str] = field(default_factory=list)
    first: list[str] = field(default_factory=list)  # of the entry block
    open: bool = True
    _names: int = 0

    def fresh(self, word: str = "") -> str:
        self._names += 1
        return f"{word}{self._names}"

    def emit(self, text: str) -> None:
        if not self.open:  # never reached, but it has to stand somewhere
            self.label(self.fresh("dead"))
        self.lines.append("  " + text)

    def op(self, text: str, type_: str) -> Word:
        made = Word(f"%v{self.fresh()}", type_)
        self.emit(f"{made.name} = {text}")
        return made

    def binary(self, operator: str, left: Word, right: Word) -> Word:
        return self.op(f"{operator} {left}, {right.name}", left.type)

    def unary(self, operator: str, value: Word) -> Word:
        return self.op(f"{operator} {value}", value.type)

    def compare(self, test: str, left: Word, right: Word) -> Word:
        word = "fcmp" if left.kind in ("float", "double") else "icmp"
        return self.op(f"{word} {test} {left}, {right.name}", wide("i1", left.width))

    def select(self, test: Word, yes: Word, no: Word) -> Word:
        return self.op(f"select {test}, {yes}, {no}", yes.type)

    def convert(self, operator: str, value: Word, kind: str) -> Word:
        type_ = wide(kind, value.width)
        return self.op(f"{operator} {value} to {type_}", type_)

    def as_bits(self, value: Word, type_: str) -> Word:
        return self.op(f"bitcast {value} to {type_}", type_)

    def splat(self, value: Word, width: int) -> Word:
        if not width:
            return value
        if value.constant:
            return Word(f"splat ({value})", wide(value.type, width)) if value.name != "null" else value
        type_ = wide(value.type, width)
        one = self.op(f"insertelement {type_} poison, {value}, i32 0", type_)
        return self.op(f"shufflevector {one}, {type_} poison, <{width} x i32> zeroinitializer", type_)

    def call(self, name: str, result: str, arguments: Sequence[Word], attributes: str = "") -> Word:
        if name not in self.module.declared and not name.startswith("own."):
            types = ", ".join(one.type for one in arguments)
            self.module.declared[name] = f"declare {result} @{name}({types}) {attributes}"
        given = ", ".join(str(one) for one in arguments)
        if result == "void":
            self.emit(f"call void @{name}({given})")
            return Word("void", "void")
        return self.op(f"call {result} @{name}({given})", result)

    def intrinsic(self, name: str, *arguments: Word, result: str = "") -> Word:
        """An LLVM function that is named by its arguments' type, `llvm.fma`."""
        type_ = arguments[0].type
        short = type_.replace("<", "v").replace(" x ", "").replace(">", "")
        short = short.replace("float", "f32").replace("double", "f64")
        return self.call(f"llvm.{name}.{short}", result or type_, arguments)

    def address(self, kind: str, base: Word, index: Word) -> Word:
        return self.op(f"getelementptr {kind}, {base}, {index}", wide("ptr", index.width))

    def load(self, type_: str, place: Word, align: int = 0, *, opaque: bool = False) -> Word:
        """`opaque`: LLVM takes it as it is, and does not look at what was stored."""
        return self.op(f"load {'volatile ' * opaque}{type_}, {place}" + (f", align {align}" if align else ""), type_)

    def store(self, value: Word, place: Word, align: int = 0, *, opaque: bool = False) -> None:
        self.emit(f"store {'volatile ' * opaque}{value}, {place}" + (f", align {align}" if align else ""))

    def room(self, type_: str, count: int = 1, align: int = 0) -> Word:
        """Memory of the function's own, made once."""
        made = Word(f"%a{self.fresh()}", "ptr")
        self.first.append(f"  {made.name} = alloca {type_}, i64 {count}" + (f", align {align}" if align else ""))
        return made

    def label(self, name: str) -> None:
        if self.open:
            self.jump(name)
        self.lines.append(f"{name}:")
        self.open = True

    def jump(self, name: str) -> None:
        self.emit(f"br label %{name}")
        self.open = False

    def branch(self, test: Word, yes: str, no: str, *, rare: bool = False) -> None:
        """`rare`: it is hardly ever true."""
        self.emit(f"br {test}, label %{yes}, label %{no}" + (", !prof !0" if rare else ""))
        self.open = False

    def give(self, value: Word) -> None:
        self.emit(f"ret {value}")
        self.open = False

    @contextmanager
    def when(self, test: Word) -> Iterator[None]:
        """What is written within runs if the test holds."""
        yes, after = self.fresh("yes"), self.fresh("after")
        self.branch(test, yes, after)
        self.label(yes)
        yield
        self.label(after)

    def finish(self) -> None:
        given = ", ".join(f"{word.type} {more} {word.name}".replace("  ", " ") for word, more in self.parameters)
        linkage = "internal " if self.name.startswith("own.") else ""
        head = f"define {linkage}{self.result} @{self.name}({given}) {self.attributes} {{"
        body = "\n".join([head, "entry:", *self.first, "  br label %start", "start:", *self.lines, "}"])
        self.module.functions.append(body)

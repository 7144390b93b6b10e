"""The Python text of a kernel while it is written: lines, names, and which line of them counts what.

Nothing is counted one by one. A block is a piece of the text that runs from its start to its end; each has one counter, and what stands in
it (accesses, variables read and set) was done as often as the block.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final, Literal

from laminar.kernels.emulate.trace import End
from laminar.kernels.language.tree import SIZES, At, Atomic, Load, Loop, Object, Store, Variable

Kind = Literal["read", "write", "atomic"]
_ATOM: Final = re.compile(r"\w+|\(?-?[\d.]+(?:e[+-]?\d+)?\)?")


@dataclass(frozen=True)
class Site:
    """A place of the text that looks at an array. `once`: an instance comes by at most once."""

    number: int
    at: At
    object: Object
    kind: Kind
    block: int
    once: bool


@dataclass
class Writer:
    watched: frozenset[Object] = frozenset()  # whose elements may have no value yet
    waits: bool = False  # there are barriers
    looked_at: frozenset[At] | None = None  # places whose accesses may be races; None: all
    arithmetic: bool = False  # numbers that wrap around, wide shifts and cut conversions are findings
    traced: bool = False  # who wrote it is kept of each element and variable (trace.py)
    lines: list[str] = field(default_factory=list)
    parts: list[list[str]] = field(default_factory=list)  # functions within: see statements.py
    depth: int = 1
    block: int | None = None
    blocks: int = 0
    sites: list[Site] = field(default_factory=list)
    places: list[tuple[At, str]] = field(default_factory=list)  # what else can go wrong, and the name of what it goes wrong with
    registers: dict[tuple[int, int], list[int]] = field(default_factory=dict)  # (block, line): reads, writes, bytes
    known: set[Variable] | None = field(default_factory=set)  # variables that have a value here for sure; None: nobody comes here
    then: set[Variable] | None = None
    target: tuple[Store, list[str]] | None = None  # the store whose value is being written, and its index
    claims: Mapping[int, tuple[int, ...]] = field(default_factory=dict)  # facts by the id of what they are of (held.py)
    loops: int = 0  # of the kernel, around what is being written
    ends: list[End] = field(default_factory=list)  # places that read or write, if that is traced
    uses: dict[Object, set[Kind]] = field(default_factory=dict)
    _temporaries: int = 0
    _variables: dict[Variable, str] = field(default_factory=dict)
    _objects: dict[Object, int] = field(default_factory=dict)

    def line(self, text: str) -> None:
        self.lines.append(" " * self.depth + text)

    @contextmanager
    def under(self, head: str) -> Iterator[None]:
        """Lines that belong to `if …:` and the like: a block of their own. What is known at their end is in `then`."""
        self.line(head)
        self.depth += 1
        block, self.block = self.block, None
        known = None if self.known is None else set(self.known)
        before = len(self.lines)
        yield
        if len(self.lines) == before:
            self.line("pass")
        self.depth -= 1
        self.block, self.then, self.known = block, self.known, known

    def here(self) -> int:
        """The block that is being written; with its counter."""
        if self.block is None:
            self.block = self.blocks
            self.blocks += 1
            self.line(f"b{self.block} += 1")
        return self.block

    def hold(self, of: Load | Store | Atomic | Loop, *what: str) -> None:
        """A line that compares what it is with what is proved of it, if that is asked."""
        for number in self.claims.get(id(of), ()):
            self.line(f"held({number}, v0, ({', '.join(what)},))")

    def temporary(self, value: str | None = None) -> str:
        self._temporaries += 1
        name = f"t{self._temporaries}"
        if value is not None:
            self.line(f"{name} = {value}")
        return name

    def atom(self, value: str) -> str:
        """A name or number for it, so that it may be written twice."""
        return value if _ATOM.fullmatch(value) else self.temporary(value)

    def variable(self, variable: Variable) -> str:
        return self._variables.setdefault(variable, f"v{len(self._variables)}")

    def object(self, object_: Object) -> int:
        return self._objects.setdefault(object_, len(self._objects))

    @property
    def objects(self) -> dict[Object, int]:
        return self._objects

    @property
    def names(self) -> list[str]:
        """All that belong to one instance."""
        lists = [number for object_, number in self._objects.items() if object_.memory == "local"]
        made = [*self._variables.values(), *(f"a{number}" for number in lists)]
        return [*made, *(self.origin(one) for one in self._variables), *(f"g{number}" for number in lists)] if self.traced else made

    def origin(self, of: Variable | Object) -> str:
        """What keeps who wrote it: of an array a list."""
        return f"g{self.object(of)}" if isinstance(of, Object) else f"g{self.variable(of)}"

    def end(self, at: At, of: Variable | Object) -> int:
        self.ends.append(End(at, of))
        return len(self.ends) - 1

    def register(self, variable: Variable, at: At, *, write: bool) -> None:
        counts = self.registers.setdefault((self.here(), at.line), [0, 0, 0])
        counts[write] += 1
        counts[2] += SIZES[variable.type]

    def same_element(self, node: Load) -> list[str] | None:
        """Of `a[k] += v`: the index that the store has, looked at once."""
        if self.target and self.target[0].object is node.object and self.target[0].index == node.index:
            return self.target[1]
        return None

    def site(self, at: At, object_: Object, kind: Kind) -> Site:
        made = Site(len(self.sites), at, object_, kind, self.here(), once=self.loops == 0)
        self.sites.append(made)
        return made

    def place(self, at: At, name: str = "") -> int:
        self.places.append((at, name))
        return len(self.places) - 1

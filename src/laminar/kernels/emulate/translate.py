"""A kernel to a Python function that runs its instances.

    def program(order, steps, v1, …, a0, …, s0_0, …):     the instances' order, values, arrays, sizes; and shadows of arrays
        for v0 in order: …                                 v0: the instance
        return [b0, b1, …]                                 how often each block ran

With barriers it gives a generator function of one instance in the place of running them, and a function that gives the counters.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from types import CodeType, MappingProxyType
from typing import Final

from laminar.core.errors import LaminarError
from laminar.kernels.emulate.accesses import STRIDES, shadows
from laminar.kernels.emulate.statements import Body, block
from laminar.kernels.emulate.writer import Kind, Writer
from laminar.kernels.language.tree import (
    At,
    Atomic,
    Barrier,
    Kernel,
    Load,
    Object,
    Store,
    Variable,
    expressions,
    statements,
    walk,
)

NOTHING: Final[Mapping[int, tuple[int, ...]]] = MappingProxyType({})


@dataclass(frozen=True, eq=False)
class Program:
    """`writer` knows the sites, places and names; `barriers` by their number; `shadows`: lists that are needed, by name."""

    kernel: Kernel
    text: str
    writer: Writer
    barriers: tuple[Barrier, ...]
    shadows: dict[str, Object]

    @cached_property
    def code(self) -> CodeType:
        try:
            return compile(self.text, "kernel", "exec")
        except (SyntaxError, MemoryError, RecursionError):
            said = "conditions within conditions go too deep for the emulator"
            raise LaminarError("L701", said, hint="give parts of the expression names of their own") from None


def translated(
    kernel: Kernel,
    empty: frozenset[str] = frozenset(),
    claims: Mapping[int, tuple[int, ...]] = NOTHING,
    *,
    arithmetic: bool = False,
    races: frozenset[At] | None = None,
    traced: bool = False,
) -> Program:
    """`empty`: arrays whose elements have no value at the start. `claims`: numbers of what the run is held against (held.py). `arithmetic`:
    look for results that are not what was computed. `races`: places whose accesses may be races; None: all. `traced`: tell who wrote what
    each read gets."""
    waits = any(isinstance(one, Barrier) for one in statements(kernel.body))
    watched = frozenset(one for one in kernel.objects if one.memory != "global" or one.name in empty)
    w = Writer(watched, waits, races, arithmetic, traced, uses=_uses(kernel), depth=2, claims=claims)
    for parameter in kernel.parameters:
        if isinstance(parameter.of, Variable):
            w.variable(parameter.of)
            assert w.known is not None
            w.known.add(parameter.of)
    for object_ in kernel.objects:
        w.object(object_)
    body = Body(w)
    block(body, kernel.body)
    needed = shadows(w)
    return Program(kernel, "\n".join(_assembled(kernel, w, needed)), w, tuple(body.barriers), needed)


def _uses(kernel: Kernel) -> dict[Object, set[Kind]]:
    found: dict[Object, set[Kind]] = {}
    for one in statements(kernel.body):
        if isinstance(one, (Store, Atomic)):
            found.setdefault(one.object, set()).add("write" if isinstance(one, Store) else "atomic")
        for whole in expressions(one):
            for part in walk(whole):
                if isinstance(part, Load):
                    found.setdefault(part.object, set()).add("read")
    return found


def given(kernel: Kernel, w: Writer) -> list[str]:
    """Names of what the function is called with beside order, steps and shadows: values, arrays, sizes."""
    values = [f"{w.variable(one.of)}_" for one in kernel.parameters[1:] if isinstance(one.of, Variable)]
    arrays = [f"a{number}" for object_, number in w.objects.items() if object_.memory != "local"]
    sizes = [f"s{number}_{axis}" for object_, number in w.objects.items() for axis in range(len(object_.shape))]
    origins = [w.origin(one) for one in w.objects if w.traced and one.memory != "local"]
    return [*values, *arrays, *sizes, *origins]


def _assembled(kernel: Kernel, w: Writer, needed: dict[str, Object]) -> list[str]:
    counters = [f"b{number}" for number in range(w.blocks)]
    own = [*w.names, *_seen(w), "me", "base", "n", "j"]  # of one instance
    lines = [f"def program({', '.join(['order', 'steps', *given(kernel, w), *needed])}):", *(f" {name} = 0" for name in counters)]
    deep = [f"{' = '.join(one for one in own if one not in ('v0', 'base'))} = None", *_parts(w, [*own, *counters])] if w.parts else []
    start = [f"  {line}" for line in _start(kernel, w)]
    if w.waits:
        lines.append(" def instance(v0, base):")
        lines += [f"  nonlocal {', '.join(counters)}"] if counters else []
        lines += [f"  {line}" for line in deep]
        return [*lines, "  me = base + v0", *start, *w.lines, *_end(w), f" return instance, lambda: [{', '.join(counters)}]"]
    lines += [f" {line}" for line in (["v0 = base = None", *deep] if deep else [])]
    return [*lines, " for v0 in order:", "  me = v0", *start, *w.lines, *_end(w), f" return [{', '.join(counters)}]"]


def _start(kernel: Kernel, w: Writer) -> list[str]:
    """Of each instance: values are its own, it has its steps, and no access was seen yet."""
    lines = [f"{name} = {name}_" for name in (w.variable(one.of) for one in kernel.parameters[1:] if isinstance(one.of, Variable))]
    if w.traced:
        lines += [f"{w.origin(one.of)} = GIVEN" for one in kernel.parameters if isinstance(one.of, Variable)]
    lines += ["n = steps", "j = 0"]
    for site in w.sites:
        if site.object.memory != "local":
            lines += [f"x{site.number} = None"] if site.once else [f"m{site.number} = {STRIDES}; l{site.number} = []"]
    return lines


def _seen(w: Writer) -> list[str]:
    found: list[str] = []
    for site in w.sites:
        if site.object.memory != "local":
            found += [f"x{site.number}"] if site.once else [f"m{site.number}", f"l{site.number}"]
    return found


def _end(w: Writer) -> list[str]:
    seen = [name for name in _seen(w) if name[0] != "m"]
    return [f"  ended(v0, ({', '.join(seen)},))"] if seen else ["  pass"]


def _parts(w: Writer, shared: list[str]) -> list[str]:
    lines: list[str] = []
    for number, part in enumerate(w.parts):
        lines += [f"def part{number}():", f"  nonlocal {', '.join(shared)}", *(["  if False: yield"] if w.waits else []), *part]
    return lines

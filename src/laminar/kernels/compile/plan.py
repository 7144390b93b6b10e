"""How a kernel is run: one instance after another, as lanes, or as blocks in registers; from counts, not from trials.

A block of rows x vectors needs its accumulators in registers, and loads that differ along one direction only are shared along the other:
the same counts as for the blocks of a matrix product (Goto and van de Geijn, "Anatomy of High-Performance Matrix Multiplication", 2008).
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations_with_replacement
from typing import Final

from laminar.kernels.analyse.barriers import Intervals
from laminar.kernels.analyse.facts import Facts
from laminar.kernels.analyse.races import Races
from laminar.kernels.analyse.space import Digit, Space
from laminar.kernels.compile.boxes import Plan
from laminar.kernels.compile.differs import Differs
from laminar.kernels.compile.grid import LANES, ROWS, Shape
from laminar.kernels.compile.host import Host
from laminar.kernels.language.room import local_bytes
from laminar.kernels.language.tree import (
    Assign,
    Atomic,
    Block,
    Declare,
    Kernel,
    Load,
    Loop,
    Object,
    Store,
    Variable,
    expressions,
    statements,
    walk,
)
from laminar.kernels.language.tree import blocks as inner_blocks

BLOCKS: Final = ((1, 1), (1, 4), (2, 4), (4, 2), (4, 4), (6, 4))
SHORT: Final = ((1, 1), (1, 2), (8, 1), (4, 2))  # where rows are parts of pictures, and have few elements
SPARE: Final = 3  # registers for what is loaded once and for constants
LARGEST: Final = 1 << 18  # bytes of local arrays of a block
GAIN: Final = 1.15  # a larger block has to be that much better


def planned(kernel: Kernel, space: Space, host: Host, *, blocks: bool = True) -> Plan | None:
    """None: no lanes, since local arrays would be too large."""
    types = {one.type for one in kernel.objects} | {one.of.type for one in kernel.values}
    width = host.vector // (8 if types & {"double", "long"} else 4)
    if local_bytes(kernel.objects) * width > LARGEST:
        return None
    plain = Plan(Shape(1, 1, width), 1 if space.cuts else 0)
    loops = [one for one in _innermost(kernel.body) if _adds(one)]
    if not blocks or not loops or any(isinstance(one, Atomic) for one in statements(kernel.body)):
        return plain
    best, least = plain, _cost(space, plain, loops, host) or float("inf")
    for axis in range(1, len(space.cuts) + 1) if space.cuts else (0,):
        for rows, vectors in BLOCKS if len(space.cuts) < 2 else SHORT:
            if rows > 1 and not axis:
                continue
            plan = Plan(Shape(rows, vectors, width), axis)
            cost = _cost(space, plan, loops, host)
            if cost is not None and cost * GAIN < least and local_bytes(kernel.objects) * plan.shape.instances <= LARGEST:
                best, least = plan, cost
    return best


@dataclass
class _Counts:
    """Of one round of a loop, for a whole block."""

    loads: float = 0
    work: float = 0
    held: int = 0


def _cost(space: Space, plan: Plan, loops: list[Loop], host: Host) -> float | None:
    """Cycles for one instance's round, roughly: what is loaded and what is computed, shared by the block; None: too many registers."""
    differs = Differs.of(space, plan.shape, plan.axis)
    total = 0.0
    for loop in loops:
        counts = _counted(differs, loop)
        if plan.shape.instances > plan.shape.width and counts.held > host.registers - SPARE:
            return None
        chains = plan.shape.rows * plan.shape.vectors
        waiting = 4.0 / chains  # a sum waits for the one before
        total += max(counts.loads + counts.work, waiting * chains) / plan.shape.instances
    return total


def _counted(differs: Differs, loop: Loop) -> _Counts:
    made, shape = _Counts(), differs.shape
    carried: set[Variable] = {one.variable for one in statements(loop.body) if isinstance(one, Assign)}
    carried -= {one.what for one in statements(loop.body) if isinstance(one, Declare) and isinstance(one.what, Variable)}
    made.held = sum(
        shape.size(differs.variables[one].bits) for one in carried if one in differs.variables and differs.variables[one].bits & LANES
    )
    widest = 0
    for statement in statements(loop.body):
        for whole in expressions(statement):
            for part in walk(whole):
                kind = differs.kind(part)
                words = shape.size(kind.bits)
                if isinstance(part, Load):
                    gathered = any(
                        (found := differs.kind(index)).bits & LANES and (found.stride != 1 or place < len(part.index) - 1)
                        for place, index in enumerate(part.index)
                    )
                    made.loads += words * (shape.width if gathered else 1.0 if kind.bits & LANES else 0.5)
                    if kind.bits & LANES and not kind.bits & ROWS:
                        widest = max(widest, words)
                elif kind.bits & LANES and part.type in ("float", "double"):
                    made.work += 0.5 * words
    made.held += widest
    return made


def _innermost(block: Block) -> list[Loop]:
    found: list[Loop] = []
    for one in block:
        inner = [loop for part in inner_blocks(one) for loop in _innermost(part)]
        found += inner or ([one] if isinstance(one, Loop) else [])
    return found


def _adds(loop: Loop) -> bool:
    """Does it load, and carry something from round to round?"""
    loads = any(isinstance(part, Load) for one in statements(loop.body) for whole in expressions(one) for part in walk(whole))
    return loads and any(isinstance(one, Assign) for one in statements(loop.body))


def independent(kernel: Kernel, space: Space) -> bool:
    """Does no instance depend on what another does, but by atomics? By a quick look; else by analyse/races.py."""
    written: set[Object] = set()
    accesses: list[Load | Store | Atomic] = []
    for one in statements(kernel.body):
        accesses += [part for whole in expressions(one) for part in walk(whole) if isinstance(part, Load)]
        if isinstance(one, (Store, Atomic)):
            accesses.append(one)
            if one.object.memory != "local":
                written.add(one.object)
    shared = [one for one in accesses if one.object in written]
    if all(_tells_instance(space, one) for one in shared):
        return True
    races = Races(Facts.of(kernel), Intervals.of(kernel))
    for first, second in combinations_with_replacement(shared, 2):
        both = (isinstance(first, Atomic) and isinstance(second, Atomic)) or (isinstance(first, Load) and isinstance(second, Load))
        if first.object is second.object and not both and races.apart(first, second) is None:
            return False
    return True


def _tells_instance(space: Space, access: Load | Store | Atomic) -> bool:
    """Do its indices name all digits of the instance?"""
    spans = sorted((one for one in map(space.digit, access.index) if one is not None), key=lambda one: len(one.low))
    reached: Digit | None = None
    for one in spans:
        if one.low == () if reached is None else one.low == reached.high:
            reached = one
    return reached is not None and reached.high is None

"""What goes wrong while a kernel runs: one finding for each kind and place, with the first instances and how often."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Literal, NoReturn

from laminar.core.errors import LaminarError
from laminar.kernels.emulate.writer import Kind, Site
from laminar.kernels.language.rules import excerpt
from laminar.kernels.language.tree import At, Kernel, Object

Wrong = Literal[
    "out-of-bounds", "uninitialised", "race", "division-by-zero", "divergent-barrier", "wrapped-overflow", "wide-shift", "cut-conversion"
]
ARITHMETIC: Final = ("wrapped-overflow", "wide-shift", "cut-conversion")
"""What the language gives a meaning to, so that it is looked for only if somebody asks."""
_VERB: Final[dict[Kind, str]] = {"read": "reads", "write": "writes", "atomic": "changes"}
HINTS: Final[dict[str, str]] = {
    "out-of-bounds": "a larger array, fewer instances, or a test of the index before the access",
    "uninitialised": "write it before it is read",
    "race": "an element for each instance, `atomic_add`, or `barrier()` between the two",
    "division-by-zero": "test the divisor first",
    "wrapped-overflow": "a long, or a test of the numbers before",
    "wide-shift": "a shift by less than the number has bits",
    "cut-conversion": "a test of the number before it is converted",
    "divergent-barrier": "call `barrier()` where all instances pass, outside of conditions that differ between them",
}


@dataclass(frozen=True)
class Finding:
    """`other`: of a race the place of the other access, of barriers the one where others are."""

    kind: Wrong
    at: At
    instances: tuple[int, ...]
    what: str
    times: int = 1
    object: str | None = None
    index: tuple[int, ...] = ()
    other: At | None = None

    def to_json(self) -> dict[str, Any]:
        return {
            "kind": self.kind,
            "line": self.at.line,
            "column": self.at.column,
            "instances": list(self.instances),
            "times": self.times,
            "what": self.what,
            "object": self.object,
            "index": list(self.index),
            "other": None if self.other is None else {"line": self.other.line, "column": self.other.column},
        }

    def text(self, name: str, source: str) -> str:
        """With the line, and a caret under the place."""
        often = f" ({self.times:,} times)" if self.times > 1 else ""
        shown = f"{name}:{self.at.line}:{self.at.column}: {self.what}{often}\n{excerpt(source, self.at)}"
        return shown if self.other is None or self.other == self.at else f"{shown}\n{excerpt(source, self.other)}"


class Watch:
    """What the emulated kernel calls when something is wrong; the run goes on. `sites` and `places` are those of its text."""

    CALLED: Final = ("outside", "empty", "unset", "divided", "wrapped", "shifted", "cut", "race", "endless")

    def __init__(self, kernel: Kernel, sites: Sequence[Site], places: Sequence[tuple[At, str]], count: int, steps: int, file: str) -> None:
        self._kernel, self._sites, self._places, self._count, self._steps, self._file = kernel, sites, places, count, steps, file
        self._found: dict[tuple[str, At, At | None], Finding] = {}
        self.shapes: dict[Object, tuple[int, ...]] = {}
        self.missed = [0] * len(sites)  # accesses that were not done

    @property
    def findings(self) -> tuple[Finding, ...]:
        return tuple(sorted(self._found.values(), key=lambda one: (one.at, one.kind, one.other or one.at)))

    def add(self, finding: Finding) -> None:
        key = (finding.kind, finding.at, finding.other)
        before = self._found.get(key)
        self._found[key] = finding if before is None else replace(before, times=before.times + 1)

    def outside(self, site_number: int, instance: int, index: tuple[int, ...]) -> None:
        site = self._sites[site_number]
        shape, name = self.shapes[site.object], site.object.name
        self.missed[site_number] += 1
        has = f"{shape[0]:,} element{'s' * (shape[0] != 1)}" if len(shape) == 1 else f"the shape {_index(shape)}"
        what = f"instance {instance} {_VERB[site.kind]} {name}{_index(index)}, the array has {has}"
        self.add(Finding("out-of-bounds", site.at, (instance,), what, object=name, index=index))

    def empty(self, site_number: int, instance: int, flat: int) -> bool | int | float:
        """An element without a value is 0."""
        site = self._sites[site_number]
        index, name = self.index(site.object, flat), site.object.name
        what = f"instance {instance} {_VERB[site.kind]} {name}{_index(index)}, which nobody wrote"
        self.add(Finding("uninitialised", site.at, (instance,), what, object=name, index=index))
        return False if site.object.type == "bool" else 0 if site.object.type in ("int", "long") else 0.0

    def unset(self, place: int, instance: int, zero: bool | int | float) -> bool | int | float:
        at, name = self._places[place]
        self.add(Finding("uninitialised", at, (instance,), f"instance {instance} reads `{name}`, which has no value", object=name))
        return zero

    def divided(self, place: int, instance: int) -> int:
        at, _ = self._places[place]
        self.add(Finding("division-by-zero", at, (instance,), f"instance {instance} divides a whole number by zero"))
        return 0

    def wrapped(self, place: int, instance: int, result: int, wrapped: int) -> int:
        at, what = self._places[place]
        said = f"instance {instance}: {what} is {result:,}, which wraps around to {wrapped:,}"
        self.add(Finding("wrapped-overflow", at, (instance,), said))
        return wrapped

    def shifted(self, place: int, instance: int, by: int) -> None:
        at, bits = self._places[place]
        said = f"instance {instance} shifts by {by:,}, a number of {bits} bits: by {by & (int(bits) - 1)} then"
        self.add(Finding("wide-shift", at, (instance,), said))

    def cut(self, place: int, instance: int, given: float, result: int) -> int:
        at, type_ = self._places[place]
        said = f"instance {instance} converts {given:g}, which no {type_} holds: to {result:,}"
        self.add(Finding("cut-conversion", at, (instance,), said))
        return result

    def race(self, site_number: int, flat: int, other_number: int, other_me: int, me: int) -> None:
        """The place that comes first in the text is named first, whoever ran first. `me` counts on from one barrier to the next."""
        first, second = (self._sites[site_number], me % self._count), (self._sites[other_number], other_me % self._count)
        if (second[0].at, second[1]) < (first[0].at, first[1]):
            first, second = second, first
        (site, one), (rival, other) = first, second
        index, name = self.index(site.object, flat), site.object.name
        where = "here, too" if site.at == rival.at else f"in line {rival.at.line}"
        what = f"instance {one} {_VERB[site.kind]} {name}{_index(index)}, and instance {other} {_VERB[rival.kind]} it {where}"
        self.add(Finding("race", site.at, (one, other), what, object=name, index=index, other=rival.at))

    def endless(self, place: int) -> NoReturn:
        at, _ = self._places[place]
        said = f"{self._file}:{at.line}:{at.column}: the loop went on for more than {self._steps:,} steps\n{excerpt(self._kernel.text, at)}"
        raise LaminarError("L704", said, hint=f"mend the loop's condition, or --steps {self._steps * 10}")

    def index(self, object_: Object, flat: int) -> tuple[int, ...]:
        index: list[int] = []
        for size in reversed(self.shapes[object_]):
            index.insert(0, flat % size)
            flat //= size
        return tuple(index)


def _index(index: Sequence[int]) -> str:
    return "".join(f"[{one}]" for one in index)

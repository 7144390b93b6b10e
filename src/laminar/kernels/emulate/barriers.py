"""Instances that wait for each other: each is a generator that stops at barriers, and all go on together.

A round lets every instance run to its next barrier. Where not all come to the same one, that is a finding, and those that wait go on.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from random import Random
from typing import Any, Final, TypeAlias

from laminar.kernels.emulate.findings import Finding, Watch
from laminar.kernels.language.tree import Barrier

Instance: TypeAlias = Generator[int, int, None]
_NAMED: Final = 4  # instances that a finding lists


def rounds(start: Callable[[int, int], Instance], count: int, order: Random | None, barriers: Sequence[Barrier], watch: Watch) -> None:
    """`start(number, base)` makes an instance; `base` goes up by the number of instances with each round, so that no two rounds meet."""
    base = 0
    waiting: dict[int, Instance] = {number: start(number, 0) for number in range(count)}
    first = True
    while waiting:
        reached: dict[int, list[int]] = {}
        ended: list[int] = []
        numbers = list(waiting)
        if order is not None:
            order.shuffle(numbers)
        for number in numbers:
            try:
                where = next(waiting[number]) if first else waiting[number].send(base)
                reached.setdefault(where, []).append(number)
            except StopIteration:
                ended.append(number)
        for number in ended:
            del waiting[number]
        if reached and (ended or len(reached) > 1):
            watch.add(_divergent({where: sorted(who) for where, who in reached.items()}, sorted(ended), barriers))
        base += count
        first = False


def _divergent(reached: dict[int, list[int]], ended: list[int], barriers: Sequence[Barrier]) -> Finding:
    (where, who), *others = sorted(reached.items())
    if others:
        elsewhere, them = others[0]
        at: Any = barriers[elsewhere].at
        what = f"{_named(who)} at this barrier, and {_named(them)} at the one in line {at.line}"
        return Finding("divergent-barrier", barriers[where].at, (who[0], them[0]), what, other=at)
    what = f"{_named(who)} at this barrier, which {_named(ended).replace(' is', ' does').replace(' are', ' do')} not reach"
    return Finding("divergent-barrier", barriers[where].at, (who[0], ended[0]), what)


def _named(instances: list[int]) -> str:
    shown = ", ".join(map(str, instances[:_NAMED])) + (", …" if len(instances) > _NAMED else "")
    return f"instance {shown} is" if len(instances) == 1 else f"instances {shown} are"

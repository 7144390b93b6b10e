"""Verdicts: of every access, pair of accesses, variable, division, barrier, loop and output: proved, a witness, or checked as it runs.

    for one in verdicts(kernel): print(one.text)

Never silence: what is not proved and has no witness is said to be checked at run time.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations_with_replacement
from typing import Final, Literal, TypeAlias

from laminar.kernels.analyse.assigned import Assigned, check_assigned
from laminar.kernels.analyse.barriers import Intervals, check_barriers
from laminar.kernels.analyse.counted import counted, ends_loop
from laminar.kernels.analyse.facts import Facts
from laminar.kernels.analyse.proofs import Fact, Proofs, open_ends, symbolic
from laminar.kernels.analyse.races import Access, Races
from laminar.kernels.analyse.replay import Replay
from laminar.kernels.analyse.space import Space
from laminar.kernels.analyse.witness import Small, beyond, meetings
from laminar.kernels.analyse.written import written_everywhere
from laminar.kernels.language.tree import At, Atomic, Barrier, Constant, Kernel, Load, Loop, Object, Read, statements

Kind: TypeAlias = Literal["bounds", "race", "uninitialised", "division", "barrier", "end", "written"]
Answer: TypeAlias = Literal["proved", "witness", "run-time"]

MOST_ASKED: Final = 3  # tests as a run starts that are told
MOST_PAIRS: Final = 4000  # of accesses to one array: some tenths of a second


@dataclass(frozen=True)
class Verdict:
    """`other`: of a race the second place. `instances`: of a witness those that show it. `said`: proved of runs that keep to
    `Granted.of(kernel, said=True)`; of `written`, with just as many instances."""

    kind: Kind
    verdict: Answer
    at: At
    other: At | None
    what: str
    why: str
    instances: tuple[int, ...] = ()
    said: bool = False

    @property
    def text(self) -> str:
        place = f"{self.at.line}:{self.at.column}" + (f" and {self.other.line}:{self.other.column}" if self.other else "")
        return f"{place}: {self.kind} of {self.what}: {_ANSWERS[self.verdict]}, {self.why}" + (_SAID if self.said else "")

    def to_json(self) -> dict[str, object]:
        made: dict[str, object] = {"kind": self.kind, "verdict": self.verdict, "line": self.at.line, "column": self.at.column}
        if self.other:
            made["other"] = {"line": self.other.line, "column": self.other.column}
        return made | {"what": self.what, "why": self.why, "instances": list(self.instances), "said": self.said}


_ANSWERS = {"proved": "proved", "witness": "a witness", "run-time": "checked as it runs"}
_SAID = ", in runs with as many instances as the text says or the first output has elements, and less than 2^31 elements"


def check(kernel: Kernel, name: str = "kernel.c") -> None:
    """Raises KernelError for what is wrong whatever the values are: K15, K16."""
    check_assigned(kernel, name)
    check_barriers(kernel, name)


def verdicts(kernel: Kernel, name: str = "kernel.c") -> list[Verdict]:
    """In the order of the text. Raises KernelError as `check` does."""
    check(kernel, name)
    every, replay = [Facts.of(kernel), Facts.of(kernel, said=True)], Replay(kernel)
    proofs = Proofs.of(kernel, Space.of(kernel), every[0])
    proved = [proofs.symbols, symbolic(every[1])]
    found = [
        *_bounds(every, proved, proofs.intervals, replay),
        *_races(every, replay),
        *_assigned(every[0]),
        *_divisions(every, replay),
        *(
            Verdict("barrier", "proved", one.at, None, "barrier", "all instances reach it")
            for one in statements(kernel.body)
            if isinstance(one, Barrier)
        ),
        *_ends(every[0], proved[0], replay),
        *_written(every),
    ]
    return sorted(found, key=lambda one: (one.at, one.kind, one.other or one.at))


def _nodes(facts: Facts) -> list[Access]:
    return [sites[0].node for sites in facts.values.sites.values()]


def _bounds(every: list[Facts], proved: list[Mapping[int, Fact]], started: Mapping[int, Fact], replay: Replay) -> Iterator[Verdict]:
    for node in _nodes(every[0]):
        name = f"`{node.object.name}`"
        fact = next(((bounds[id(node)], bool(said)) for said, bounds in enumerate(proved) if id(node) in bounds), None)
        if fact is not None:
            yield Verdict("bounds", "proved", node.at, None, name, fact[0].reason, (), fact[1])
            continue
        ways = (one for site in every[-1].accesses(node) for one in beyond(every[-1], site))
        shown = next(((*seen, small) for small in ways if (seen := replay.outside(small, node.at)) is not None), None)
        if shown is not None:
            instance, index, small = shown
            where = "".join(f"[{one}]" for one in index)
            yield Verdict("bounds", "witness", node.at, None, name, f"with {small.text} it is {node.object.name}{where}", (instance,))
        else:
            yield Verdict("bounds", "run-time", node.at, None, name, _open_ends(every[-1], node) + _unless(started.get(id(node))))


def _unless(fact: Fact | None) -> str:
    """In which runs native code checks nothing."""
    asked = fact.asked if fact is not None else []
    return f"; not in runs in which {' and '.join(asked)}" if 0 < len(asked) <= MOST_ASKED else ""


def _open_ends(facts: Facts, node: Access) -> str:
    for number in range(len(node.index)):
        if (left := open_ends(facts, node, number)) is not None:
            words = " or ".join(word for word, open_ in zip(("less than 0", "too large"), left, strict=True) if open_)
            return f"index {number + 1} may be {words}" if len(node.index) > 1 else f"the index may be {words}"
    return ""


def _races(every: list[Facts], replay: Replay) -> Iterator[Verdict]:
    intervals = Intervals.of(every[0].kernel)
    races = [Races(facts, intervals) for facts in every]
    nodes = [node for node in _nodes(every[0]) if node.object.memory != "local"]
    for array in dict.fromkeys(node.object for node in nodes):
        pairs = list(_pairs([node for node in nodes if node.object is array]))
        if len(pairs) > MOST_PAIRS:
            places = sorted(node.at for pair in pairs for node in pair)
            why = f"{len(pairs):,} pairs of accesses are too many to look at"
            yield Verdict("race", "run-time", places[0], places[-1], f"`{array.name}`", why)
            continue
        for pair in pairs:
            yield _race(races, replay, *sorted(pair, key=lambda node: node.at))


def _pairs(nodes: list[Access]) -> Iterator[tuple[Access, Access]]:
    """Of one array's accesses: those that could be a race."""
    for one, other in combinations_with_replacement(nodes, 2):
        both = (isinstance(one, Atomic) and isinstance(other, Atomic)) or (isinstance(one, Load) and isinstance(other, Load))
        if not both:
            yield one, other


def _race(races: list[Races], replay: Replay, one: Access, other: Access) -> Verdict:
    name = f"`{one.object.name}`"
    for each in races:
        why = each.apart(one, other)
        if why is not None:
            return Verdict("race", "proved", one.at, other.at, name, why, (), each.facts.said)
    facts, intervals = races[-1].facts, races[-1].intervals
    for site in facts.accesses(one) if not intervals.unsure else ():
        for second in facts.accesses(other):
            for small in meetings(facts, site, second, intervals.together(site, second)):
                seen = replay.meet(small, one.at, other.at)
                if seen is None:
                    continue
                first, later = seen
                why = f"with {small.text}: {first} and {later} use the same element"
                return Verdict("race", "witness", one.at, other.at, name, why, (first, later))
    return Verdict("race", "run-time", one.at, other.at, name, "two instances may use the same element")


def _assigned(facts: Facts) -> Iterator[Verdict]:
    found = Assigned.of(facts.kernel)
    given = {one.of for one in facts.kernel.parameters}
    for what, reads in ((what, reads) for what, reads in found.read.items() if what not in given):
        unsure = {id(one): one for one in reads if id(one) in found.unsure}
        if not unsure:
            yield Verdict("uninitialised", "proved", what.at, None, f"`{what.name}`", "it has a value wherever it is read")
        for one in unsure.values():
            why = "there is a way here on which it has no value" if isinstance(one, Read) else "elements may have no value yet"
            yield Verdict("uninitialised", "run-time", one.at, None, f"`{what.name}`", why)
    shared = [node for node in _nodes(facts) if isinstance(node, Load) and node.object.memory == "shared"]
    for node in shared:
        yield Verdict("uninitialised", "run-time", node.at, None, f"`{node.object.name}`", "some instance sets it before, or none")


def _divisions(every: list[Facts], replay: Replay) -> Iterator[Verdict]:
    sure = [
        {id(node) for node, _ in facts.values.divisions} - {id(node) for node, proved in facts.values.divisions if not proved}
        for facts in every
    ]
    for node in {id(node): node for node, _ in every[0].values.divisions}.values():
        what = f"`{node.operator}`"
        said = next((facts.said for facts, proved in zip(every, sure, strict=True) if id(node) in proved), None)
        if said is not None:
            yield Verdict("division", "proved", node.at, None, what, "the divisor is not 0", (), said)
        elif (form := every[0].form(node.right)) is not None and form.known == 0 and _shown(every, replay, node.at):
            yield Verdict("division", "witness", node.at, None, what, "the divisor is 0", (0,))
        else:
            yield Verdict("division", "run-time", node.at, None, what, "the divisor may be 0; the result is 0 then")


def _shown(every: list[Facts], replay: Replay, at: At) -> bool:
    return any(replay.divides(small, at) for small in Small.all(every[-1]))


def _ends(facts: Facts, proved: Mapping[int, Fact], replay: Replay) -> Iterator[Verdict]:
    for loop in (one for one in statements(facts.kernel.body) if isinstance(one, Loop)):
        if (fact := proved.get(id(loop))) is not None:
            yield Verdict("end", "proved", loop.at, None, "the loop", fact.reason)
        elif isinstance(loop.condition, Constant) and loop.condition.value and not ends_loop(loop.body) and _endless(facts, replay):
            yield Verdict("end", "witness", loop.at, None, "the loop", "nothing ends it", (0,))
        elif counted(loop) is not None:
            yield Verdict("end", "run-time", loop.at, None, "the loop", "with a bound near the largest number the counter wraps around")
        else:
            yield Verdict("end", "run-time", loop.at, None, "the loop", "rounds are counted")


def _endless(facts: Facts, replay: Replay) -> bool:
    sizes = Small.all(facts)
    return not sizes or any(replay.endless(small) for small in sizes)


def _written(every: list[Facts]) -> Iterator[Verdict]:
    for one in every[0].kernel.arrays:
        if one.mode != "out" or not isinstance(one.of, Object):
            continue
        array = one.of
        found = next(((facts, store) for facts in every if (store := written_everywhere(facts, array, elements=True))), None)
        if found is not None:
            why = f"line {found[1].at.line} writes every element"
            yield Verdict("written", "proved", one.at, None, f"`{one.name}`", why, (), found[0].said)
        else:
            yield Verdict("written", "run-time", one.at, None, f"`{one.name}`", "elements that are not written stay as they were, or 0")

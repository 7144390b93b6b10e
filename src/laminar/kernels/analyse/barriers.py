"""Barriers: which one an instance passed last, and barriers that not all of them reach.

Two accesses of different instances are ordered if no barrier can be the last one of both. A barrier within a loop tells more: if each
round has one, instances that passed the same one last are in the same round.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, TypeAlias

from laminar.kernels.analyse.values import Site
from laminar.kernels.analyse.varying import Varying
from laminar.kernels.language.rules import KernelError
from laminar.kernels.language.tree import Barrier, Block, Break, Continue, If, Kernel, Leave, Loop, Scope, Statement, blocks, statements

Token: TypeAlias = tuple[int, frozenset[int]]
"""The barrier that was passed last (0: none yet), and the loops whose next round began since, by their ids; as negative numbers those
that ended since because their condition did not hold."""

DEEPEST: Final = 6
"""Loops within loops up to which barriers are looked at: the ways in which rounds can have begun since grow with the power of two."""

Tokens: TypeAlias = frozenset[Token]
_START: Tokens = frozenset({(0, frozenset())})


def check_barriers(kernel: Kernel, name: str = "kernel.c") -> None:
    """Raises KernelError (K16) for the first barrier that not all instances may reach."""
    varying = Varying.of(kernel)
    for one in varying.waits():
        causes = sorted(varying.statements[key].at for key in varying.control[id(one)])
        what = f"not all instances reach this barrier: what line {causes[0].line} looks at differs among them"
        instead = "the barrier outside of it; a condition that is the same for all instances; or `if` around the work and not the barrier"
        raise KernelError("K16", one.at, what, instead=instead, text=kernel.text, name=name)


@dataclass
class Intervals:
    """`tokens`: of each statement, by its id; of a loop, where its condition is looked at. `unsure`: barriers were not looked at, so that
    who may be together need not ever be."""

    tokens: dict[int, Tokens] = field(default_factory=dict)
    around: dict[int, frozenset[int]] = field(default_factory=lambda: {0: frozenset()})  # loops around each barrier
    waits: set[int] = field(default_factory=set)  # loops with a barrier in each round
    unsure: bool = False
    _jumps: dict[object, Tokens] = field(default_factory=dict)

    @staticmethod
    def of(kernel: Kernel) -> Intervals:
        made = Intervals()
        if any(isinstance(one, Barrier) for one in statements(kernel.body)):
            made.unsure = _depth(kernel.body) > DEEPEST
            if not made.unsure:
                made._block(kernel.body, _START, ())
        return made

    def together(self, one: Site, other: Site) -> list[frozenset[int]]:
        """The ways in which two instances can be there between the same barriers: for each the loops in whose same round they are."""
        if len(self.around) == 1:
            return [frozenset()]  # without barriers, or where they are not looked at, everyone may be anywhere
        found: dict[frozenset[int], None] = {}
        both = frozenset(one.loops) & frozenset(other.loops)
        for token in sorted(self.tokens.get(one.statement, _START), key=_order):
            for also in sorted(self.tokens.get(other.statement, _START), key=_order):
                if token[0] == also[0] and not self._exclude(one, token, also) and not self._exclude(other, also, token):
                    found[frozenset(loop for loop in both if self._same_round(loop, token, also))] = None
        return [ways for ways in found if not any(fewer < ways for fewer in found)]

    def _same_round(self, loop: int, one: Token, other: Token) -> bool:
        if loop not in one[1] and loop not in other[1]:
            return True  # the one in which the barrier is, or the first one since
        both = loop in one[1] and loop in other[1]  # whatever rounds of loops within it have begun
        return both and loop in self.waits and loop in self.around[one[0]]

    def _exclude(self, one: Site, token: Token, other: Token) -> bool:
        """Is the first in a round of a loop that, to be where the second one is, must have ended instead? All instances decide alike."""
        return any(
            loop in self.waits and other[1] == {-loop} and token[1] == ({loop} if loop in self.around[token[0]] else frozenset())
            for loop in one.loops
        )

    def _block(self, block: Block, tokens: Tokens, loops: tuple[int, ...]) -> Tokens:
        for one in block:
            tokens = self._statement(one, tokens, loops)
        return tokens

    def _statement(self, one: Statement, tokens: Tokens, loops: tuple[int, ...]) -> Tokens:
        self._met(one, tokens)
        match one:
            case Barrier():
                self.around[id(one)] = frozenset(loops)
                return frozenset({(id(one), frozenset())}) if tokens else tokens
            case If():
                return self._block(one.then, tokens, loops) | self._block(one.other, tokens, loops)
            case Scope():
                return self._block(one.body, tokens, loops) | self._jumps.pop(one.number, frozenset())
            case Loop():
                return self._loop(one, tokens, (*loops, id(one)))
            case Break() | Continue() | Leave():
                to: object = one.number if isinstance(one, Leave) else (type(one), loops[-1])
                self._jumps[to] = self._jumps.get(to, frozenset()) | tokens
                return frozenset()
        return tokens

    def _loop(self, one: Loop, tokens: Tokens, loops: tuple[int, ...]) -> Tokens:
        if any(isinstance(part, Barrier) for part in (*one.before, *_always(one.body), *one.update)):
            self.waits.add(id(one))
        head, before = tokens, frozenset[Token]()
        while head != before:
            before = head
            tested = self._block(one.before, head, loops)
            self._met(one, tested)
            ended = self._block(one.body, tested, loops) | self._jumps.pop((Continue, loops[-1]), frozenset())
            rounds = self._block(one.update, ended, loops)
            again = frozenset((barrier, frozenset(loop for loop in crossed if loop > 0) | {id(one)}) for barrier, crossed in rounds)
            head = head | again
        out = frozenset((barrier, crossed - {id(one)} | {-id(one)}) for barrier, crossed in tested) if not one.test_last else again
        left = out | self._jumps.pop((Break, loops[-1]), frozenset())
        return frozenset((barrier, crossed - {id(one)}) for barrier, crossed in left)

    def _met(self, one: Statement, tokens: Tokens) -> None:
        self.tokens[id(one)] = self.tokens.get(id(one), frozenset()) | tokens


def _always(body: Block) -> Block:
    """The part of a loop's body that each round comes to, if it does not end the loop."""
    return next((body[:place] for place, one in enumerate(body) if _continues(one)), body)


def _continues(one: Statement) -> bool:
    return isinstance(one, Continue) or (not isinstance(one, Loop) and any(_continues(part) for block in blocks(one) for part in block))


def _depth(block: Block) -> int:
    """Of loops within loops."""
    return max((isinstance(one, Loop) + max(map(_depth, blocks(one)), default=0) for one in block), default=0)


def _order(token: Token) -> tuple[int, list[int]]:
    return token[0], sorted(token[1])

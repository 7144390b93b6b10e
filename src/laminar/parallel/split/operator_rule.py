"""Rules of operators declare what they know of an operator's arguments; any other is refused here, for all rules in one place.

A rule that has not heard of `ceil_mode` would place a pooling as if it were not there, and another model would be trained. So each rule
declares three kinds of arguments. An operator that is called with an argument of no kind, with anything but its default, is run whole by
every worker, which is always right; `laminar show --split` says which argument it was.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final, final

from laminar.parallel.split.calls import Value, leaves
from laminar.parallel.split.dims import ROWS, plain, whole
from laminar.parallel.split.place import Decision, Site

ITSELF: Final = ("", "whole", "attention")  # who runs the operator with all of its arguments (kernels.py)
KNOW_ROWS: Final = ("whole", "same", "view", "expand", "split", "added")  # who works out sizes for the rows of the batch under way


@final
@dataclass(frozen=True)
class OperatorRule:
    """For the layouts that operands have: which an operator needs, and which it gives."""

    decide: Callable[[Site], Decision]
    tensors: frozenset[str] = frozenset()  # arguments that are tensors, whose layouts the rule says
    reads: frozenset[str] = frozenset()  # arguments that the rule reads, and hands to a kernel of ours where it names one
    passes: frozenset[str] = frozenset()  # arguments that are right for each part as they are for the whole; the operator itself reads them
    everything: bool = False  # number by number: all arguments are tensors, or right for each part

    def decided(self, site: Site) -> Decision:
        """What the rule says, or the operator whole where the rule does not know all of its arguments."""
        if (why := self._unknown(site)) is not None:
            return all_whole(site, why)
        site.declared = self.tensors | self.reads
        decision = self.decide(site)
        if decision.run not in ITSELF and (passed := self._given(site, self.passes)):
            return all_whole(
                site, f"its parts are not computed by {site.op}, which alone knows {passed[0]}: every worker computes all of it"
            )
        if site.call.counts_rows and decision.run not in KNOW_ROWS:  # the number of all rows, which no worker has where they are split
            return all_whole(site, "the number of rows of the batch is among its arguments, so every worker computes all of it")
        return decision

    def _unknown(self, site: Site) -> str | None:
        """Why the rule cannot be asked."""
        if any(not atom.size for have in site.have for dim in have for atom in dim):
            return "has a tensor without a number in it, so every worker computes all of it"
        if self.everything:
            return None
        arguments = site.call.arguments
        known = self.tensors | self.reads | self.passes
        others = [name for name in self._given(site, arguments) if name not in known]
        others += [name for name, value in arguments.items() if name not in self.tensors and _tensors_of(value) and name not in others]
        if others:
            name, value = others[0], arguments[others[0]]
            shown = "a tensor" if _tensors_of(value) else str(value)
            return f"{name} = {shown} is nothing that the rule for splitting {site.op} knows, so every worker computes all of it"
        if site.call.counts_rows_oddly:
            return "a number that depends on the rows of the batch is among its arguments, so every worker computes all of it"
        taken = [operand for name in sorted(self.tensors) for operand in dict.fromkeys(_tensors_of(arguments.get(name)))]
        if len(taken) != len(set(taken)):
            return "takes the same tensor twice, so every worker computes all of it"
        if any(not have for have in site.have):
            return "takes a tensor without dimensions, so every worker computes all of it"
        return None

    @staticmethod
    def _given(site: Site, names: Iterable[str]) -> list[str]:
        """Those that are not what they are by default."""
        defaults = {argument.name: argument.default_value for argument in site.call.schema.arguments if argument.has_default_value()}
        arguments = site.call.arguments
        return [name for name in names if name in arguments and not (name in defaults and arguments[name] == defaults[name])]


def _tensors_of(value: Any) -> list[Value]:
    return [one for one in leaves(value) if isinstance(one, Value)]


def all_whole(site: Site, why: str = "has no rule, so every worker computes all of it") -> Decision:
    """The operator on all of its operands."""
    gives = [plain(["batch" if size % ROWS == 0 else "features" for size in sizes], sizes) for sizes in site.sizes]
    return Decision([whole(dims) for dims in site.have], gives, run="whole", why=why)


def names(text: str) -> frozenset[str]:
    return frozenset(text.split())


def each(of: str, rule: OperatorRule) -> dict[str, OperatorRule]:
    """The same rule for several operators, by their names in ATen."""
    return dict.fromkeys(of.split(), rule)

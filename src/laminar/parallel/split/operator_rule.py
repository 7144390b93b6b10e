"""Operator rules: a rule declares which arguments of its operator it supports; this module handles all other arguments, for all rules.

A rule that does not know `ceil_mode` would split a pooling as if that argument were absent, and train another model. So each rule declares
three kinds of arguments. If any other argument differs from its default, every worker computes the whole operator, which is always
correct. `laminar show --split` names the argument.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final, final

from laminar.parallel.split.calls import Value, leaves
from laminar.parallel.split.dims import ROWS, plain, whole
from laminar.parallel.split.place import Decision, Site

ITSELF: Final = ("", "whole", "attention")  # kernels that call the operator with all of its arguments (kernels.py)
KNOW_ROWS: Final = ("whole", "same", "view", "expand", "split", "added")  # kernels that compute sizes for the rows of the current batch


@final
@dataclass(frozen=True)
class OperatorRule:
    """Given the layouts of the operands: which layouts an operator needs, and which it returns."""

    decide: Callable[[Site], Decision]
    tensors: frozenset[str] = frozenset()  # tensor arguments, whose layouts the rule decides
    reads: frozenset[str] = frozenset()  # arguments that the rule reads, and passes to our kernel if it uses one
    passes: frozenset[str] = frozenset()  # arguments that are equally valid for a part; only the operator itself reads them
    everything: bool = False  # elementwise: every argument is a tensor or equally valid for a part

    def decided(self, site: Site) -> Decision:
        """The rule's decision, or the whole operator if the rule does not support all of its arguments."""
        if (why := self._unknown(site)) is not None:
            return all_whole(site, why)
        site.declared = self.tensors | self.reads
        decision = self.decide(site)
        if decision.run not in ITSELF and (passed := self._given(site, self.passes)):
            return all_whole(
                site, f"only {site.op} itself supports {passed[0]}, and it cannot compute parts, so every worker computes all of it"
            )
        if site.call.counts_rows and decision.run not in KNOW_ROWS:  # with split rows no worker has the total
            return all_whole(site, "the number of rows of the batch is among its arguments, so every worker computes all of it")
        return decision

    def _unknown(self, site: Site) -> str | None:
        """Why the rule does not apply; None if it does."""
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
            return f"the rule for splitting {site.op} does not support {name} = {shown}, so every worker computes all of it"
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
        """The names of arguments that differ from their defaults."""
        defaults = {argument.name: argument.default_value for argument in site.call.schema.arguments if argument.has_default_value()}
        arguments = site.call.arguments
        return [name for name in names if name in arguments and not (name in defaults and arguments[name] == defaults[name])]


def _tensors_of(value: Any) -> list[Value]:
    return [leaf for leaf in leaves(value) if isinstance(leaf, Value)]


def all_whole(site: Site, why: str = "has no rule, so every worker computes all of it") -> Decision:
    """Compute the operator whole, on whole operands."""
    gives = [plain(["batch" if size % ROWS == 0 else "features" for size in sizes], sizes) for sizes in site.sizes]
    return Decision([whole(dims) for dims in site.have], gives, run="whole", why=why)


def names(text: str) -> frozenset[str]:
    return frozenset(text.split())


def each(of: str, rule: OperatorRule) -> dict[str, OperatorRule]:
    """The same rule for several operators, by their names in ATen."""
    return dict.fromkeys(of.split(), rule)

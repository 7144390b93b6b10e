"""Terms and tests (analyse/terms.py) as a function of Python: where the same ones are computed for many tasks, with other values in each.

A number that does not fit 64 bits is kept as it is, where native code would wrap around; the test that belongs to it says so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

from laminar.kernels.analyse.terms import HIGH, LOW, Term, Test
from laminar.kernels.language.tree import Variable

_SIGNS: Final = {"+": "+", "-": "-", "*": "*"}


class PythonTerms:
    """`lines` of the function's body, to which terms are added as they are asked for; each is computed once."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self._known: dict[Term, str] = {}
        self._variables: list[Variable] = []

    def term(self, one: Term) -> str:
        """The name of its value."""
        if one not in self._known:
            self._known[one] = name = f"t{len(self._known)}"
            parts = [self.term(part) for part in one.parts]
            self.lines.append(f"{name} = {self._computed(one, parts)}")
        return self._known[one]

    def _computed(self, one: Term, parts: list[str]) -> str:
        if isinstance(one.of, Variable):
            self._variables.append(one.of)
            return f"values[variables[{len(self._variables) - 1}]]"
        match one.operator:
            case "number":
                return str(one.of)
            case "begin" | "end":
                return one.operator
            case "least" | "most":
                return f"{'min' if one.operator == 'least' else 'max'}({', '.join(parts)})"
            case "quotient" | "rest":
                return f"{one.operator}({', '.join(parts)})"
        return f"{parts[0]} {_SIGNS[one.operator]} {parts[1]}"

    def tests(self, these: Iterable[Test]) -> str:
        """Whether all hold."""
        return f"({' and '.join([self._test(one) for one in dict.fromkeys(these)] or ['True'])})"

    def _test(self, one: Test) -> str:
        left = self.term(one.left)
        return f"{LOW} <= {left} <= {HIGH}" if one.right is None else f"{left} {one.how} {self.term(one.right)}"

    def function(self, before: list[str], result: str) -> Callable[..., Any]:
        """function(values, begin, end)."""
        body = "\n    ".join([*before, *self.lines, f"return {result}"])
        made: dict[str, Any] = {"variables": self._variables, "quotient": _quotient, "rest": _rest}
        exec(f"def function(values, begin, end):\n    {body}\n", made)  # of terms: nothing of the kernel goes into it but numbers
        function: Callable[..., Any] = made["function"]
        return function


def _quotient(left: int, right: int) -> int:
    """As the language has it: towards zero, and 0 by 0."""
    return 0 if right == 0 else abs(left) // abs(right) * (1 if (left < 0) == (right < 0) else -1)


def _rest(left: int, right: int) -> int:
    return left - _quotient(left, right) * right if right else 0

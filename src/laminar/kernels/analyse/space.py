"""The instances' space: kernels write `row = i / cols; col = i % cols`, and so on for images, channels, rows and columns.

Such quotients and rests are digits of the instance's number in a system of mixed bases. Cuts are where its digits begin: products of
sizes, each of which is part of the next. Instances are then run as loops over the digits, lanes along the last one, without a division.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Final, TypeAlias

from laminar.kernels.language.fold import folded
from laminar.kernels.language.tree import (
    WHOLE,
    Assign,
    Binary,
    Cast,
    Constant,
    Declare,
    Expression,
    Kernel,
    Read,
    Variable,
    blocks,
    expressions,
    statements,
    walk,
)

Factor: TypeAlias = tuple[object, ...]
Cut: TypeAlias = tuple[Factor, ...]
"""A product of sizes, sorted."""

SMALLEST: Final = 8  # a last digit of fewer values would leave most lanes empty
DEEPEST: Final = 8


@dataclass(frozen=True)
class Digit:
    """`(i / low) % (high / low)`; without a `high` just `i / low`."""

    low: Cut
    high: Cut | None


@dataclass
class Space:
    """`stable`: variables that have one value in an instance, from the start: what it is. `cuts`: where digits begin, the last digit first.
    `sizes`: what each factor is."""

    kernel: Kernel
    stable: dict[Variable, Expression] = field(default_factory=dict)
    changed: set[Variable] = field(default_factory=set)
    cuts: tuple[Cut, ...] = ()
    sizes: dict[Factor, Expression] = field(default_factory=dict)
    _digits: dict[int, Digit | None] = field(default_factory=dict)

    @staticmethod
    def of(kernel: Kernel) -> Space:
        made = Space(kernel)
        made._find_stable()
        found = [digit for digit in made._all() if digit != ALL]
        cuts = {one.low for one in found} | {one.high for one in found if one.high is not None}
        ordered = sorted(cuts - {()}, key=len)
        if ordered and _nested(ordered) and not made._is_small(ordered[0]):
            made.cuts = tuple(ordered)
        else:
            made._digits = {key: value if value == ALL else None for key, value in made._digits.items()}
        return made

    def digit(self, expression: Expression) -> Digit | None:
        """What part of the instance's number it is, if any."""
        key = id(expression)
        if key not in self._digits:
            self._digits[key] = self._digit(expression)
        return self._digits[key]

    def resolved(self, expression: Expression) -> Expression:
        """What it is, behind the names of variables and casts to a wider type."""
        while True:
            if isinstance(expression, Read) and expression.variable in self.stable:
                expression = self.stable[expression.variable]
            elif isinstance(expression, Cast) and expression.type == "long" and expression.value.type == "int":
                expression = expression.value
            else:
                return expression

    def resolved_deep(self, expression: Expression) -> Expression:
        """The same, for all that it is made of: parameters and constants are left."""
        one = self.resolved(expression)
        if isinstance(one, Binary):
            return replace(one, left=self.resolved_deep(one.left), right=self.resolved_deep(one.right))
        return replace(one, value=self.resolved_deep(one.value)) if isinstance(one, Cast) else one

    def key(self, expression: Expression) -> Factor | None:
        """The same for the same value; None: of what is not the same in all instances."""
        one = self.resolved(expression)
        match one:
            case Constant() if one.type in WHOLE:
                return ("constant", int(one.value))
            case Read() if self._is_parameter(one.variable):
                return ("value", self.kernel.variables.index(one.variable))
            case Binary(operator="+" | "-" | "*" | "/" | "%") if one.type in WHOLE:
                left, right = self.key(one.left), self.key(one.right)
                return (one.operator, left, right) if left and right else None
        return None

    def _is_parameter(self, variable: Variable) -> bool:
        return variable not in self.changed and any(
            one.of is variable and one.role in ("count", "value") and variable.type in ("int", "long") for one in self.kernel.parameters
        )

    def factors(self, expression: Expression) -> Cut | None:
        """What it is the product of."""
        one = self.resolved(expression)
        if isinstance(one, Binary) and one.operator == "*" and folded(one) is None:
            left, right = self.factors(one.left), self.factors(one.right)
            return None if left is None or right is None else _sorted(left + right)
        value = folded(one)
        if value is not None and value.value == 1:
            return ()
        key = ("constant", int(value.value)) if value is not None else self.key(one)
        if key is None or (value is not None and value.value < 1):
            return None
        self.sizes.setdefault(key, one)
        return (key,)

    def _digit(self, expression: Expression) -> Digit | None:
        one = self.resolved(expression)
        if isinstance(one, Read):
            return ALL if one.variable is self.kernel.instance else None
        if not isinstance(one, Binary):
            return None
        if one.operator == "-":
            return self._rest(one)
        if one.operator not in ("/", "%"):
            return None
        whole, by = self.digit(one.left), self.factors(one.right)
        if whole is None or not by:
            return None
        cut = _sorted(whole.low + by)
        if whole.high is not None and not _within(cut, whole.high):
            return None
        return Digit(cut, whole.high) if one.operator == "/" else Digit(whole.low, cut)

    def _rest(self, one: Binary) -> Digit | None:
        """`i - row * cols` is `i % cols`."""
        whole, product = self.digit(one.left), self.resolved(one.right)
        if whole is None or not isinstance(product, Binary) or product.operator != "*":
            return None
        for left, right in ((product.left, product.right), (product.right, product.left)):
            above, by = self.digit(left), self.factors(right)
            if above is not None and by and above == Digit(_sorted(whole.low + by), whole.high):
                return Digit(whole.low, above.low)
        return None

    def _find_stable(self) -> None:
        assigned: dict[Variable, int] = {}
        for one in statements(self.kernel.body):
            if isinstance(one, Assign):
                assigned[one.variable] = assigned.get(one.variable, 0) + 1
        self.changed = set(assigned)
        first: dict[Variable, Expression] = {}
        for block in [self.kernel.body, *(inner for one in statements(self.kernel.body) for inner in blocks(one))]:
            for before, after in pairwise(block):
                if isinstance(before, Declare) and isinstance(after, Assign) and after.variable is before.what:
                    first[after.variable] = after.value
        for _ in range(DEEPEST):
            for variable, value in first.items():
                if assigned[variable] == 1 and all(self._stays(one) for one in walk(value)):
                    self.stable[variable] = value

    def _stays(self, one: Expression) -> bool:
        if isinstance(one, Read):
            return one.variable not in self.changed or one.variable in self.stable
        return isinstance(one, (Constant, Binary, Cast))

    def _all(self) -> list[Digit]:
        found = [self.digit(part) for one in statements(self.kernel.body) for whole in expressions(one) for part in walk(whole)]
        return [one for one in found if one is not None]

    def _is_small(self, cut: Cut) -> bool:
        size = 1
        for one in cut:
            if one[0] != "constant":
                return False
            size *= int(str(one[1]))
        return size < SMALLEST


ALL: Final = Digit((), None)


def _sorted(cut: Cut) -> Cut:
    return tuple(sorted(cut, key=repr))


def _within(cut: Cut, larger: Cut) -> bool:
    left = list(larger)
    for one in cut:
        if one not in left:
            return False
        left.remove(one)
    return True


def _nested(cuts: list[Cut]) -> bool:
    return all(_within(small, large) and small != large for small, large in pairwise(cuts))


def between(low: Cut, high: Cut) -> Cut:
    """The product that is left of `high` without `low`."""
    left = list(high)
    for one in low:
        left.remove(one)
    return tuple(left)

"""Are two expressions the same, but for where they stand?"""

from __future__ import annotations

from laminar.kernels.language.tree import Expression, Object, Variable, parts


def same(one: Expression, other: Expression) -> bool:
    if type(one) is not type(other) or one.type != other.type:
        return False
    for name in ("value", "variable", "object", "operator", "name"):
        first, second = getattr(one, name, None), getattr(other, name, None)
        if isinstance(first, Variable | Object):
            if first is not second:
                return False
        elif isinstance(first, bool | int | float | str) and first != second:
            return False
    return same_all(parts(one), parts(other))


def same_all(one: tuple[Expression, ...], other: tuple[Expression, ...]) -> bool:
    return len(one) == len(other) and all(same(a, b) for a, b in zip(one, other, strict=True))

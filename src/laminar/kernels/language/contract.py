"""Products that are added become `fma`: one rounding instead of two, the same in every way of running a kernel (C99 6.5, FP_CONTRACT)."""

from __future__ import annotations

from dataclasses import replace

from laminar.kernels.language.rewrite import Rewrite
from laminar.kernels.language.tree import WHOLE, Binary, Call, Expression, Kernel, Unary


def contracted(kernel: Kernel) -> Kernel:
    """Unless the kernel says `#pragma laminar contract off`."""
    return replace(kernel, body=_Contract().block(kernel.body)) if kernel.contract else kernel


class _Contract(Rewrite):
    def expression(self, one: Expression) -> Expression:
        found = super().expression(one)
        return _fused(found) if isinstance(found, Binary) and found.type not in WHOLE else found


def _fused(one: Binary) -> Expression:
    if one.operator not in ("+", "-"):
        return one
    left, right = one.left, one.right
    if isinstance(right, Binary) and right.operator == "*":
        first = right.left if one.operator == "+" else Unary(right.at, one.type, "-", right.left)
        return Call(one.at, one.type, "fma", (first, right.right, left))
    if isinstance(left, Binary) and left.operator == "*":
        last = right if one.operator == "+" else Unary(right.at, one.type, "-", right)
        return Call(one.at, one.type, "fma", (left.left, left.right, last))
    return one

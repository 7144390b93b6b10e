"""Rules of operators: for the layouts that operands have, which an operator needs and which it gives.

    pointwise.py   number by number: activations, sums, dropout
    products.py    linear, matrix products, embeddings, attention
    windows.py     convolutions and pooling, also split in height and width
    norms.py       batch, layer and group norms
    shapes.py      views, permutations, concatenation, parts
    reductions.py  sums, means, softmax

Each rule declares the arguments that it knows (operator_rule.py). What is in none of these modules needs its operands whole.
"""

from __future__ import annotations

from typing import Final

import torch
from torch._ops import OpOverload

from laminar.parallel.split.calls import Call
from laminar.parallel.split.operator_rule import OperatorRule
from laminar.parallel.split.ops import norms, pointwise, products, reductions, shapes, windows

RULES: Final[dict[str, OperatorRule]] = {
    **products.RULES,
    **windows.RULES,
    **norms.RULES,
    **shapes.RULES,
    **reductions.RULES,
    **pointwise.RULES,
}


def rule_for(call: Call) -> OperatorRule:
    called = call.function
    if isinstance(called, OpOverload):
        space, name = called._schema.name.split("::")
        if space == "aten" and name in RULES:
            return RULES[name]
        random = torch.Tag.nondeterministic_seeded in called.tags
        if torch.Tag.pointwise in called.tags and not called._schema.is_mutable and not random:
            return pointwise.POINTWISE
    return pointwise.WHOLE

"""Rules of operators: for the layouts that operands have, which an operator needs and which it gives.

    pointwise.py   number by number: activations, sums, dropout
    products.py    linear, matrix products, embeddings, attention
    windows.py     convolutions and pooling, also split in height and width
    norms.py       batch, layer and group norms
    shapes.py      views, permutations, concatenation, parts
    reductions.py  sums, means, softmax

What is in none of them needs its operands whole.
"""

from __future__ import annotations

from typing import Final

import torch
from torch._ops import OpOverload

from laminar.parallel.split.calls import Call
from laminar.parallel.split.ops import norms, pointwise, products, reductions, shapes, windows
from laminar.parallel.split.place import Rule

RULES: Final[dict[str, Rule]] = {**products.RULES, **windows.RULES, **norms.RULES, **shapes.RULES, **reductions.RULES, **pointwise.RULES}


def rule_for(call: Call) -> Rule:
    found = call.function
    if isinstance(found, OpOverload):
        space, name = found._schema.name.split("::")
        if space == "aten" and name in RULES:
            return RULES[name]
        if torch.Tag.pointwise in found.tags and not found._schema.is_mutable:
            return pointwise.pointwise
    return pointwise.all_whole

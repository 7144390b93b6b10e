"""Number by number: the result is split as its operands are, and all of them are split alike."""

from __future__ import annotations

from typing import Final

from laminar.parallel.split.dims import Dim, Dims, axes_of, whole
from laminar.parallel.split.operator_rule import OperatorRule, all_whole, each, names
from laminar.parallel.split.place import Decision, Site


def pointwise(site: Site) -> Decision:
    """Operands of fewer dimensions, or of size 1 in some, are stretched, as torch does."""
    out = site.sizes[0]
    gives: list[Dim] = [()] * len(out)
    used: set[str] = set()
    # activations decide, then the model's own tensors; an operand that is split before one that is not
    order = sorted(range(len(site.operands)), key=lambda i: (site.is_tensor(site.operands[i]), not axes_of(site.have[i])))
    for place in range(len(out)):
        for i in order:
            dim = _aligned(site.have[i], place, len(out))
            if not dim or (gives[place] and not axes_of((dim,))):
                continue
            if axes_of(tuple(gives[: place + 1])) and used & set(axes_of((dim,))):
                dim = whole((dim,))[0]
            if not gives[place] or not axes_of((gives[place],)):
                gives[place] = dim
                used |= set(axes_of((dim,)))
    needs = []
    for dims in site.have:
        needs.append(tuple(gives[place] if dim else () for place, dim in enumerate(dims, len(out) - len(dims))))
    return Decision(needs, [tuple(gives)])


def _aligned(dims: Dims, place: int, rank: int) -> Dim:
    at = place - (rank - len(dims))
    return dims[at] if at >= 0 else ()


def same(site: Site) -> Decision:
    """One tensor in, one of the same shape out. Of a second one, only what kind it is."""
    return Decision(list(site.have), [site.have[0]], aside=site.others)


def dropout(site: Site) -> Decision:
    """Who has a number alone draws for it alone; who has it with others draws what they draw."""
    p, training = site.arg("p"), site.arg("train")
    return Decision([site.have[0]], [site.have[0]], run="dropout" if p and training else "same", facts={"p": p})


def write(site: Site) -> Decision:
    """Into a buffer of the model, by all workers alike."""
    return Decision([whole(dims) for dims in site.have], [whole(site.have[0])], run="whole")


POINTWISE: Final = OperatorRule(pointwise, everything=True)
WHOLE: Final = OperatorRule(all_whole, everything=True)
_KINDS: Final = names("dtype layout device pin_memory memory_format non_blocking copy")
RULES: Final[dict[str, OperatorRule]] = {
    **each(
        "alias clone contiguous detach to _to_copy lift_fresh_copy type_as zeros_like ones_like",
        OperatorRule(same, tensors=names("self other"), passes=_KINDS),
    ),
    "dropout": OperatorRule(dropout, tensors=names("input"), reads=names("p train")),
    **each("add_ copy_ mul_ sub_ div_ fill_ zero_ lerp_", OperatorRule(write, everything=True)),
}

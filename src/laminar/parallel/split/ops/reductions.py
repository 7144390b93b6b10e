"""Reductions: over dimensions that are split, parts are added up; what cannot be added needs its dimensions whole."""

from __future__ import annotations

from math import prod
from typing import Final

from laminar.parallel.split.dims import Dims, axes_of, size_of
from laminar.parallel.split.operator_rule import OperatorRule, each, names
from laminar.parallel.split.place import Decision, Site


def added(site: Site) -> Decision:
    """sum and mean: of its own part, and over all parts."""
    dims = site.have[0]
    over, keep = _over(site, len(dims))
    axes = tuple(dict.fromkeys(axes_of(tuple(dims[d] for d in over))))
    count = prod(size_of(dims[d]) for d in over)
    facts = {"dims": over, "keep": keep, "count": count if site.op == "mean" else 0, "dtype": site.arg("dtype")}
    return Decision([dims], [_left(dims, over, keep)], sums=axes, run="added", facts=facts)


def over_whole(site: Site) -> Decision:
    """max, norms, arg max …: all of the reduced dimensions."""
    over, keep = _over(site, len(site.have[0]))
    dims = tuple(site.keep_whole(dim) if d in over else dim for d, dim in enumerate(site.have[0]))
    return Decision([dims], [_left(dims, over, keep)] * len(site.sizes))


def softmax(site: Site) -> Decision:
    along = site.arg("dim") % len(site.have[0])
    dims = tuple(site.keep_whole(dim) if d == along else dim for d, dim in enumerate(site.have[0]))
    return Decision([dims], [dims])


def _over(site: Site, rank: int) -> tuple[list[int], bool]:
    """The dimensions that are reduced, and whether they stay as ones."""
    dims = site.arg("dim")
    if dims is None or dims == []:
        dims = list(range(rank))
    return sorted(d % rank for d in ([dims] if isinstance(dims, int) else dims)), bool(site.arg("keepdim"))


def _left(dims: Dims, over: list[int], keep: bool) -> Dims:
    return tuple(() if d in over else dim for d, dim in enumerate(dims) if keep or d not in over)


RULES: Final[dict[str, OperatorRule]] = {
    **each("sum mean", OperatorRule(added, tensors=names("self"), reads=names("dim keepdim dtype"))),
    **each(
        "amax amin argmax logsumexp std var norm linalg_vector_norm",
        OperatorRule(over_whole, tensors=names("self"), reads=names("dim keepdim"), passes=names("p ord unbiased correction dtype")),
    ),
    **each(
        "softmax log_softmax _softmax",
        OperatorRule(softmax, tensors=names("self"), reads=names("dim"), passes=names("dtype half_to_float")),
    ),
}

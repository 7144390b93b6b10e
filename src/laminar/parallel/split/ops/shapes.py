"""Shapes: views regroup atoms, permutations move dimensions, parts are taken of what is whole."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from laminar.parallel.split.dims import Atom, Dim, Dims, Indivisible, Tangled, axes_of, regroup, sizes_of, whole
from laminar.parallel.split.operator_rule import OperatorRule, all_whole, each, names
from laminar.parallel.split.place import Decision, Site


def view(site: Site) -> Decision:
    """Any operator that only gives the same numbers other dimensions. Of a second tensor, only its sizes."""
    dims, sizes = site.have[0], site.sizes[0]
    while True:
        try:
            return Decision([dims, *site.have[1:]], [regroup(dims, sizes, site.mesh)], aside=site.others, run="view")
        except Indivisible as error:  # the axis ends inside what the view cuts: together first
            dims = whole(dims, str(error.atom.axis))
        except Tangled:
            return all_whole(site, "regroups its dimensions otherwise than they are split, so every worker computes all of it")


def permute(site: Site) -> Decision:
    dims = site.have[0]
    order = [d % len(dims) for d in site.arg("dims")]
    return Decision([dims], [tuple(dims[d] for d in order)])


def transpose(site: Site) -> Decision:
    dims = list(site.have[0])
    one, other = (site.arg(f"dim{i}", f"axis{i}", absent=absent) % len(dims) for i, absent in enumerate((0, -1)))
    dims[one], dims[other] = dims[other], dims[one]
    return Decision([site.have[0]], [tuple(dims)])


def unsqueeze(site: Site) -> Decision:
    dims = site.have[0]
    at = site.arg("dim") % (len(dims) + 1)
    return Decision([dims], [(*dims[:at], (), *dims[at:])])


def expand(site: Site) -> Decision:
    """Dimensions of size 1 become longer, and are the same for everybody; split as those of a second tensor, which only says how long."""
    dims, out = site.have[0], site.sizes[0]
    new = len(out) - len(dims)
    gives: list[Dim] = []
    for place, size in enumerate(out):
        dim = dims[place - new] if place >= new else ()
        gives.append(dim if dim or size == 1 else (Atom("batch" if Atom("", size).of_batch else "features", size),))
    for other in site.have[1:]:
        for place, dim in enumerate(other):
            stretched = not (dims[place - new] if place >= new else ())
            if stretched and not set(axes_of((dim,))) & set(axes_of(tuple(gives))):
                gives[place] = dim
    return Decision([dims, *site.have[1:]], [tuple(gives)], aside=site.others, run="expand")


def select(site: Site) -> Decision:
    """One of a dimension: all of it is needed."""
    along = site.arg("dim") % len(site.have[0])
    dims = _whole_at(site, site.have[0], along)
    return Decision([dims], [(*dims[:along], *dims[along + 1 :])])


def narrow(site: Site) -> Decision:
    along = site.arg("dim") % len(site.have[0])
    if site.sizes[0] == sizes_of(site.have[0]):
        return Decision([site.have[0]], [site.have[0]], run="same")
    dims = _whole_at(site, site.have[0], along)
    size = site.sizes[0][along]
    name = dims[along][0].name if dims[along] else "features"
    return Decision([dims], [(*dims[:along], (Atom(name, size),) if size != 1 else (), *dims[along + 1 :])])


def unbind(site: Site) -> Decision:
    along = site.arg("dim") % len(site.have[0])
    dims = _whole_at(site, site.have[0], along)
    return Decision([dims], [(*dims[:along], *dims[along + 1 :])] * len(site.sizes))


def split(site: Site) -> Decision:
    """Equal parts of a dimension are its outermost atom: what is inside may stay split."""
    dims = site.have[0]
    along = _split_dim(site)
    pieces = [sizes[along] for sizes in site.sizes]
    if len(set(pieces)) == 1 and len(pieces) > 1:
        try:
            (outer, inner) = regroup((dims[along],), (len(pieces), pieces[0]), site.mesh)
            if not axes_of((outer,)):
                site.keep_whole(outer)
                kept = (*dims[:along], (*outer, *inner), *dims[along + 1 :])
                return Decision(
                    [kept], [(*dims[:along], inner, *dims[along + 1 :])] * len(pieces), run="split", facts=_split(along, pieces)
                )
        except (Indivisible, Tangled):
            pass
    kept = _whole_at(site, dims, along)
    name = dims[along][0].name if dims[along] else "features"
    gives = [(*kept[:along], (Atom(name, size),) if size != 1 else (), *kept[along + 1 :]) for size in pieces]
    return Decision([kept], gives, run="split", facts=_split(along, pieces))


def _split(along: int, pieces: Sequence[int]) -> dict[str, Any]:
    return {"dim": along, "pieces": len(pieces) if len(set(pieces)) == 1 else list(pieces)}


def _split_dim(site: Site) -> int:
    return int(site.arg("dim")) % len(site.have[0])


def cat(site: Site) -> Decision:
    """Side by side: whole along the dimension in which they are joined, alike in the others."""
    tensors = list(site.arg("tensors"))
    along = site.arg("dim") % len(site.sizes[0])
    have = [site.have[site.index(tensor)] for tensor in tensors]
    gives: list[Dim] = []
    for place in range(len(site.sizes[0])):
        if place == along:
            name = next((dims[place][0].name for dims in have if dims[place]), "features")
            gives.append((Atom(name, site.sizes[0][place]),))
        else:
            dim = next((dims[place] for dims in have if axes_of((dims[place],))), have[0][place])
            gives.append(whole((dim,), *axes_of(tuple(gives)))[0] if axes_of(tuple(gives)) else dim)
    needs = {}
    for tensor, dims in zip(tensors, have, strict=True):
        needs[tensor] = tuple(site.keep_whole(dim) if place == along else gives[place] for place, dim in enumerate(dims))
    return Decision([needs[operand] for operand in site.operands], [tuple(gives)])


def stack(site: Site) -> Decision:
    tensors = list(site.arg("tensors"))
    have = [site.have[site.index(tensor)] for tensor in tensors]
    at = site.arg("dim") % len(site.sizes[0])
    dims = next((one for one in have if axes_of(one)), have[0])
    new = (Atom("features", len(tensors)),) if len(tensors) > 1 else ()
    return Decision([dims for _ in site.operands], [(*dims[:at], new, *dims[at:])])


def pad(site: Site) -> Decision:
    dims = site.have[0]
    padded = {len(dims) - 1 - i // 2 for i, amount in enumerate(site.arg("pad")) if amount}
    kept = tuple(site.keep_whole(dim) if d in padded else dim for d, dim in enumerate(dims))
    gives = tuple(_longer(dim, site.sizes[0][d]) if d in padded else dim for d, dim in enumerate(kept))
    return Decision([kept], [gives])


def _longer(dim: Dim, size: int) -> Dim:
    """A dimension, or shorter, with another size."""
    return (Atom(dim[0].name if dim else "features", size),) if size != 1 else ()


def _whole_at(site: Site, dims: Dims, along: int) -> Dims:
    return (*dims[:along], site.keep_whole(dims[along]), *dims[along + 1 :])


RULES: Final[dict[str, OperatorRule]] = {
    **each(
        "view reshape _unsafe_view flatten unflatten squeeze ravel view_as reshape_as",
        OperatorRule(view, tensors=names("self other"), reads=names("size shape sizes dim start_dim end_dim")),  # as sizes of the result
    ),
    "permute": OperatorRule(permute, tensors=names("self"), reads=names("dims")),
    **each("transpose t swapaxes", OperatorRule(transpose, tensors=names("self"), reads=names("dim0 dim1 axis0 axis1"))),
    "unsqueeze": OperatorRule(unsqueeze, tensors=names("self"), reads=names("dim")),
    **each("expand expand_as broadcast_to", OperatorRule(expand, tensors=names("self other"), reads=names("size implicit"))),
    "select": OperatorRule(select, tensors=names("self"), reads=names("dim"), passes=names("index")),
    **each("slice narrow", OperatorRule(narrow, tensors=names("self"), reads=names("dim start end step length"))),
    "unbind": OperatorRule(unbind, tensors=names("self"), reads=names("dim")),
    **each(
        "split chunk split_with_sizes tensor_split",
        OperatorRule(split, tensors=names("self"), reads=names("dim split_size chunks split_sizes sections indices")),
    ),
    **each("cat concat", OperatorRule(cat, tensors=names("tensors"), reads=names("dim"))),
    "stack": OperatorRule(stack, tensors=names("tensors"), reads=names("dim")),
    **each("pad constant_pad_nd", OperatorRule(pad, tensors=names("self"), reads=names("pad"), passes=names("mode value"))),
}

"""Shapes: views regroup atoms, permutations move dimensions, parts are taken of what is whole."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from laminar.parallel.split.dims import Atom, Dim, Dims, Indivisible, Tangled, axes_of, regroup, sizes_of, whole
from laminar.parallel.split.ops.pointwise import all_whole
from laminar.parallel.split.place import Decision, Rule, Site


def view(site: Site) -> Decision:
    """Any operator that only gives the same numbers other dimensions."""
    dims, sizes = site.have[0], site.sizes[0]
    while True:
        try:
            return Decision([dims], [regroup(dims, sizes, site.mesh)], run="view")
        except Indivisible as error:  # the axis ends inside what the view cuts: together first
            dims = whole(dims, str(error.atom.axis))
        except Tangled:
            return all_whole(site)


def permute(site: Site) -> Decision:
    dims = site.have[0]
    order = [d % len(dims) for d in site.args[1]]
    return Decision([dims], [tuple(dims[d] for d in order)])


def transpose(site: Site) -> Decision:
    dims = list(site.have[0])
    one, other = (site.args[1] % len(dims), site.args[2] % len(dims)) if len(site.args) > 1 else (0, len(dims) - 1)
    dims[one], dims[other] = dims[other], dims[one]
    return Decision([site.have[0]], [tuple(dims)])


def unsqueeze(site: Site) -> Decision:
    dims = site.have[0]
    at = site.args[1] % (len(dims) + 1)
    return Decision([dims], [(*dims[:at], (), *dims[at:])])


def expand(site: Site) -> Decision:
    """Dimensions of size 1 become longer, and are the same for everybody."""
    dims, out = site.have[0], site.sizes[0]
    new = len(out) - len(dims)
    gives: list[Dim] = []
    for place, size in enumerate(out):
        dim = dims[place - new] if place >= new else ()
        gives.append(dim if dim or size == 1 else (Atom("batch" if Atom("", size).of_batch else "features", size),))
    return Decision([dims], [tuple(gives)], run="expand")


def select(site: Site) -> Decision:
    """One of a dimension: all of it is needed."""
    along = site.args[1] % len(site.have[0])
    dims = _whole_at(site, site.have[0], along)
    return Decision([dims], [(*dims[:along], *dims[along + 1 :])])


def narrow(site: Site) -> Decision:
    along = (site.args[1] if len(site.args) > 1 else 0) % len(site.have[0])
    if site.sizes[0] == sizes_of(site.have[0]):
        return Decision([site.have[0]], [site.have[0]], run="same")
    dims = _whole_at(site, site.have[0], along)
    size = site.sizes[0][along]
    name = dims[along][0].name if dims[along] else "features"
    return Decision([dims], [(*dims[:along], (Atom(name, size),) if size != 1 else (), *dims[along + 1 :])])


def unbind(site: Site) -> Decision:
    along = (site.args[1] if len(site.args) > 1 else 0) % len(site.have[0])
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
    return int(site.given.get("dim", 0)) % len(site.have[0])


def cat(site: Site) -> Decision:
    """Side by side: whole along the dimension in which they are joined, alike in the others."""
    tensors = list(site.args[0])
    along = (site.args[1] if len(site.args) > 1 else 0) % len(site.sizes[0])
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
    tensors = list(site.args[0])
    have = [site.have[site.index(tensor)] for tensor in tensors]
    at = (site.args[1] if len(site.args) > 1 else 0) % len(site.sizes[0])
    dims = next((one for one in have if axes_of(one)), have[0])
    new = (Atom("features", len(tensors)),) if len(tensors) > 1 else ()
    return Decision([dims for _ in site.operands], [(*dims[:at], new, *dims[at:])])


def pad(site: Site) -> Decision:
    dims = site.have[0]
    padded = {len(dims) - 1 - i // 2 for i, amount in enumerate(site.args[1]) if amount}
    kept = tuple(site.keep_whole(dim) if d in padded else dim for d, dim in enumerate(dims))
    gives = tuple(
        (Atom(dim[0].name if dim else "features", site.sizes[0][d]),) if d in padded and site.sizes[0][d] != 1 else dim
        for d, dim in enumerate(kept)
    )
    return Decision([kept], [gives])


def _whole_at(site: Site, dims: Dims, along: int) -> Dims:
    return (*dims[:along], site.keep_whole(dims[along]), *dims[along + 1 :])


_VIEWS: Final = ("view", "reshape", "_unsafe_view", "flatten", "unflatten", "squeeze", "ravel", "view_as", "reshape_as")
RULES: Final[dict[str, Rule]] = {
    **dict.fromkeys(_VIEWS, view),
    "permute": permute,
    **dict.fromkeys(("transpose", "t", "swapaxes"), transpose),
    "unsqueeze": unsqueeze,
    **dict.fromkeys(("expand", "expand_as", "broadcast_to"), expand),
    "select": select,
    **dict.fromkeys(("slice", "narrow"), narrow),
    "unbind": unbind,
    **dict.fromkeys(("split", "chunk", "split_with_sizes", "tensor_split"), split),
    **dict.fromkeys(("cat", "concat"), cat),
    "stack": stack,
    **dict.fromkeys(("pad", "constant_pad_nd"), pad),
}

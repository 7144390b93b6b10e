"""Products: what is multiplied and summed over may be split in both factors; each worker then has a part of the sum."""

from __future__ import annotations

from typing import Any, Final

from laminar.parallel.split.dims import Dim, Dims, axes_of, whole
from laminar.parallel.split.ops.pointwise import all_whole
from laminar.parallel.split.place import Decision, Rule, Site


def linear(site: Site) -> Decision:
    """x [..., I], W [O, I]: O is split where the axis is free, so that of two in a row the first splits what it gives and the second what
    it takes, and only the second has to add up."""
    x, weight = site.args[:2]
    bias = site.args[2] if len(site.args) > 2 else None
    taken = site.have[site.index(x)]
    made = site.kept_dim(weight, 0, beside=taken[:-1], within=taken[-1:]) or site.make(
        "hidden", site.sizes[0][-1], beside=taken[:-1], within=taken[-1:]
    )
    needs = {x: taken, weight: (made, taken[-1])}
    if bias is not None:
        needs[bias] = (made,)
    return Decision(
        [needs[operand] for operand in site.operands],
        [(*taken[:-1], made)],
        sums=tuple(dict.fromkeys(axes_of(taken[-1:]))),
        late=frozenset() if bias is None else frozenset({site.index(bias)}),
        run="linear",
        why=_why(taken[-1:], made),
    )


def _why(taken: Dims, made: Dim) -> str:
    if axes := axes_of(taken):
        return f"its input is split over {', '.join(axes)}: parts are added up"
    if axes := axes_of((made,)):
        return f"gives its own part of {made[0].name} on {', '.join(axes)}"
    return ""


def matmul(site: Site) -> Decision:
    one, other = site.args[:2]
    a, b = site.have[site.index(one)], site.have[site.index(other)]
    if len(a) < 2 or len(b) < 2:
        return all_whole(site)
    used: list[str] = []

    def free(dim: Dim) -> Dim:
        """Without axes that others have in the same product."""
        found = whole((dim,), *used)[0] if used else dim
        used.extend(axes_of((found,)))
        return found

    rank = max(len(a), len(b)) - 2
    batch = []
    for place in range(rank):
        mine, its = _from_right(a[:-2], place, rank), _from_right(b[:-2], place, rank)
        batch.append(free(mine if mine and (axes_of((mine,)) or not its) else its))
    shared = free(a[-1] if axes_of((a[-1],)) or not axes_of((b[-2],)) else b[-2])
    rows = free(a[-2])
    if site.is_tensor(other) and len(b) == 2 and not axes_of((b[-1],)):
        columns = site.make("hidden", site.sizes[0][-1], beside=(*batch, rows), within=(shared,))
        used.extend(axes_of((columns,)))
    else:
        columns = free(b[-1])
    left = tuple(batch[rank - len(a) + 2 + i] if dim else () for i, dim in enumerate(a[:-2]))
    right = tuple(batch[rank - len(b) + 2 + i] if dim else () for i, dim in enumerate(b[:-2]))
    needs = {one: (*left, rows, shared), other: (*right, shared, columns)}
    if one is other:
        return all_whole(site)
    return Decision(
        [needs[operand] for operand in site.operands],
        [(*batch, rows, columns)],
        sums=tuple(dict.fromkeys(axes_of((shared,)))),
    )


def _from_right(dims: Dims, place: int, rank: int) -> Dim:
    at = place - (rank - len(dims))
    return dims[at] if at >= 0 else ()


def embedding(site: Site) -> Decision:
    weight, index = site.args[:2]
    if len(site.args) > 3 and (site.args[3] or (len(site.args) > 4 and site.args[4])):
        return all_whole(site)
    of = site.have[site.index(index)]
    size = site.tensor_sizes(weight)
    vocab = site.make("vocab", size[0], beside=of)
    made = site.make("hidden", size[1], beside=of, within=(vocab,), place=1)
    needs = {index: of, weight: (vocab, made)}
    padding = site.args[2] if len(site.args) > 2 else -1
    return Decision(
        [needs[operand] for operand in site.operands],
        [(*of, made)],
        sums=tuple(axes_of((vocab,))),
        run="lookup",
        facts={"vocab": vocab, "padding": padding},
        why=f"has its own part of the vocabulary on {axes_of((vocab,))[0]}" if axes_of((vocab,)) else "",
    )


def attention(site: Site) -> Decision:
    """Heads and rows on their own; every query needs all keys and values."""
    given = site.given
    query, key, value, mask = given["query"], given["key"], given["value"], given.get("attn_mask")
    q, k, v = (site.have[site.index(one)] for one in (query, key, value))
    if not len(q) == len(k) == len(v) == 4 or len({query, key, value}) < 3:
        return all_whole(site)
    for dims in (q, k, v):
        site.rename(dims[1], "heads")
    lead: list[Dim] = []
    for place in (0, 1):
        dim = next((dims[place] for dims in (q, k, v) if axes_of((dims[place],))), q[place])
        lead.append(whole((dim,), *axes_of(tuple(lead)))[0] if axes_of(tuple(lead)) else dim)
    ordered = mask is not None or given.get("is_causal", False)
    length = site.keep_whole(q[2]) if ordered else whole((q[2],), *axes_of(tuple(lead)))[0] if axes_of(tuple(lead)) else q[2]
    needs: dict[Any, Dims] = {
        query: (*lead, length, site.keep_whole(q[3])),
        key: (*lead, site.keep_whole(k[2]), site.keep_whole(k[3])),
        value: (*lead, site.keep_whole(v[2]), site.keep_whole(v[3])),
    }
    if mask is not None:
        over = site.have[site.index(mask)]
        full: Dims = (*lead, length, needs[key][2])
        needs[mask] = tuple(full[4 - len(over) + i] if dim else () for i, dim in enumerate(over))
    gives: Dims = (*lead, length, needs[value][3])
    run = "attention" if given.get("dropout_p", 0.0) else ""
    return Decision([needs[operand] for operand in site.operands], [gives], run=run)


RULES: Final[dict[str, Rule]] = {
    "linear": linear,
    **dict.fromkeys(("matmul", "mm", "bmm"), matmul),
    "embedding": embedding,
    "scaled_dot_product_attention": attention,
}

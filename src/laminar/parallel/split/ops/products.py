"""Products: what is multiplied and summed over may be split in both factors; each worker then has a part of the sum."""

from __future__ import annotations

from typing import Any, Final

from laminar.parallel.split.dims import Dim, Dims, axes_of, size_of, whole
from laminar.parallel.split.operator_rule import OperatorRule, all_whole, each, names
from laminar.parallel.split.place import Decision, Site


def linear(site: Site) -> Decision:
    """x [..., I], W [O, I]: O is split where the axis is free, so that of two in a row the first splits what it gives and the second what
    it takes, and only the second has to add up."""
    x, weight, bias = site.arg("input"), site.arg("weight"), site.arg("bias")
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
    one, other = site.arg("self"), site.arg("other", "mat2")
    a, b = site.have[site.index(one)], site.have[site.index(other)]
    if len(a) < 2 or len(b) < 2:
        return all_whole(site, "multiplies with a vector, so every worker computes all of it")
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
    return Decision(
        [needs[operand] for operand in site.operands],
        [(*batch, rows, columns)],
        sums=tuple(dict.fromkeys(axes_of((shared,)))),
    )


def _from_right(dims: Dims, place: int, rank: int) -> Dim:
    at = place - (rank - len(dims))
    return dims[at] if at >= 0 else ()


def embedding(site: Site) -> Decision:
    weight, index = site.arg("weight"), site.arg("indices")
    of = site.have[site.index(index)]
    size = site.tensor_sizes(weight)
    vocab = site.make("vocab", size[0], beside=of)
    made = site.make("hidden", size[1], beside=of, within=(vocab,), place=1)
    needs = {index: of, weight: (vocab, made)}
    return Decision(
        [needs[operand] for operand in site.operands],
        [(*of, made)],
        sums=tuple(axes_of((vocab,))),
        run="lookup",
        facts={"vocab": vocab, "padding": site.arg("padding_idx")},
        why=f"has its own part of the vocabulary on {axes_of((vocab,))[0]}" if axes_of((vocab,)) else "",
    )


def attention(site: Site) -> Decision:
    """Heads and rows on their own; every query needs all keys and values."""
    query, key, value, mask = site.arg("query"), site.arg("key"), site.arg("value"), site.arg("attn_mask")
    q, k, v = (site.layout(one) for one in (query, key, value))
    if not len(q) == len(k) == len(v) == 4 or len({tuple(size_of(dim) for dim in dims[:2]) for dims in (q, k, v)}) > 1:
        return all_whole(site, "queries, keys and values have not the same rows and heads, so every worker computes all of it")
    for dims in (q, k, v):
        site.rename(dims[1], "heads")
    lead: list[Dim] = []
    for place in (0, 1):
        dim = next((dims[place] for dims in (q, k, v) if axes_of((dims[place],))), q[place])
        lead.append(whole((dim,), *axes_of(tuple(lead)))[0] if axes_of(tuple(lead)) else dim)
    ordered = mask is not None or site.arg("is_causal")
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
    run = "attention" if site.arg("dropout_p") else ""
    return Decision([needs[operand] for operand in site.operands], [gives], run=run)


RULES: Final[dict[str, OperatorRule]] = {
    "linear": OperatorRule(linear, tensors=names("input weight bias")),
    **each("matmul mm bmm", OperatorRule(matmul, tensors=names("self other mat2"))),
    "embedding": OperatorRule(embedding, tensors=names("weight indices"), reads=names("padding_idx")),
    "scaled_dot_product_attention": OperatorRule(
        attention, tensors=names("query key value attn_mask"), reads=names("is_causal dropout_p"), passes=names("scale")
    ),
}

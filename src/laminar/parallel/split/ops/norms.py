"""Norms: statistics over what is split are those of all parts together, as one process would have them."""

from __future__ import annotations

from typing import Any, Final

from laminar.parallel.split.dims import axes_of, whole
from laminar.parallel.split.ops.pointwise import all_whole
from laminar.parallel.split.place import Decision, Rule, Site


def batch_norm(site: Site) -> Decision:
    x, weight, bias, mean, variance, training, momentum, eps = site.args[:8]
    dims = site.have[site.index(x)]
    if len(dims) < 2:
        return all_whole(site)
    channels = dims[1]
    needs: dict[Any, Any] = {x: dims} | {one: (channels,) for one in (weight, bias, mean, variance) if one is not None}
    over = tuple(dict.fromkeys(axes_of((dims[0], *dims[2:]))))
    together = bool(training) and bool(over)
    return Decision(
        [needs[operand] for operand in site.operands],
        [dims],
        run="batch_norm" if together else "",
        facts={"axes": over, "dims": [d for d in range(len(dims)) if d != 1], "whole": dims, "momentum": momentum, "eps": eps},
        why=f"statistics of all workers on {', '.join(over)}" if together else "",
    )


def layer_norm(site: Site) -> Decision:
    """The dimensions that are normalised whole."""
    x = site.args[0]
    dims = site.have[site.index(x)]
    last = len(site.args[1])
    kept = (*dims[: len(dims) - last], *(site.keep_whole(dim) for dim in dims[len(dims) - last :]))
    needs = {operand: kept if operand is x else whole(have) for operand, have in zip(site.operands, site.have, strict=True)}
    return Decision([needs[operand] for operand in site.operands], [kept])


def group_norm(site: Site) -> Decision:
    x, groups = site.args[:2]
    dims = site.have[site.index(x)]
    first = dims[1][0].axis if dims[1] else None
    apart = first is not None and axes_of((dims[1],)) == [first] and groups % site.mesh[first] == 0
    channels = dims[1] if apart else site.keep_whole(dims[1])
    kept = (dims[0], channels, *(site.keep_whole(dim) for dim in dims[2:]))
    needs = {operand: kept if operand is x else (channels,) for operand in site.operands}
    facts = {"groups": groups // site.mesh[first] if apart and first is not None else groups}
    return Decision([needs[operand] for operand in site.operands], [kept], run="group_norm", facts=facts)


RULES: Final[dict[str, Rule]] = {
    "batch_norm": batch_norm,
    **dict.fromkeys(("layer_norm", "rms_norm"), layer_norm),
    "group_norm": group_norm,
}

"""Norms: statistics over what is split are those of all parts together, as one process would have them."""

from __future__ import annotations

from typing import Any, Final

from laminar.parallel.split.dims import axes_of, whole
from laminar.parallel.split.operator_rule import OperatorRule, all_whole, each, names
from laminar.parallel.split.place import Decision, Site


def batch_norm(site: Site) -> Decision:
    x, *others = (site.arg(name) for name in ("input", "weight", "bias", "running_mean", "running_var"))
    dims = site.layout(x)
    if len(dims) < 2:
        return all_whole(site, "has no channels, so every worker computes all of it")
    channels = dims[1]
    needs: dict[Any, Any] = {x: dims} | {one: (channels,) for one in others if one is not None}
    over = tuple(dict.fromkeys(axes_of((dims[0], *dims[2:]))))
    together = bool(site.arg("training")) and bool(over)
    return Decision(
        [needs[operand] for operand in site.operands],
        [dims],
        run="batch_norm" if together else "",
        facts={
            "axes": over,
            "dims": [d for d in range(len(dims)) if d != 1],
            "whole": dims,
            "momentum": site.arg("momentum"),
            "eps": site.arg("eps"),
        },
        why=f"statistics of all workers on {', '.join(over)}" if together else "",
    )


def layer_norm(site: Site) -> Decision:
    """The dimensions that are normalised whole."""
    x = site.arg("input")
    dims = site.layout(x)
    last = len(site.arg("normalized_shape"))
    kept = (*dims[: len(dims) - last], *(site.keep_whole(dim) for dim in dims[len(dims) - last :]))
    needs = {operand: kept if operand is x else whole(have) for operand, have in zip(site.operands, site.have, strict=True)}
    return Decision([needs[operand] for operand in site.operands], [kept])


def group_norm(site: Site) -> Decision:
    x, groups = site.arg("input"), site.arg("num_groups")
    dims = site.layout(x)
    first = dims[1][0].axis if dims[1] else None
    apart = first is not None and axes_of((dims[1],)) == [first] and not (groups % site.mesh[first] or dims[1][0].size % site.mesh[first])
    channels = dims[1] if apart else site.keep_whole(dims[1])
    kept = (dims[0], channels, *(site.keep_whole(dim) for dim in dims[2:]))
    needs = {operand: kept if operand is x else (channels,) for operand in site.operands}
    facts = {"groups": groups // site.mesh[first] if apart and first is not None else groups, "eps": site.arg("eps")}
    return Decision([needs[operand] for operand in site.operands], [kept], run="group_norm", facts=facts)


RULES: Final[dict[str, OperatorRule]] = {
    "batch_norm": OperatorRule(
        batch_norm,
        tensors=names("input weight bias running_mean running_var"),
        reads=names("training momentum eps cudnn_enabled"),  # of which the last says how it is computed, not what
    ),
    **each(
        "layer_norm rms_norm",
        OperatorRule(layer_norm, tensors=names("input weight bias"), reads=names("normalized_shape"), passes=names("eps cudnn_enable")),
    ),
    "group_norm": OperatorRule(group_norm, tensors=names("input weight bias"), reads=names("num_groups eps cudnn_enabled")),
}

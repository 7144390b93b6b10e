"""Taint: which nodes of an exported graph are live, and so have to run at every training step.

Live is whatever depends on a trainable parameter, on a tensor that the graph changes, on a random operation, or on the other
samples' statistics by a normalisation in training mode. The rest depends on the sample and on frozen tensors: the prefix.

Graphs of `torch.export` before functionalisation may write in place, so values are grouped by the storage that they may share,
and a node moves to the live side whenever the split would let it see a value from before or after a write that it should not see.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, fx

from laminar.model.prefix import CannotCut

VIEWS_TAG = "maybe_aliasing_or_mutating"


@dataclass
class Taint:
    """The verdict on every node of one graph."""

    sample: fx.Node  # the placeholder of the batch
    live: dict[fx.Node, str] = field(default_factory=dict)  # node -> why
    varying: set[fx.Node] = field(default_factory=set)  # depends on the batch (the rest are constants, computed on either side)
    frontier: list[fx.Node] = field(default_factory=list)
    copied: set[fx.Node] = field(default_factory=set)  # frontier values that the live side writes into


def taint(
    graph: fx.Graph, sample: fx.Node, bound: dict[fx.Node, Tensor], owner: torch.nn.Module, also: frozenset[fx.Node] = frozenset()
) -> Taint:
    """`bound` gives the tensor behind each placeholder but `sample`; `owner` holds the graph's submodules.

    Nodes in `also` are live whatever they are: the caller would rather compute them again than keep their output.
    """
    order = {node: i for i, node in enumerate(graph.nodes)}
    groups = _Groups(graph, owner)
    writes = [(node, groups.of(target)) for node in graph.nodes for target in written(node, owner)]
    kept_in_model = {groups.of(node) for node in bound}
    changed = {group for _, group in writes if group in kept_in_model}

    forced: dict[fx.Node, str] = dict.fromkeys(also, "it is cheaper to compute than to keep")
    for node, tensor in bound.items():
        if tensor.requires_grad:
            forced[node] = f"{node.meta['path']} is trained"
        elif groups.of(node) in changed:
            forced[node] = f"{node.meta['path']} is changed by the model itself"
    for node in graph.nodes:
        if node.op == "call_function" and (why := impure(node, owner)):
            forced[node] = why
        elif any(writer is node and group in changed for writer, group in writes):
            forced[node] = "it writes into a tensor of the model"

    while True:
        found = _spread(graph, sample, forced)
        more = _conflicts(found, writes, groups, order) or _not_per_sample(found)
        if not more:
            break
        forced.update(more)
    for writer, group in writes:
        if writer in found.live:
            found.copied.update(n for n in found.frontier if groups.of(n) == group)
    return found


def _spread(graph: fx.Graph, sample: fx.Node, forced: dict[fx.Node, str]) -> Taint:
    found = Taint(sample=sample, varying={sample})
    for node in graph.nodes:
        if node in forced:
            found.live[node] = forced[node]
        else:
            guilty = next((arg for arg in node.all_input_nodes if arg in found.live), None)
            if guilty is not None:
                found.live[node] = found.live[guilty]
        if any(arg in found.varying for arg in node.all_input_nodes):
            found.varying.add(node)
    for node in graph.nodes:
        is_value = node not in found.live and node in found.varying and not is_number(node)
        if is_value and any(user in found.live or user.op == "output" for user in node.users):
            found.frontier.append(node)
    return found


def _conflicts(found: Taint, writes: list[tuple[fx.Node, int]], groups: _Groups, order: dict[fx.Node, int]) -> dict[fx.Node, str]:
    more: dict[fx.Node, str] = {}
    for writer, group in writes:
        readers = [user for member in groups.members(group) for user in member.users]
        if writer not in found.live:
            # a live node that reads the old value would find the new one, as the whole prefix runs first
            if any(r in found.live and order[r] < order[writer] for r in readers):
                more[writer] = "it overwrites a value that a trained module reads"
            continue
        for reader in readers:
            if reader not in found.live and reader.op != "output" and order[reader] > order[writer]:
                more[reader] = "it reads a value after a trained module has overwritten it"
        shared = [n for n in found.frontier if groups.of(n) == group]
        if len(shared) > 1:
            # two names of one storage would become two arrays: hand over the storage, and make the views on the live side
            more.update({n: "it is a view of what a trained module overwrites" for n in shared if groups.is_view(n)})
    return {node: why for node, why in more.items() if node not in found.live}


def _not_per_sample(found: Taint) -> dict[fx.Node, str]:
    batch = found.sample.meta["val"].shape[0]
    for node in found.frontier:
        value: Any = node.meta.get("val")
        per_sample = isinstance(value, Tensor) and _is_batch(value.shape[:1], batch) and all(isinstance(d, int) for d in value.shape[1:])
        if node is found.sample:
            if not per_sample:
                raise CannotCut("the model was exported for one batch size only")
        elif not per_sample:
            return {node: "its output is not one row per sample"}
        elif value.dtype != torch.float32:
            return {node: f"its output is {str(value.dtype).removeprefix('torch.')}, and only float32 is kept"}
    return {}


def _is_batch(first: Any, batch: Any) -> bool:
    return len(first) == 1 and not isinstance(first[0], int) and str(first[0]) == str(batch)


def is_number(node: fx.Node) -> bool:
    """Sizes and arithmetic on them: no tensor, recomputed wherever needed."""
    value = node.meta.get("val")
    return isinstance(value, (int, float, bool, torch.SymInt, torch.SymFloat, torch.SymBool))


# ---- single operations -------------------------------------------------------------------------------------------------


def arguments(node: fx.Node) -> Iterator[tuple[Any, Any]]:
    """(schema argument, value given or default) of a call of an operator."""
    assert isinstance(node.target, torch._ops.OpOverload)
    for i, argument in enumerate(node.target._schema.arguments):
        if i < len(node.args) and not argument.kwarg_only:
            yield argument, node.args[i]
        else:
            yield argument, node.kwargs.get(argument.name, argument.default_value)


def impure(node: fx.Node, owner: torch.nn.Module) -> str:
    """Why a call may give another value for the same sample; "" where it may not."""
    target = node.target
    if isinstance(target, torch._ops.HigherOrderOperator):
        for body in bodies(node, owner):
            for inner in body.graph.nodes:
                if inner.op == "call_function" and (why := impure(inner, body)):
                    return why
        return ""
    if not isinstance(target, torch._ops.OpOverload):
        return ""
    given = {argument.name: value for argument, value in arguments(node)}
    if given.get("running_mean") is not None and (given.get("training") is True or given.get("use_input_stats") is True):
        return "it normalises by the statistics of the batch"
    if given.get("training") is True and "batch_norm" in target._schema.name:
        return "it normalises by the statistics of the batch"
    if torch.Tag.nondeterministic_seeded in target.tags:
        off = given.get("train") is False or given.get("training") is False or given.get("dropout_p") == 0.0 or given.get("p") == 0.0
        return "" if off else f"it is random ({target._schema.name.removeprefix('aten::')})"
    return ""


def written(node: fx.Node, owner: torch.nn.Module) -> list[fx.Node]:
    """The arguments that a call overwrites."""
    if node.op != "call_function":
        return []
    if isinstance(node.target, torch._ops.HigherOrderOperator):
        for body in bodies(node, owner):
            groups = _Groups(body.graph, body)
            given_in = {groups.of(n) for n in body.graph.nodes if n.op == "placeholder"}
            if any(groups.of(target) in given_in for inner in body.graph.nodes for target in written(inner, body)):
                raise CannotCut(f"{node.target} writes into what it is given")
        return []
    if not isinstance(node.target, torch._ops.OpOverload):
        return []
    found: list[fx.Node] = []
    given = {argument.name: value for argument, value in arguments(node)}
    in_training = given.get("training") is True or given.get("use_input_stats") is True
    for argument, value in arguments(node):
        writes = argument.alias_info is not None and argument.alias_info.is_write
        if writes or (in_training and argument.name in ("running_mean", "running_var")):
            found.extend(v for v in (value if isinstance(value, (list, tuple)) else [value]) if isinstance(v, fx.Node))
    return found


def bodies(node: fx.Node, owner: torch.nn.Module) -> list[fx.GraphModule]:
    """The subgraphs that a higher-order operator (such as `torch.no_grad` inside a model) runs."""
    found: list[fx.GraphModule] = []
    for arg in node.all_input_nodes:
        if arg.op == "get_attr":
            body = owner.get_submodule(str(arg.target))
            if not isinstance(body, fx.GraphModule):
                raise CannotCut(f"{node.target} runs something that is not a graph")
            found.append(body)
    return found


class _Groups:
    """Values that may share storage, by union-find over the aliasing that operators' schemas declare."""

    def __init__(self, graph: fx.Graph, owner: torch.nn.Module) -> None:
        self._up: dict[fx.Node, fx.Node] = {node: node for node in graph.nodes}
        self._views: set[fx.Node] = set()
        for node in graph.nodes:
            for source in _aliased(node, owner):
                self._views.add(node)
                self._up[self._root(node)] = self._root(source)
        self._number = {root: i for i, root in enumerate({self._root(node): None for node in graph.nodes})}
        self._members: dict[int, list[fx.Node]] = {}
        for node in graph.nodes:
            self._members.setdefault(self.of(node), []).append(node)

    def _root(self, node: fx.Node) -> fx.Node:
        while self._up[node] is not node:
            node = self._up[node]
        return node

    def of(self, node: fx.Node) -> int:
        return self._number[self._root(node)]

    def members(self, group: int) -> list[fx.Node]:
        return self._members[group]

    def is_view(self, node: fx.Node) -> bool:
        return node in self._views


def _aliased(node: fx.Node, owner: torch.nn.Module) -> list[fx.Node]:
    """The arguments whose storage the result of a call may be."""
    if node.op != "call_function" or is_number(node):
        return []
    target = node.target
    if isinstance(target, torch._ops.HigherOrderOperator):
        return _aliased_through_bodies(node, owner)
    if not isinstance(target, torch._ops.OpOverload):
        return [arg for arg in node.all_input_nodes if not is_number(arg)]  # getitem
    returns_alias = any(r.alias_info is not None for r in target._schema.returns)
    unsaid = any(tag.name == VIEWS_TAG for tag in target.tags)
    if not (returns_alias or unsaid):
        return []
    found: list[fx.Node] = []
    for i, (argument, value) in enumerate(arguments(node)):
        if argument.alias_info is not None or (unsaid and i == 0):
            found.extend(v for v in (value if isinstance(value, (list, tuple)) else [value]) if isinstance(v, fx.Node))
    return found


def _aliased_through_bodies(node: fx.Node, owner: torch.nn.Module) -> list[fx.Node]:
    operands = [arg for arg in node.all_input_nodes if arg.op != "get_attr"]
    found: set[fx.Node] = set()
    for body in bodies(node, owner):
        inner = _Groups(body.graph, body)
        inputs = [n for n in body.graph.nodes if n.op == "placeholder"]
        if len(inputs) != len(operands):
            return operands
        (output,) = (n for n in body.graph.nodes if n.op == "output")
        returned = {inner.of(n) for n in output.all_input_nodes}
        found.update(arg for arg, n in zip(operands, inputs, strict=True) if inner.of(n) in returned)
    return list(found)

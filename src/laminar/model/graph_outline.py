"""The outline of a graph: its modules, and what flows from one to the next, as a person would draw it. Read without torch, for looking.

An operator belongs to the innermost module that was running when it was traced; operators of no submodule (an addition in the author's
`forward`) are nodes of their own. Nothing is checked as graph_read checks it: nothing of it is run.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any, Final

from laminar.model.graph_members import MAX_JSON, Members, refuse

MOST: Final = 400  # nodes that are drawn one by one; a larger model is drawn by the modules one level up


@dataclass(frozen=True)
class Node:
    """A module (or an operator between modules): `shape` of what comes out of it; a number that is not known before is 'n'."""

    id: str
    path: str
    kind: str
    facts: dict[str, Any]
    shape: list[int | str] | None


@dataclass(frozen=True)
class Outline:
    modules: list[dict[str, Any]]  # path, kind, facts of every module, outer ones first
    nodes: list[Node] = field(default_factory=list)
    edges: list[tuple[str, str]] = field(default_factory=list)


def outline(archive: bytes) -> Outline:
    """Of an archive's bytes. L207 where they are damaged."""
    members = Members(archive)
    try:
        extra = json.loads(members.read("extra/laminar.json", MAX_JSON))
        whole = json.loads(members.read("models/model.json", MAX_JSON))["graph_module"]
        modules: list[dict[str, Any]] = [
            {"path": str(m["path"]), "kind": str(m["kind"]), "facts": dict(m["facts"])} for m in extra["modules"]
        ]
        depth = 64
        while True:
            nodes, edges = _flow(whole, {m["path"]: m for m in modules}, depth)
            if len(nodes) <= MOST or depth == 1:
                return Outline(modules, nodes, edges)
            deepest = max(node.path.count(".") + 1 for node in nodes)
            depth = min(depth, deepest) - 1
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
        raise refuse(f"its description is malformed ({type(error).__name__}: {str(error)[:80]})") from error


def _flow(whole: dict[str, Any], modules: dict[str, Any], depth: int) -> tuple[list[Node], list[tuple[str, str]]]:
    """Operators that follow each other in one module become one node; a module that is called twice is two."""
    made: dict[str, str] = {}  # a tensor -> the node that made it
    nodes: dict[str, Node] = {}
    edges: dict[tuple[str, str], None] = {}
    last: tuple[str, str] | None = None  # path and node of the operator before
    graph = whole["graph"]
    for name in _inputs(whole):
        nodes[name] = Node(name, "", "input", {}, _shape(graph, name))
        made[name] = name
    for operator in graph["nodes"]:
        path = _innermost(operator, depth)
        if path and last is not None and last[0] == path:
            id = last[1]
        else:
            id = f"{path or operator['target'].rsplit('.', 2)[-2]}#{len(nodes)}"
        outputs = [name for each in operator["outputs"] for name in _tensors(each)]
        known = modules.get(path, {"kind": operator["target"].rsplit(".", 2)[-2], "facts": {}}) if path else None
        kind = known["kind"] if known else operator["target"].rsplit(".", 2)[-2]
        nodes[id] = Node(id, path, kind, known["facts"] if known else {}, _shape(graph, outputs[0]) if outputs else None)
        for source in (name for each in operator["inputs"] for name in _tensors(each["arg"])):
            if source in made and made[source] != id:
                edges[(made[source], id)] = None
        for name in outputs:
            made[name] = id
        last = (path, id)
    return _used(nodes, list(edges))


def _used(nodes: dict[str, Node], edges: list[tuple[str, str]]) -> tuple[list[Node], list[tuple[str, str]]]:
    """Without what only computes with sizes, and is joined to nothing."""
    joined = {end for edge in edges for end in edge}
    return [node for id, node in nodes.items() if id in joined or len(nodes) == 1], edges


def _inputs(whole: dict[str, Any]) -> list[str]:
    """The model's own inputs, not its parameters, buffers and constants."""
    return [name for each in whole["signature"]["input_specs"] if "user_input" in each for name in _tensors(each["user_input"])]


def _innermost(operator: dict[str, Any], depth: int) -> str:
    stack = operator.get("metadata", {}).get("nn_module_stack", "")
    path = stack.rsplit(";", 1)[-1].split(",")[1] if stack else ""
    return ".".join(path.split("@")[0].split(".")[:depth]) if path else ""


def _tensors(argument: Any) -> list[str]:
    """Names of tensors in an argument, however deep."""
    if isinstance(argument, dict):
        if isinstance(argument.get("as_tensor"), dict):
            return [str(argument["as_tensor"]["name"])]
        return [name for value in argument.values() for name in _tensors(value)]
    if isinstance(argument, list):
        names = [str(a["name"]) for a in argument if isinstance(a, dict) and set(a) == {"name"}]
        return names + [name for a in argument if isinstance(a, dict) and set(a) != {"name"} for name in _tensors(a)]
    return []


def _shape(graph: dict[str, Any], name: str) -> list[int | str] | None:
    value = graph.get("tensor_values", {}).get(name)
    if value is None:
        return None
    return [size["as_int"] if isinstance(size.get("as_int"), int) else "n" for size in value["sizes"]]

"""Split: an exported graph, tainted, becomes two modules that share the model's parameters and buffers."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, fx, nn
from torch.export.graph_signature import InputKind, OutputKind

from laminar.model.graph_export import quiet
from laminar.model.prefix import CannotCut, Cut, NoPrefix
from laminar.model.prefix_taint import Taint, is_number, taint, written


def cut_by_graph(model: nn.Module, example: Tensor, set_mode: Callable[[], None]) -> Cut | NoPrefix:
    """Export the form of `model` that `set_mode` chooses, find what is live, and split there."""
    set_mode()
    program = _export(model, example)
    owner, graph = program.graph_module, program.graph
    sample, bound = _bind(model, program)
    _drop_idle_dropout(graph)
    found = _cheapest(graph, sample, bound, owner)
    if [n for n in found.frontier if n is not sample] == []:
        return NoPrefix(_why_nothing(found))
    features, read = _build_features(graph, found, bound, owner)
    if not read:
        return NoPrefix("no frozen tensor is used before the first trained module")
    suffix = _build_suffix(graph, found, bound, owner)
    values = [n.meta["val"] for n in found.frontier]
    return Cut(
        features=features,
        suffix=suffix,
        shapes=tuple(tuple(int(d) for d in v.shape[1:]) for v in values),
        dtypes=tuple(v.dtype for v in values),
        input_at=found.frontier.index(sample) if sample in found.frontier else None,
        tensors=tuple(read),
        graph=canonical_graph(features),
        modules=_modules(features, model),
        locate=lambda few, more, tolerance: _locate(features, few, more, tolerance),
    )


def _export(model: nn.Module, example: Tensor) -> torch.export.ExportedProgram:
    try:
        with quiet():
            return torch.export.export(model, (example,), dynamic_shapes=({0: torch.export.Dim("batch")},), strict=False)
    except Exception as error:  # torch.export fails in too many ways to list; every one means: cut by modules
        first = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise CannotCut(f"torch.export refused the model: {first[:200]}") from error


def _bind(model: nn.Module, program: torch.export.ExportedProgram) -> tuple[fx.Node, dict[fx.Node, Tensor]]:
    """The placeholder of the batch, and for every other placeholder the model's own tensor."""
    if any(spec.kind is not OutputKind.USER_OUTPUT for spec in program.graph_signature.output_specs):
        raise CannotCut("the exported graph returns more than the model's output")
    if len(program.graph_signature.output_specs) != 1:
        raise CannotCut("the model returns more than one tensor")
    placeholders = {node.name: node for node in program.graph.nodes if node.op == "placeholder"}
    sample: fx.Node | None = None
    bound: dict[fx.Node, Tensor] = {}
    for spec in program.graph_signature.input_specs:
        node, target = placeholders[spec.arg.name], spec.target or ""
        if spec.kind is InputKind.USER_INPUT:
            if sample is not None:
                raise CannotCut("the model takes more than one input")
            sample = node
        elif spec.kind is InputKind.PARAMETER:
            bound[node] = model.get_parameter(target)
        elif spec.kind is InputKind.BUFFER:
            bound[node] = model.get_buffer(target)
        elif spec.kind is InputKind.CONSTANT_TENSOR and isinstance(program.constants.get(target), Tensor):
            bound[node] = program.constants[target]
        else:
            raise CannotCut(f"the exported graph has an input of kind {spec.kind.name}")
        node.meta["path"] = target
    if sample is None or not isinstance(sample.meta.get("val"), Tensor):
        raise CannotCut("the model takes no tensor")
    return sample, bound


def _drop_idle_dropout(graph: fx.Graph) -> None:
    """Dropout that is switched off returns its argument. Without it both forms of a model mostly have the same prefix."""
    idle = {torch.ops.aten.dropout.default, torch.ops.aten.feature_dropout.default, torch.ops.aten.alpha_dropout.default}
    for node in list(graph.nodes):
        if node.op == "call_function" and node.target in idle and (node.args[2] is False or node.args[1] == 0.0):
            node.replace_all_uses_with(node.args[0])
            graph.erase_node(node)


def _cheapest(graph: fx.Graph, sample: fx.Node, bound: dict[fx.Node, Tensor], owner: nn.Module) -> Taint:
    """The largest prefix, less what is as cheap as reading and would make the kept rows longer (an upsampling, a one-hot code,
    a second copy of what is kept anyway)."""
    also: frozenset[fx.Node] = frozenset()
    best = taint(graph, sample, bound, owner, also)
    improved = True
    while improved:
        improved = False
        for node in best.frontier:
            if node is sample or not _is_cheap(node, best):
                continue
            other = taint(graph, sample, bound, owner, also | {node})
            if _row_bytes(other) < _row_bytes(best):
                also, best, improved = also | {node}, other, True
                break
    return best


_CHEAP = (
    "expand",
    "repeat",
    "upsample",
    "one_hot",
    "pad",
    "cat",
    "stack",
    "flatten",
    "view",
    "reshape",
    "unsqueeze",
    "permute",
    "transpose",
)


def _is_cheap(node: fx.Node, found: Taint) -> bool:
    if not isinstance(node.target, torch._ops.OpOverload) or any(
        a.op == "placeholder" and a is not found.sample for a in node.all_input_nodes
    ):
        return False
    return torch.Tag.pointwise in node.target.tags or any(word in node.target._schema.name for word in _CHEAP)


def _row_bytes(found: Taint) -> int:
    values = [n.meta["val"] for n in found.frontier if n is not found.sample]
    return sum(math.prod(int(d) for d in v.shape[1:]) * v.element_size() for v in values)


def _why_nothing(found: Taint) -> str:
    if not found.frontier:
        return "the model's output does not depend on its input"
    user = next((u for u in found.sample.users if u in found.live), None)
    if user is None:
        return "the trained part does not depend on the frozen part"
    return f"the input goes straight into {place(user)}, and {found.live[user]}"


def place(node: fx.Node) -> str:
    """The innermost module that a node comes from: `'features.1' (BatchNorm2d)`."""
    stack = list((node.meta.get("nn_module_stack") or {}).values())
    if stack and stack[-1][0]:
        path, kind = stack[-1]
        return f"'{path}' ({kind.rsplit('.', 1)[-1] if isinstance(kind, str) else kind.__name__})"
    return f"the operation {node.name}"


# ---- building ----------------------------------------------------------------------------------------------------------


class _Builder:
    """Copies nodes into a new graph; tensors of the model become attributes under their own path."""

    def __init__(self, bound: dict[fx.Node, Tensor], owner: nn.Module) -> None:
        self.graph = fx.Graph()
        self.at: dict[fx.Node, fx.Node] = {}
        self.attributes: dict[str, Any] = {}
        self.read: list[Tensor] = []
        self._bound, self._owner = bound, owner

    def copy(self, node: fx.Node) -> None:
        if node in self.at:
            return
        if node in self._bound:
            path = node.meta["path"] or node.name
            self.attributes[path] = self._bound[node]
            self.read.append(self._bound[node])
            self.at[node] = self.graph.get_attr(path)
            return
        if node.op == "get_attr":
            path = str(node.target)
            self.attributes[path] = self._owner.get_submodule(path)
            self.at[node] = self.graph.get_attr(path)
            return
        for arg in node.all_input_nodes:
            if arg not in self.at:
                raise CannotCut(f"{node.name} needs {arg.name} on the other side of the cut")
        self.at[node] = self.graph.node_copy(node, lambda n: self.at[n])

    def module(self, name: str) -> fx.GraphModule:
        self.graph.lint()
        return fx.GraphModule(self.attributes, self.graph, name)


def _build_features(graph: fx.Graph, found: Taint, bound: dict[fx.Node, Tensor], owner: nn.Module) -> tuple[fx.GraphModule, list[Tensor]]:
    wanted = set(found.frontier)
    for node in reversed(list(graph.nodes)):
        writes = node not in found.live and node in found.varying and bool(written(node, owner))
        if node in wanted or writes:
            wanted.update([node, *node.all_input_nodes])
    build = _Builder(bound, owner)
    build.at[found.sample] = build.graph.placeholder("sample")
    for node in graph.nodes:
        if node in wanted:
            build.copy(node)
    build.graph.output(tuple(build.at[n] for n in found.frontier))
    return build.module("FrozenPrefix"), build.read


def _build_suffix(graph: fx.Graph, found: Taint, bound: dict[fx.Node, Tensor], owner: nn.Module) -> fx.GraphModule:
    build = _Builder(bound, owner)
    for i, node in enumerate(found.frontier):
        build.at[node] = build.graph.placeholder(f"feature{i}")
    first = build.at[found.frontier[0]]
    for node in found.frontier:
        if node in found.copied:
            build.at[node] = build.graph.call_function(torch.ops.aten.clone.default, (build.at[node],))
    batch = str(found.sample.meta["val"].shape[0])

    def need(node: fx.Node) -> None:
        """Constants and sizes are computed on both sides; they are cheap and never change."""
        if node in build.at:
            return
        if node not in found.live and is_number(node) and str(node.meta["val"]) == batch:
            build.at[node] = build.graph.call_function(torch.ops.aten.sym_size.int, (first, 0))
            return
        if node not in found.live and node in found.varying and not is_number(node):
            raise CannotCut(f"{node.name} is needed behind the cut but is not one row per sample")
        if node.op != "placeholder":
            for arg in node.all_input_nodes:
                need(arg)
        build.copy(node)

    for node in graph.nodes:
        if node.op == "output":
            (value,) = node.args[0]
            need(value)
            build.graph.output(build.at[value])
        elif node in found.live and node.op == "call_function":
            need(node)
    return build.module("TrainedSuffix")


def canonical_graph(module: fx.GraphModule) -> Any:
    """What a graph computes, as JSON: operations and arguments by number, no names. Equal for equal computations."""
    number: dict[fx.Node, int] = {}

    def plain(value: Any) -> Any:
        if isinstance(value, fx.Node):
            return {"n": number[value]}
        if isinstance(value, (list, tuple)):
            return [plain(v) for v in value]
        if isinstance(value, slice):
            return {"slice": [plain(value.start), plain(value.stop), plain(value.step)]}
        return value if value is None or isinstance(value, (bool, int, str)) else {"is": repr(value)}

    lines: list[Any] = []
    for node in module.graph.nodes:
        number[node] = len(lines)
        if node.op == "get_attr":
            inner = module.get_submodule(str(node.target)) if isinstance(_attribute(module, str(node.target)), nn.Module) else None
            lines.append(["graph", canonical_graph(inner)] if isinstance(inner, fx.GraphModule) else ["tensor"])
        else:
            kind = str(node.target) if node.op == "call_function" else node.op
            lines.append([kind, plain(node.args), {k: plain(v) for k, v in sorted(node.kwargs.items())}])
    return lines


def _attribute(module: nn.Module, path: str) -> Any:
    value: Any = module
    for part in path.split("."):
        value = getattr(value, part)
    return value


def _modules(features: fx.GraphModule, model: nn.Module) -> tuple[str, ...]:
    known = {name for name, _ in model.named_modules(remove_duplicate=False)}
    seen: dict[str, None] = {}
    for node in features.graph.nodes:
        stack = list((node.meta.get("nn_module_stack") or {}).values())
        if node.op == "call_function" and stack and stack[-1][0] in known:
            seen[stack[-1][0]] = None
    return tuple(name for name in seen if name)


def _locate(features: fx.GraphModule, few: Tensor, more: Tensor, tolerance: float) -> str:
    """The first node whose rows for the samples in `few` differ when `more` (few, then strangers) is computed with them."""
    alone, among = _Values(features), _Values(features)
    with torch.no_grad():
        alone.run(few.clone())
        among.run(more.clone())
    for node, first in alone.values.items():
        second = among.values[node]
        if first.dim() and first.shape[0] == few.shape[0] and second.shape[0] == more.shape[0]:
            if not close(first, second[: few.shape[0]], tolerance):
                return place(node)
        elif first.shape != second.shape or not close(first, second, tolerance):
            return place(node)
    return ""


class _Values(fx.Interpreter):
    def __init__(self, module: fx.GraphModule) -> None:
        super().__init__(module, garbage_collect_values=False)
        self.values: dict[fx.Node, Tensor] = {}

    def run_node(self, n: fx.Node) -> Any:
        value = super().run_node(n)
        if isinstance(value, Tensor) and n.op == "call_function":
            self.values[n] = value.clone()
        return value


def close(a: Tensor, b: Tensor, tolerance: float) -> bool:
    """Equal up to `tolerance` of the largest value (of 1 where all are smaller). Infinities and NaN are equal to their like."""
    if a.shape != b.shape:
        return False
    a, b = a.detach().double(), b.detach().double()
    finite = a[a.isfinite()]
    scale = max(float(finite.abs().max()) if finite.numel() else 0.0, 1.0)
    return bool(((a == b) | ((a - b).abs() <= tolerance * scale) | (a.isnan() & b.isnan())).all())

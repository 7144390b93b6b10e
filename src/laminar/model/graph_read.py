"""Read torch.export's JSON into graph_ir.Flat. Everything is checked here; nothing is evaluated, imported or unpickled.

torch's own loader would hand strings of the file to sympy (which evaluates them), resolve dotted names with getattr and unpickle some
members. None of that is needed to run a graph: sizes are read from the tensors at run time, so symbolic expressions are only
compared as text, and operators come from the table of graph_ops.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from laminar.model.graph_ir import LEAF, Attr, Call, Flat, Node, Ref, Signature
from laminar.model.graph_members import refuse
from laminar.model.graph_ops import ASSERTS, NO_GRAD, TRACEPOINT, operator_called
from laminar.model.graph_values import (
    name_of,
    names_in,
    number,
    only_entry,
    plain_value,
    read_call,
    read_spec,
    read_stack,
    required_name,
    size_value,
    tensor_name,
    word,
)

MAJOR: Final = 8  # of torch's schema; a newer one may mean something else by the same words
MAX_NODES: Final = 200_000
MAX_DEPTH: Final = 32


def read_graph(text: bytes, constants: Mapping[str, str]) -> Flat:
    """The graph in a `models/*.json` of a torch.export archive. `constants`: name -> digest of the tensor constants beside it."""
    try:
        return _Reader(constants).program(json.loads(text))
    except (KeyError, TypeError, ValueError, AttributeError, IndexError, RecursionError, RuntimeError) as error:
        raise refuse(f"it is malformed ({type(error).__name__}: {str(error)[:80]})") from error


class _Reader:
    def __init__(self, constants: Mapping[str, str]) -> None:
        self.constants = constants
        self.nodes: list[Node] = []
        self.same: dict[str, Any] = {}  # a value that is another one: results of inlined graphs
        self.dims: dict[str, tuple[str | int, ...]] = {}
        self.taken: set[str] = set()
        self.points: dict[tuple[str, str], tuple[Any, ...]] = {}  # (call, inputs or outputs) -> values, where the table of calls lacks them

    def program(self, program: dict[str, Any]) -> Flat:
        if program["schema_version"]["major"] != MAJOR:
            raise refuse(f"it has schema version {program['schema_version']['major']!r}, this version reads {MAJOR}")
        module = program["graph_module"]
        graph = module["graph"]
        flat = Flat(Signature((), LEAF, (), LEAF), {}, {}, self.nodes, self.dims)
        inputs: list[Any] = []
        for spec in module["signature"]["input_specs"]:
            self._input(spec, flat, inputs)
        self._sizes(graph, {})
        self.taken.update(name for one in graph["inputs"] if (name := name_of(one)))
        self._graph_nodes(graph, {}, None, 0)
        outputs: list[Any] = []
        for spec in module["signature"]["output_specs"]:
            kind, value = only_entry(spec)
            if kind == "user_output":
                outputs.append(self._argument(value["arg"], {}))
            elif kind == "buffer_mutation":
                flat.mutated[tensor_name(value["buffer_name"])] = self._named(value["arg"]["name"], {}).name
            else:
                raise refuse(f"it changes its inputs or parameters ({kind})")
        for entry in module["module_call_graph"]:
            self._entry(entry, flat, inputs, outputs)
        _fill_stacks(self.nodes)
        return flat

    def _input(self, spec: dict[str, Any], flat: Flat, inputs: list[Any]) -> None:
        kind, value = only_entry(spec)
        if kind == "user_input":
            inputs.append(self._argument(value["arg"], {}))
        elif kind == "constant_input":
            inputs.append(only_entry(value["value"])[1] if "as_none" not in value["value"] else None)
        elif kind == "parameter":
            flat.tensors[value["arg"]["name"]] = Attr("parameter", tensor_name(value["parameter_name"]))
        elif kind == "buffer":
            name = tensor_name(value["buffer_name"])
            flat.tensors[value["arg"]["name"]] = Attr("buffer", name)
            flat.persistent[name] = bool(value["persistent"])
        elif kind == "tensor_constant":
            name = value["tensor_constant_name"]
            if name not in self.constants:
                raise refuse(f"its constant '{name}' is missing")
            flat.tensors[value["arg"]["name"]] = Attr("constant", self.constants[name])
        else:
            raise refuse(f"it needs an input of kind '{kind}'")

    def _entry(self, entry: dict[str, Any], flat: Flat, inputs: list[Any], outputs: list[Any]) -> None:
        signature = entry["signature"]
        if signature is None:
            return
        in_spec, out_spec = read_spec(signature["in_spec"]), read_spec(signature["out_spec"])
        if entry["fqn"] == "":
            if in_spec.leaves != len(inputs) or out_spec.leaves != len(outputs):
                raise refuse("its inputs or outputs do not match their description")
            flat.signature = Signature(tuple(inputs), in_spec, tuple(outputs), out_spec)
            return
        fqn = entry["fqn"]
        given = self.points.get((fqn, "module_call_inputs")) or tuple(self._argument(arg, {}) for arg in signature["inputs"])
        made = self.points.get((fqn, "module_call_outputs")) or tuple(self._argument(arg, {}) for arg in signature["outputs"])
        if in_spec.leaves == len(given) and out_spec.leaves == len(made):
            flat.calls[read_call(fqn)] = Signature(given, in_spec, made, out_spec)

    def _sizes(self, graph: dict[str, Any], names: Mapping[str, str]) -> None:
        for name, meta in graph["tensor_values"].items():
            self.dims[names.get(name, name)] = tuple(size_value(size) for size in meta["sizes"])

    def _graph_nodes(self, graph: dict[str, Any], names: Mapping[str, str], grad: bool | None, depth: int) -> None:
        if depth > MAX_DEPTH:
            raise refuse("its graphs are nested too deep")
        for node in graph["nodes"]:
            target = node["target"]
            if not isinstance(target, str):
                raise refuse("an operator without a name")
            if target in ASSERTS:
                continue
            if target == NO_GRAD:
                self._inline(node, names, depth)
                continue
            if target == TRACEPOINT:
                self._tracepoint(node, names)
                continue
            if len(self.nodes) >= MAX_NODES:
                raise refuse(f"it has more than {MAX_NODES} operators")
            operator_called(target)
            args = [self._argument(i["arg"], names) for i in node["inputs"] if i.get("kind") != 2]
            kwargs = tuple((word(i["name"]), self._argument(i["arg"], names)) for i in node["inputs"] if i.get("kind") == 2)
            outs, listed = self._results(node["outputs"], names)
            self.nodes.append(Node(target, tuple(args), kwargs, outs, listed, read_stack(node["metadata"].get("nn_module_stack")), grad))

    def _inline(self, node: dict[str, Any], outer: Mapping[str, str], depth: int) -> None:
        """A `with torch.no_grad():` block is a graph of its own in the file; here it becomes nodes with `grad` set."""
        enabled, block, *operands = [i["arg"] for i in node["inputs"]]
        graph = block["as_graph"]["graph"]
        if len(graph["inputs"]) != len(operands):
            raise refuse("a block is called with the wrong number of values")
        names: dict[str, str] = {}
        defined = [name for inner in graph["nodes"] for out in inner["outputs"] for name in names_in(out)]
        for name in defined:
            fresh = name
            while fresh in self.taken:
                fresh += "'"
            self.taken.add(fresh)
            names[name] = fresh
        for inner, operand in zip(graph["inputs"], operands, strict=True):
            value = self._argument(operand, outer)
            if isinstance(value, Ref):
                names[required_name(inner)] = str(value.name)
        self._sizes({"tensor_values": {k: v for k, v in graph["tensor_values"].items() if k in defined}}, names)
        self._graph_nodes(graph, names, bool(enabled["as_bool"]), depth + 1)
        results = [self._argument(out, names) for out in graph["outputs"]]
        outs, _ = self._results(node["outputs"], outer)
        self.same.update({name: value for name, value in zip(outs, results, strict=True) if name is not None})

    def _tracepoint(self, node: dict[str, Any], names: Mapping[str, str]) -> None:
        given = tuple(self._argument(i["arg"], names) for i in node["inputs"] if i.get("kind") != 2)
        said = {i["name"]: i["arg"].get("as_string") for i in node["inputs"] if i.get("kind") == 2}
        self.points[str(said["path"]).partition(".")[2], str(said["kind"])] = given
        outs, _ = self._results(node["outputs"], names)
        if len(outs) != len(given):
            given = tuple(value for value in given if isinstance(value, Ref))
        self.same.update({name: value for name, value in zip(outs, given, strict=True) if name is not None})

    def _results(self, outputs: list[dict[str, Any]], names: Mapping[str, str]) -> tuple[tuple[str | None, ...], bool]:
        if len(outputs) == 1 and "as_tensors" in outputs[0]:
            found: list[str | None] = [names.get(t["name"], t["name"]) for t in outputs[0]["as_tensors"]]
            listed = True
        else:
            found = [names.get(name, name) if (name := name_of(out)) else None for out in outputs]
            listed = False
        self.taken.update(name for name in found if name is not None)
        return tuple(found), listed

    def _named(self, name: Any, names: Mapping[str, str]) -> Any:
        if not isinstance(name, str):
            raise refuse("a value without a name")
        name = names.get(name, name)
        return self.same.get(name, Ref(name))

    def _argument(self, arg: dict[str, Any], names: Mapping[str, str]) -> Any:
        kind, value = only_entry(arg)
        if kind == "as_none":
            return None
        if kind == "as_tensor":
            return self._named(value["name"], names)
        if kind == "as_optional_tensor":
            return self._argument(value, names)
        if kind == "as_tensors":
            return tuple(self._named(t["name"], names) for t in value)
        if kind == "as_optional_tensors":
            return tuple(self._argument(t, names) for t in value)
        if kind == "as_nested_tensors":
            return tuple(tuple(self._named(t["name"], names) for t in row) for row in value)
        if kind in ("as_sym_int", "as_sym_bool", "as_sym_float"):
            inner, leaf = only_entry(value)
            return self._named(leaf, names) if inner == "as_name" else number(leaf)
        if kind in ("as_sym_ints", "as_sym_bools", "as_sym_floats"):
            return tuple(self._argument({kind[:-1]: item}, names) for item in value)
        return plain_value(kind, value)


def _fill_stacks(nodes: list[Node]) -> None:
    """A node without a stack (tracing lost it) belongs where both its neighbours are."""
    known: tuple[Call, ...] = ()
    after: list[tuple[Call, ...]] = [()] * (len(nodes) + 1)
    for i in range(len(nodes) - 1, -1, -1):
        own = nodes[i].stack
        after[i] = own if own is not None else after[i + 1]
    for i, node in enumerate(nodes):
        if node.stack is None:
            common = []
            for a, b in zip(known, after[i + 1], strict=False):
                if a != b:
                    break
                common.append(a)
            nodes[i] = Node(node.target, node.args, node.kwargs, node.outs, node.listed, tuple(common), node.grad)
        else:
            known = node.stack

"""Read torch.export's JSON into graph_ir.Flat. Everything is checked here; nothing is evaluated, imported or unpickled.

torch's own loader would hand strings of the file to sympy (which evaluates them), resolve dotted names with getattr and unpickle some
members. None of that is needed to run a graph: sizes are read from the tensors at run time, so symbolic expressions are only
compared as text, and operators come from the table of graph_ops.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any, Final

import torch

from laminar.core.errors import LaminarError
from laminar.model.graph_ir import LEAF, Attr, Call, Flat, Node, Ref, Signature, Spec
from laminar.model.graph_ops import ASSERTS, NO_GRAD, TRACEPOINT, operator_called

MAJOR: Final = 8  # of torch's schema; a newer one may mean something else by the same words
MAX_NODES: Final = 200_000
MAX_DEPTH: Final = 32

DTYPES: Final[dict[int, torch.dtype]] = {
    1: torch.uint8,
    2: torch.int8,
    3: torch.int16,
    4: torch.int32,
    5: torch.int64,
    6: torch.float16,
    7: torch.float32,
    8: torch.float64,
    10: torch.complex64,
    11: torch.complex128,
    12: torch.bool,
    13: torch.bfloat16,
    28: torch.uint16,
    29: torch.float8_e4m3fn,
    30: torch.float8_e5m2,
    33: torch.float8_e8m0fnu,
    34: torch.uint32,
    35: torch.uint64,
}
MEMORY_FORMATS: Final = {1: torch.contiguous_format, 2: torch.channels_last, 3: torch.channels_last_3d, 4: torch.preserve_format}
_NO_STACK: Final = "_empty_nn_module_stack_from_metadata_hook"
_SPECS: Final = {"builtins.tuple": "tuple", "builtins.list": "list", "builtins.dict": "dict", "collections.OrderedDict": "dict"}


def refuse(what: str) -> LaminarError:
    return LaminarError(
        "L207",
        f"the graph will not be loaded: {what}",
        hint="pull the layer again, or build it where its source code is; laminar verify finds damage",
    )


def read_graph(text: bytes, constants: Mapping[str, str]) -> Flat:
    """The graph in a `models/*.json` of a torch.export archive. `constants`: name -> digest of the tensor constants beside it."""
    try:
        return _Reader(constants).program(json.loads(text))
    except (KeyError, TypeError, ValueError, AttributeError, IndexError, RecursionError) as error:
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
        self.taken.update(name for one in graph["inputs"] if (name := _name_of(one)))
        self._graph_nodes(graph, {}, None, 0)
        outputs: list[Any] = []
        for spec in module["signature"]["output_specs"]:
            kind, value = _one(spec)
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
        kind, value = _one(spec)
        if kind == "user_input":
            inputs.append(self._argument(value["arg"], {}))
        elif kind == "constant_input":
            inputs.append(_one(value["value"])[1] if "as_none" not in value["value"] else None)
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
            self.dims[names.get(name, name)] = tuple(_size(size) for size in meta["sizes"])

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
            kwargs = tuple((_word(i["name"]), self._argument(i["arg"], names)) for i in node["inputs"] if i.get("kind") == 2)
            outs, listed = self._results(node["outputs"], names)
            self.nodes.append(Node(target, tuple(args), kwargs, outs, listed, read_stack(node["metadata"].get("nn_module_stack")), grad))

    def _inline(self, node: dict[str, Any], outer: Mapping[str, str], depth: int) -> None:
        """A `with torch.no_grad():` block is a graph of its own in the file; here it becomes nodes with `grad` set."""
        enabled, block, *operands = [i["arg"] for i in node["inputs"]]
        graph = block["as_graph"]["graph"]
        if len(graph["inputs"]) != len(operands):
            raise refuse("a block is called with the wrong number of values")
        names: dict[str, str] = {}
        defined = [name for inner in graph["nodes"] for out in inner["outputs"] for name in _names_in(out)]
        for name in defined:
            fresh = name
            while fresh in self.taken:
                fresh += "'"
            self.taken.add(fresh)
            names[name] = fresh
        for inner, operand in zip(graph["inputs"], operands, strict=True):
            value = self._argument(operand, outer)
            if isinstance(value, Ref):
                names[_required_name(inner)] = str(value.name)
        self._sizes({"tensor_values": {k: v for k, v in graph["tensor_values"].items() if k in defined}}, names)
        self._graph_nodes(graph, names, bool(enabled["as_bool"]), depth + 1)
        results = [self._argument(out, names) for out in graph["outputs"]]
        outs, _ = self._results(node["outputs"], outer)
        for name, value in zip(outs, results, strict=True):
            if name is not None:
                self.same[name] = value

    def _tracepoint(self, node: dict[str, Any], names: Mapping[str, str]) -> None:
        given = tuple(self._argument(i["arg"], names) for i in node["inputs"] if i.get("kind") != 2)
        said = {i["name"]: i["arg"].get("as_string") for i in node["inputs"] if i.get("kind") == 2}
        self.points[str(said["path"]).partition(".")[2], str(said["kind"])] = given
        outs, _ = self._results(node["outputs"], names)
        if len(outs) != len(given):
            given = tuple(value for value in given if isinstance(value, Ref))
        for name, value in zip(outs, given, strict=True):
            if name is not None:
                self.same[name] = value

    def _results(self, outputs: list[dict[str, Any]], names: Mapping[str, str]) -> tuple[tuple[str | None, ...], bool]:
        if len(outputs) == 1 and "as_tensors" in outputs[0]:
            found: list[str | None] = [names.get(t["name"], t["name"]) for t in outputs[0]["as_tensors"]]
            listed = True
        else:
            found = [names.get(name, name) if (name := _name_of(out)) else None for out in outputs]
            listed = False
        self.taken.update(name for name in found if name is not None)
        return tuple(found), listed

    def _named(self, name: Any, names: Mapping[str, str]) -> Any:
        if not isinstance(name, str):
            raise refuse("a value without a name")
        name = names.get(name, name)
        return self.same.get(name, Ref(name))

    def _argument(self, arg: dict[str, Any], names: Mapping[str, str]) -> Any:
        kind, value = _one(arg)
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
            inner, leaf = _one(value)
            return self._named(leaf, names) if inner == "as_name" else _number(leaf)
        if kind in ("as_sym_ints", "as_sym_bools", "as_sym_floats"):
            return tuple(self._argument({kind[:-1]: item}, names) for item in value)
        return _plain(kind, value)


def _plain(kind: str, value: Any) -> Any:
    """An argument that is no value of the graph."""
    if kind in ("as_int", "as_float", "as_bool"):
        return _number(value)
    if kind in ("as_ints", "as_floats", "as_bools"):
        return tuple(_number(item) for item in value)
    if kind in ("as_int_lists", "as_float_lists"):
        return tuple(tuple(_number(item) for item in row) for row in value)
    if kind == "as_string":
        return _word(value)
    if kind == "as_strings":
        return tuple(_word(item) for item in value)
    if kind == "as_complex":
        return complex(_number(value["real"]), _number(value["imag"]))
    if kind == "as_scalar_type":
        return DTYPES[value]
    if kind == "as_memory_format":
        return MEMORY_FORMATS[value]
    if kind == "as_layout" and value == 7:
        return torch.strided
    if kind == "as_device":
        return torch.device(_word(value["type"]), value["index"]) if value.get("index") is not None else torch.device(_word(value["type"]))
    raise refuse(f"an argument of kind '{kind}'")


def read_spec(text: str) -> Spec:
    """torch's description of a nest: '[1, {"type": "builtins.tuple", "context": …, "children_spec": […]}]'."""
    version, spec = json.loads(text)
    if version != 1:
        raise refuse("the description of its arguments has an unknown version")
    return _spec(spec)


def _spec(spec: dict[str, Any]) -> Spec:
    if spec["type"] is None:
        return LEAF
    kind = _SPECS.get(spec["type"])
    if kind is None:
        raise refuse(f"a module takes or returns a {str(spec['type'])[:60]}; tuples, lists and dicts can be kept")
    parts = tuple(_spec(child) for child in spec["children_spec"])
    if kind != "dict":
        return Spec("tuple" if kind == "tuple" else "list", (), parts)
    keys = json.loads(spec["context"])
    if len(keys) != len(parts) or not all(isinstance(key, str) for key in keys):
        raise refuse("a dict whose names are no strings")
    return Spec("dict", tuple(keys), parts)


def read_stack(text: Any) -> tuple[Call, ...] | Any:
    """'L__self__,,Net;L__self__act@1,act,ReLU' -> (Call('act', 1),); None where tracing wrote none."""
    if not text:
        return None
    found = []
    for item in str(text).split(";"):
        key, path, _ = item.split(",", 2)
        if path == _NO_STACK:
            return None
        path = path.removeprefix("L['self']").removeprefix(".")
        if path:
            number = key.rpartition("@")[2] if "@" in key else "0"
            found.append(Call(module_path(path), int(number)))
    return tuple(found)


def read_call(fqn: str) -> Call:
    path, _, number = fqn.partition("@")
    return Call(module_path(path), int(number or 0))


def tensor_name(name: Any) -> str:
    """A dotted name that may become an attribute of a module."""
    return module_path(name)


def module_path(path: Any) -> str:
    if not isinstance(path, str) or len(path) > 1000:
        raise refuse("a module path that is none")
    for part in path.split("."):
        if not part or part.startswith("__") or any(c in part for c in ",;@\x00\n"):
            raise refuse(f"a bad name '{path[:60]}'")
    return path


def _fill_stacks(nodes: list[Node]) -> None:
    """A node without a stack (tracing lost it) belongs where both its neighbours are."""
    known: tuple[Call, ...] = ()
    after: list[tuple[Call, ...]] = [()] * (len(nodes) + 1)
    for i in range(len(nodes) - 1, -1, -1):
        after[i] = nodes[i].stack if nodes[i].stack is not None else after[i + 1]
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


def _one(union: dict[str, Any]) -> tuple[str, Any]:
    """The one entry of torch's unions: {"as_int": 3}."""
    ((kind, value),) = union.items()
    return kind, value


def _name_of(argument: dict[str, Any]) -> str | None:
    kind, value = _one(argument)
    if kind == "as_tensor":
        return _word(value["name"])
    if kind in ("as_sym_int", "as_sym_bool", "as_sym_float") and "as_name" in value:
        return _word(value["as_name"])
    if kind in ("as_optional_tensor", "as_optional_tensors", "as_custom_obj", "as_graph"):
        raise refuse(f"a result of kind '{kind}'")
    return None


def _required_name(argument: dict[str, Any]) -> str:
    name = _name_of(argument)
    if name is None:
        raise refuse("an input without a name")
    return name


def _names_in(out: dict[str, Any]) -> list[str]:
    if "as_tensors" in out:
        return [_word(t["name"]) for t in out["as_tensors"]]
    name = _name_of(out)
    return [name] if name else []


def _size(size: dict[str, Any]) -> str | int:
    kind, value = _one(size)
    return int(value) if kind == "as_int" else _word(value["expr_str"])


def _number(value: Any) -> int | float | bool:
    if isinstance(value, str):
        return {"Infinity": math.inf, "-Infinity": -math.inf, "NaN": math.nan}[value]
    if not isinstance(value, int | float):
        raise refuse("a number that is none")
    return value


def _word(value: Any) -> str:
    if not isinstance(value, str) or len(value) > 10_000:
        raise refuse("a word that is none")
    return value

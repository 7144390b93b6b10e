"""The words of torch.export's JSON: names, numbers, dtypes, nests, module calls. Each is checked here and turned into a plain value."""

from __future__ import annotations

import json
import math
from typing import Any, Final

import torch

from laminar.model.graph_ir import LEAF, Call, Spec
from laminar.model.graph_members import refuse

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


def plain_value(kind: str, value: Any) -> Any:
    """An argument that is no value of the graph."""
    if kind in ("as_int", "as_float", "as_bool"):
        return number(value)
    if kind in ("as_ints", "as_floats", "as_bools"):
        return tuple(number(item) for item in value)
    if kind in ("as_int_lists", "as_float_lists"):
        return tuple(tuple(number(item) for item in row) for row in value)
    if kind == "as_string":
        return word(value)
    if kind == "as_strings":
        return tuple(word(item) for item in value)
    if kind == "as_complex":
        return complex(number(value["real"]), number(value["imag"]))
    if kind == "as_scalar_type":
        return DTYPES[value]
    if kind == "as_memory_format":
        return MEMORY_FORMATS[value]
    if kind == "as_layout" and value == 7:
        return torch.strided
    if kind == "as_device":
        return torch.device(word(value["type"]), value["index"]) if value.get("index") is not None else torch.device(word(value["type"]))
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


def read_stack(text: Any) -> tuple[Call, ...] | None:
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


def only_entry(union: dict[str, Any]) -> tuple[str, Any]:
    """The one entry of torch's unions: {"as_int": 3}."""
    ((kind, value),) = union.items()
    return kind, value


def name_of(argument: dict[str, Any]) -> str | None:
    kind, value = only_entry(argument)
    if kind == "as_tensor":
        return word(value["name"])
    if kind in ("as_sym_int", "as_sym_bool", "as_sym_float") and "as_name" in value:
        return word(value["as_name"])
    if kind in ("as_optional_tensor", "as_optional_tensors", "as_custom_obj", "as_graph"):
        raise refuse(f"a result of kind '{kind}'")
    return None


def required_name(argument: dict[str, Any]) -> str:
    name = name_of(argument)
    if name is None:
        raise refuse("an input without a name")
    return name


def names_in(out: dict[str, Any]) -> list[str]:
    if "as_tensors" in out:
        return [word(t["name"]) for t in out["as_tensors"]]
    name = name_of(out)
    return [name] if name else []


def size_value(size: dict[str, Any]) -> str | int:
    kind, value = only_entry(size)
    return int(value) if kind == "as_int" else word(value["expr_str"])


def number(value: Any) -> int | float | bool:
    if isinstance(value, str):
        return {"Infinity": math.inf, "-Infinity": -math.inf, "NaN": math.nan}[value]
    if not isinstance(value, int | float):
        raise refuse("a number that is none")
    return value


def word(value: Any) -> str:
    if not isinstance(value, str) or len(value) > 10_000:
        raise refuse("a word that is none")
    return value

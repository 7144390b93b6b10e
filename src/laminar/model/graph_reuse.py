"""Reuse of graphs: tracing a model takes longer than training a small head, and its graph does not depend on its weights.

`sight_of` is a digest of everything that tracing can see of a model besides the values of its saved tensors: torch, our format, how the
model was made (its source), the samples' shape, and of each module its class, its settings, and the names and kinds of its tensors.
Tensors that are in no state_dict are in the archive, so their values count. What cannot be looked into (an object of a class of its own,
a hook, a function made inside another) makes it None, and the model is traced.
Even so nothing is taken on trust: graphs that are used again are run beside the model, both forms, with gradients (graph.py: proved).
"""

from __future__ import annotations

import enum
import functools
import types
from collections.abc import Mapping
from typing import Any, Final

import torch
from torch import Tensor, nn

from laminar.core import digest, project_code
from laminar.core.kernel_files import KernelName
from laminar.model.freeze import Frozen
from laminar.model.graph_export import fixed_parameters
from laminar.model.graph_module import GraphModule
from laminar.model.weights import raw_bytes, state

FORMAT: Final = 1  # raised when graph_export writes the same model down otherwise
_TORCHS_OWN: Final = frozenset(vars(nn.Module()))
_BY_TEXT: Final = (float, complex, torch.dtype, torch.device, torch.layout, torch.memory_format, torch.Size)


class _Opaque(Exception):
    """Something that cannot be told from another of its kind."""


def sight_of(model: nn.Module, example: Tensor, *, frozen: Frozen | None, made: Any) -> str | None:
    """`made` is JSON: how the model was made, with the source it was made by."""
    names = {id(t): name for name, t in [*model.named_parameters(), *model.named_buffers()]}
    tensors, aliases = state(model)
    try:
        modules = [[path, *_module(module, names)] for path, module in model.named_modules(remove_duplicate=False)]
    except (_Opaque, AttributeError, TypeError, ValueError, RuntimeError, RecursionError):  # of whatever kind it is, it can be traced
        return None
    return digest.of_json(
        {
            "torch": torch.__version__,
            "format": FORMAT,
            "made": made,
            "input": [list(example.shape[1:]), str(example.dtype), str(torch.get_default_dtype())],
            "modules": modules,
            "shared": _shared(model),
            "tensors": {name: [str(t.dtype), list(t.shape)] for name, t in tensors.items()},
            "aliases": aliases,
            "fixed": fixed_parameters(model, frozen),
        }
    )


def _shared(model: nn.Module) -> dict[str, str]:
    """Paths of modules that are at several places -> the first of them."""
    first: dict[int, str] = {}
    return {path: first[id(m)] for path, m in model.named_modules(remove_duplicate=False) if first.setdefault(id(m), path) != path}


def _module(module: nn.Module, names: Mapping[int, str]) -> list[Any]:
    inner = vars(module)
    for name in _TORCHS_OWN:
        if "hooks" in name and inner.get(name):
            raise _Opaque
    if isinstance(module, GraphModule):  # its bodies are those of the layer that `made` names
        settings: Any = [module.graph_path, module.graph_kind, _plain(module.graph_facts, names)]
    else:
        settings = _plain({name: value for name, value in inner.items() if name not in _TORCHS_OWN}, names)
    unsaved = {name: _content(inner["_buffers"][name]) for name in sorted(module._non_persistent_buffers_set) if name in inner["_buffers"]}
    return [_class(type(module)), settings, list(inner["_parameters"]), list(inner["_buffers"]), unsaved]


def _plain(value: Any, names: Mapping[int, str]) -> Any:
    """A value as JSON that tells it from every other one; _Opaque where there is none."""
    if value is None or isinstance(value, bool | int | str):
        return [type(value).__name__, value] if type(value) in (bool, int, str, type(None)) else [_class(type(value)), str(value)]
    if isinstance(value, _BY_TEXT):
        return [type(value).__name__, repr(value)]
    if isinstance(value, enum.Enum):
        return [_class(type(value)), value.name]
    if isinstance(value, list | tuple) and type(value) in (list, tuple):
        return [type(value).__name__, [_plain(item, names) for item in value]]
    if type(value) is dict:
        return ["dict", [[_plain(key, names), _plain(item, names)] for key, item in value.items()]]
    if isinstance(value, Tensor):
        return ["own", names[id(value)]] if id(value) in names else _content(value)
    if isinstance(value, type):
        return ["class", _class(value)]
    if isinstance(kernel := getattr(value, "name", None), KernelName):
        return ["kernel", kernel.operator]
    if isinstance(value, functools.partial):
        return ["partial", _plain(value.func, names), _plain(list(value.args), names), _plain(dict(value.keywords), names)]
    if isinstance(value, types.FunctionType) and value.__closure__ is None and "<" not in value.__qualname__:
        return ["function", _class(value)]
    if isinstance(value, types.BuiltinFunctionType) and isinstance(value.__self__, types.ModuleType | type | None):
        return ["function", _class(value)]
    raise _Opaque


def _content(tensor: Tensor | None) -> Any:
    if tensor is None:
        return None
    if tensor.layout is not torch.strided:
        raise _Opaque
    return [str(tensor.dtype), list(tensor.shape), tensor.requires_grad, digest.of_bytes(bytes(raw_bytes(tensor)))]


def _class(kind: Any) -> str:
    """Its name, without the private package of the project, which is another one in each process."""
    module = str(kind.__module__)
    return f"{module.partition('.')[2] if module.startswith(project_code.PREFIX) else module}:{kind.__qualname__}"

"""Read a foreign torch.export archive (.pt2) without torch's loader, which would unpickle some of its members.

The graph is checked as any other; weights and constants are raw bytes with a JSON table beside them. What can only be unpickled (tensor
subclasses, custom objects, old archives) is refused. Sample inputs are never looked at.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import torch
from torch import Tensor

from laminar.core import digest
from laminar.model.graph import Forms, structure_of
from laminar.model.graph_export import prune_program
from laminar.model.graph_file import Archive, write_archive
from laminar.model.graph_members import MAX_JSON, Members, refuse
from laminar.model.graph_values import DTYPES
from laminar.model.weights import to_raw

MAX_TENSOR: Final = 64 << 30


def read_pt2(path: Path) -> tuple[Forms, dict[str, Tensor], dict[str, str]]:
    """(graph, tensors, tied names) of an archive. It has one form, which serves for training and evaluation."""
    members = Members(path)
    names = [n for n in members.names() if n.startswith("models/") and n.endswith(".json")]
    if len(names) != 1:
        raise refuse(f"{path.name} holds {len(names)} models, expected one")
    model = names[0].removeprefix("models/").removesuffix(".json")
    try:
        content = json.loads(members.read(names[0], MAX_JSON))
        tensors, aliases = _payloads(members, f"data/weights/{model}_weights_config.json", "data/weights/")
        constants, tied = _payloads(members, f"data/constants/{model}_constants_config.json", "data/constants/")
        constants |= {name: constants[kept] for name, kept in tied.items()}
        prune_program(content)
        graph = digest.canonical(content)
    except (KeyError, TypeError, ValueError, AttributeError, RuntimeError, RecursionError, OverflowError) as error:
        raise refuse(f"{path.name} is malformed ({type(error).__name__}: {str(error)[:80]})") from error
    raws = {name: to_raw(tensor, name) for name, tensor in constants.items()}
    data = write_archive(Archive(graph, raws, [], aliases, []))
    note = "imported from a file with one form: dropout and BatchNorm stay as they were exported"
    return Forms(data, data, structure_of(data, data), note), tensors, aliases


def _payloads(members: Members, table: str, folder: str) -> tuple[dict[str, Tensor], dict[str, str]]:
    entries = json.loads(members.read(table, MAX_JSON))["config"]
    tensors: dict[str, Tensor] = {}
    aliases: dict[str, str] = {}
    files: dict[str, Tensor] = {}
    seen: dict[str, str] = {}
    for name, entry in entries.items():
        file, meta = entry["path_name"], entry["tensor_meta"]
        if entry["use_pickle"] or meta is None or not isinstance(file, str):
            raise refuse(f"'{str(name)[:60]}' could only be unpickled, and nothing is ever unpickled")
        place = json.dumps([file, meta["sizes"], meta["strides"], meta["storage_offset"], meta["dtype"]])
        if place in seen:
            aliases[name] = seen[place]
            continue
        seen[place] = name
        dtype = DTYPES[meta["dtype"]]
        sizes, strides = [_integer(n) for n in meta["sizes"]], [_integer(n) for n in meta["strides"]]
        if file not in files:
            data = bytearray(members.read(folder + file, MAX_TENSOR))
            files[file] = torch.frombuffer(data, dtype=torch.uint8) if data else torch.empty(0, dtype=torch.uint8)
        if any(n < 0 for n in (*sizes, *strides)):
            raise refuse(f"'{str(name)[:60]}' has an impossible shape")
        tensors[name] = torch.as_strided(files[file].view(dtype), sizes, strides, _integer(meta["storage_offset"])).contiguous()
    return tensors, aliases


def _integer(size: dict[str, Any]) -> int:
    value = size["as_int"]
    if type(value) is not int:
        raise refuse("a size that is no number")
    return value

"""The archive of a graph: a torch.export archive (zip) without weights and without pickles, the same bytes for the same graph.

Members: `archive_format`, `archive_version`, `models/model.json` (torch's schema, without file names and traces),
`data/constants/<sha256>` (raw bytes of tensors that are neither parameters nor saved buffers), `extra/laminar.json` (what the schema has
no place for: the modules and their order, which names are tied). Reading looks at the members it knows and at no other; sizes are
checked before anything is unpacked.
"""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from laminar.core import digest
from laminar.model.graph_members import MAX_JSON, Members, refuse
from laminar.model.graph_values import module_path
from laminar.model.weights import DTYPES
from laminar.store.raw import RawTensor

FOLDER: Final = "model"
FORMAT: Final = 1
MAX_CONSTANT: Final = 4 << 30
_EPOCH: Final = (1980, 1, 1, 0, 0, 0)


@dataclass
class ModuleFact:
    """A module as the author had it: its class by name, and the plain settings that torch's own classes publish."""

    path: str
    kind: str
    facts: dict[str, Any] = field(default_factory=dict)
    same_as: str | None = None  # the module is also at that path


@dataclass
class Archive:
    """What an archive holds, unpacked but not yet trusted (graph_read checks the graph)."""

    graph: bytes
    constants: dict[str, RawTensor]  # by name; bytes may be in the other form's archive
    modules: list[ModuleFact] = field(default_factory=list)
    aliases: dict[str, str] = field(default_factory=dict)
    fixed: list[str] = field(default_factory=list)  # parameters that the author's code does not train


def write_archive(archive: Archive, leave_out: Mapping[str, RawTensor] | None = None) -> bytes:
    """The archive's bytes; constants that `leave_out` (the other form) has too are named only."""
    known = {constant_digest(raw) for raw in (leave_out or {}).values()}
    members: dict[str, bytes] = {"archive_format": b"pt2", "archive_version": b"0", "models/model.json": archive.graph}
    table: dict[str, Any] = {}
    for name, raw in sorted(archive.constants.items()):
        sha = constant_digest(raw)
        table[name] = {"dtype": raw.dtype, "shape": list(raw.shape), "sha256": sha}
        if sha not in known:
            members[f"data/constants/{sha}"] = bytes(raw.data)
    extra = {
        "format": FORMAT,
        "constants": table,
        "modules": [{"path": m.path, "kind": m.kind, "facts": m.facts, "same_as": m.same_as} for m in archive.modules],
        "aliases": archive.aliases,
        "fixed": archive.fixed,
    }
    members["extra/laminar.json"] = digest.canonical(extra)
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED, compresslevel=6) as file:
        for name, data in members.items():
            info = zipfile.ZipInfo(f"{FOLDER}/{name}", _EPOCH)
            info.compress_type = zipfile.ZIP_DEFLATED
            info.external_attr = 0o644 << 16
            file.writestr(info, data)
    return out.getvalue()


def constant_digest(raw: RawTensor) -> str:
    return digest.of_bytes(f"{raw.dtype}{list(raw.shape)}".encode() + bytes(raw.data))


def read_archive(data: bytes, other: bytes | None = None) -> Archive:
    """Unpack an archive of ours; constants that were left out are looked for in `other`."""
    members = Members(data)
    others = Members(other) if other is not None else None
    try:
        extra = json.loads(members.read("extra/laminar.json", MAX_JSON))
        if extra["format"] != FORMAT:
            raise refuse(f"its format is {extra['format']!r}, this version reads {FORMAT}")
        constants: dict[str, RawTensor] = {}
        for name, entry in extra["constants"].items():
            constants[str(name)] = _constant(entry, members, others)
        modules = [_fact(m) for m in extra["modules"]]
        aliases = {module_path(k): module_path(v) for k, v in extra["aliases"].items()}
        fixed = [module_path(name) for name in extra["fixed"]]
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError, OverflowError) as error:
        raise refuse(f"its description is malformed ({type(error).__name__}: {str(error)[:80]})") from error
    return Archive(members.read("models/model.json", MAX_JSON), constants, modules, aliases, fixed)


def _constant(entry: dict[str, Any], members: Members, others: Members | None) -> RawTensor:
    shape, dtype, sha = tuple(int(n) for n in entry["shape"]), entry["dtype"], entry["sha256"]
    if dtype not in DTYPES or not isinstance(sha, str):
        raise refuse(f"a constant of dtype {dtype!r}")
    name = f"data/constants/{sha}"
    source = members if members.has(name) or others is None else others
    raw = RawTensor.of(dtype, shape, bytearray(source.read(name, MAX_CONSTANT)))
    if constant_digest(raw) != sha:
        raise refuse("a constant is not what its digest says")
    return raw


def _fact(entry: dict[str, Any]) -> ModuleFact:
    same = entry["same_as"]
    facts = {str(k): tuple(v) if isinstance(v, list) else v for k, v in entry["facts"].items()}
    if not all(isinstance(v, int | float | str | bool | tuple | type(None)) for v in facts.values()) or not isinstance(entry["kind"], str):
        raise refuse("the description of a module")
    if same and f"{entry['path']}.".startswith(f"{same}."):
        raise refuse("a module that contains itself")
    return ModuleFact(module_path(entry["path"]) if entry["path"] else "", entry["kind"], facts, module_path(same) if same else None)

"""Checkpoints on disk: a safetensors file with JSON in its header, and a pointer that names the newest two with their sha256.

A checkpoint is a new file, then a new pointer; what the pointer no longer names is removed after. So a kill at any moment leaves
a pointer to whole files, and a file that was damaged since falls back to the one before it, or to the start. Nothing is unpickled.

Tensors are written and read one at a time (tensor_file.py): a model that takes half the memory can be kept.
"""

from __future__ import annotations

import contextlib
import json
import shutil
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import safetensors.torch
from torch import Tensor

from laminar.core import atomic, digest
from laminar.train import tensor_file
from laminar.train.tensor_file import Later

FORMAT = 1
POINTER = "checkpoint.json"
APART = "apart"  # folder of the snapshots of a training by servers and workers, which has no other checkpoints
OPERATORS = "checkpoint-operators.json"  # what a model in stages was cut by: a run that goes on is cut alike
_FILES = "checkpoint-*.safetensors"
_STATE = "laminar"


@dataclass(frozen=True)
class Checkpoint:
    tensors: Mapping[str, Tensor]  # each is read from the file whenever it is asked for
    state: dict[str, Any]  # JSON
    file: str
    bytes: int


def write(folder: Path, step: int, tensors: Mapping[str, Tensor | Later], state: Mapping[str, Any]) -> int:
    """Make this the newest checkpoint of the run; the size of its file."""
    name = f"checkpoint-{step:08d}-{uuid.uuid4().hex[:8]}.safetensors"
    with atomic.writing(folder / name) as file:
        sha256, size = tensor_file.write(file, tensors, {_STATE: digest.canonical(state).decode()})
    before: list[dict[str, Any]] = []
    with contextlib.suppress(_Unreadable):
        before = _entries(folder)[:1]
    entries = [{"file": name, "sha256": sha256, "step": step}, *before]
    record = {"format": FORMAT, "checkpoints": entries}
    atomic.write_bytes(folder / POINTER, digest.canonical(record | {"check": digest.of_json(record)}))
    named = {entry["file"] for entry in entries}
    for old in [*folder.glob(_FILES), *folder.glob(".checkpoint*.tmp")]:  # the latter: of a writer that was killed
        if old.name not in named:
            old.unlink(missing_ok=True)
    return size


def pack(tensors: Mapping[str, Tensor], state: Mapping[str, Any]) -> bytes:
    plain = {name: tensor.detach().contiguous() for name, tensor in tensors.items()}
    return safetensors.torch.save(plain, metadata={_STATE: digest.canonical(state).decode()})


def unpack(data: bytes) -> tuple[dict[str, Tensor], dict[str, Any]]:
    size = int.from_bytes(data[:8], "little")
    state: dict[str, Any] = json.loads(json.loads(data[8 : 8 + size])["__metadata__"][_STATE])
    return safetensors.torch.load(data), state


def newest(folder: Path) -> tuple[Checkpoint | None, list[str]]:
    """The newest checkpoint that is whole, and what was found wrong on the way to it."""
    notes: list[str] = []
    try:
        entries = _entries(folder)
    except _Unreadable as error:
        return None, [f"{POINTER} is unreadable ({error}): training starts from its beginning"]
    for place, entry in enumerate(entries):
        try:
            return _read(folder / entry["file"], entry["sha256"]), notes
        except _Unreadable as error:
            after = "the one before it is used" if place + 1 < len(entries) else "training starts from its beginning"
            notes.append(f"{entry['file']} is unreadable ({error}): {after}")
    return None, notes


def remove(folder: Path) -> None:
    """Forget every checkpoint of the run: pointer first, so that no moment has a pointer to nothing."""
    (folder / POINTER).unlink(missing_ok=True)
    for file in folder.glob(_FILES):
        file.unlink(missing_ok=True)
    (folder / OPERATORS).unlink(missing_ok=True)
    shutil.rmtree(folder / APART, ignore_errors=True)


class _Unreadable(Exception):
    pass


def _entries(folder: Path) -> list[dict[str, Any]]:
    try:
        record = json.loads((folder / POINTER).read_bytes())
        check = record.pop("check")
        entries: list[dict[str, Any]] = record["checkpoints"]
        known = record["format"] == FORMAT
    except FileNotFoundError:
        return []
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise _Unreadable(f"{type(error).__name__}: {error}") from None
    if not known:
        raise _Unreadable(f"format {record['format']}, expected {FORMAT}")
    if check != digest.of_json(record):
        raise _Unreadable("its sha256 does not fit")
    return entries


def _read(path: Path, sha256: str) -> Checkpoint:
    try:
        found = digest.of_file(path)
    except OSError as error:
        raise _Unreadable(error.strerror or "cannot be read") from None
    if found != sha256:
        raise _Unreadable("its sha256 does not fit")
    tensors = tensor_file.Stored(path)
    return Checkpoint(tensors, json.loads(tensors.metadata[_STATE]), path.name, path.stat().st_size)

"""Files for and from other programs: .safetensors, .pt2 and .onnx out; .safetensors, .pt (weights only) and .pt2 in."""

from __future__ import annotations

import importlib.util
import json
import os
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import torch
from torch import Tensor, nn

from laminar.core.atomic import explaining_os_errors
from laminar.core.errors import LaminarError
from laminar.core.nearest import did_you_mean
from laminar.model.graph import Forms
from laminar.model.graph_export import quiet, reason, traced
from laminar.model.graph_kernels import kernel_in
from laminar.model.pt2 import read_pt2
from laminar.model.weights import state

ALIASES: Final = "laminar.aliases"
_WRAPPERS: Final = ("state_dict", "model_state_dict", "model", "weights")


@dataclass(frozen=True)
class Imported:
    """What a file gave: tensors by name, tied names, and the graph where the file has one (else a factory is needed)."""

    tensors: dict[str, Tensor]
    aliases: dict[str, str] = field(default_factory=dict)
    forms: Forms | None = None
    metadata: dict[str, str] = field(default_factory=dict)


def export_file(model: nn.Module, path: Path, *, example: Tensor, metadata: Mapping[str, str] | None = None) -> None:
    """Write the model to `path`; its suffix says how. Batches of any size, evaluation form; the file appears whole or not at all."""
    writers: dict[str, Callable[[nn.Module, Path, Tensor, Mapping[str, str]], None]] = {
        ".safetensors": _write_safetensors,
        ".pt2": _write_pt2,
        ".onnx": _write_onnx,
    }
    writer = writers.get(path.suffix)
    if writer is None:
        raise _unknown_suffix(path, list(writers), "export to")
    with explaining_os_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_name(f".{path.stem}.{uuid.uuid4().hex[:8]}{path.suffix}")
        try:
            part.touch()  # where nothing may be written is said here: each writer would say it in its own way
            writer(model, part, example, metadata or {})
            with open(part, "rb") as file:
                os.fsync(file.fileno())
            os.replace(part, path)
        finally:
            part.unlink(missing_ok=True)


def import_file(path: Path) -> Imported:
    """Read a file that another program may have written. Nothing in it is executed."""
    readers: dict[str, Callable[[Path], Imported]] = {
        ".safetensors": _read_safetensors,
        ".pt": _read_pt,
        ".pth": _read_pt,
        ".bin": _read_pt,
        ".pt2": _read_pt2,
    }
    reader = readers.get(path.suffix)
    if reader is None:
        raise _unknown_suffix(path, list(readers), "import")
    if not path.is_file():
        raise LaminarError("L208", f"there is no file {path}", hint="check the path")
    return reader(path)


def _unknown_suffix(path: Path, known: list[str], what: str) -> LaminarError:
    return LaminarError(
        "L008", f"cannot {what} '{path.name}': {did_you_mean(path.suffix, known)}", hint=f"use a name that ends with {', '.join(known)}"
    )


def _write_safetensors(model: nn.Module, path: Path, example: Tensor, metadata: Mapping[str, str]) -> None:  # noqa: ARG001
    from safetensors.torch import save_file

    tensors, aliases = state(model)
    table = {"format": "pt", **metadata, **({ALIASES: json.dumps(aliases, sort_keys=True)} if aliases else {})}
    save_file({name: tensor.contiguous() for name, tensor in tensors.items()}, path, metadata=table)


def _write_pt2(model: nn.Module, path: Path, example: Tensor, metadata: Mapping[str, str]) -> None:
    with _exporting(path):
        program = traced(model, example, training=False, signatures=False)
        with quiet():
            # Without training's blocks (no_grad …), which torch's own loader does not take in every case.
            torch.export.save(program.run_decompositions({}), path, extra_files=dict(metadata))


def _write_onnx(model: nn.Module, path: Path, example: Tensor, metadata: Mapping[str, str]) -> None:
    missing = [name for name in ("onnx", "onnxscript") if importlib.util.find_spec(name) is None]
    if missing:
        raise LaminarError("L011", f"writing .onnx needs {' and '.join(missing)}", hint="pip install 'laminar-train[onnx]'")
    with _exporting(path):
        program = traced(model, example, training=False, signatures=False)
        kernels = [found for node in program.graph.nodes if (found := kernel_in(f"torch.ops.{node.target}")) is not None]
        if kernels:
            raise LaminarError(
                "L206",
                f"the model cannot be exported to .onnx: it calls the kernel {kernels[0]}, for which ONNX has no operator",
                hint="export to .safetensors, or to .pt2, which can be used where the kernel is",
            )
        with quiet():
            made = torch.onnx.export(program, dynamo=True, verbose=False)
            if made is None:
                raise RuntimeError("torch.onnx.export gave nothing")
            made.model.metadata_props.update(metadata)
            made.save(str(path), external_data=False)


@contextmanager
def _exporting(path: Path) -> Iterator[None]:
    try:
        yield
    except (LaminarError, OSError):
        raise
    except Exception as error:  # torch.export and the ONNX translator fail in too many ways to list
        raise LaminarError(
            "L206", f"the model cannot be exported to {path.suffix}: {reason(error)}", hint="export to .safetensors, which needs no graph"
        ) from error


def _read_safetensors(path: Path) -> Imported:
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="pt") as file:
            metadata = dict(file.metadata() or {})
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - not a dict
        aliases = {str(k): str(v) for k, v in json.loads(metadata.pop(ALIASES, "{}")).items()}
    except (SafetensorError, ValueError, AttributeError, OSError) as error:
        raise LaminarError("L208", f"{path.name} is no whole safetensors file: {str(error)[:120]}", hint="fetch the file again") from error
    return Imported(tensors, {k: v for k, v in aliases.items() if v in tensors}, metadata=metadata)


def _read_pt(path: Path) -> Imported:
    try:
        content: Any = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # a damaged file fails anywhere in the reader
        raise LaminarError(
            "L208",
            f"{path.name} cannot be read as plain weights: {(str(error).strip() or type(error).__name__).splitlines()[0][:160]}",
            hint="save the state_dict alone, best as .safetensors; Laminar does not run code that is stored in a file",
        ) from error
    for name in _WRAPPERS:
        if isinstance(content, dict) and isinstance(content.get(name), dict):
            content = content[name]
    tensors = {str(k): v for k, v in content.items() if isinstance(v, Tensor)} if isinstance(content, dict) else {}
    if not tensors:
        raise LaminarError("L208", f"{path.name} holds no table of tensors", hint="save model.state_dict()")
    aliases: dict[str, str] = {}
    seen: dict[tuple[Any, ...], str] = {}
    for name, value in list(tensors.items()):
        place = (
            (value.untyped_storage().data_ptr(), value.storage_offset(), tuple(value.shape), value.stride()) if value.numel() else (name,)
        )
        if place in seen:
            aliases[name] = seen[place]
            del tensors[name]
        seen.setdefault(place, name)
    return Imported({name: value.detach() for name, value in tensors.items()}, aliases)


def _read_pt2(path: Path) -> Imported:
    forms, tensors, aliases = read_pt2(path)
    return Imported(tensors, aliases, forms)

"""Files: a layer as a file for other programs, and a file of other programs as a layer. Nothing in a file is executed."""

from __future__ import annotations

import json
import tomllib
import zipfile
import zlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import torch
from torch import nn

from laminar.core import digest
from laminar.core.clock import SYSTEM, Clock
from laminar.core.errors import LaminarError
from laminar.model.build import make_model
from laminar.model.fit import run_once
from laminar.model.graph import load_forms
from laminar.model.portable import Imported, export_file, import_file
from laminar.model.weights import load_state
from laminar.stack.foreign import export_foreign, import_graph, is_foreign
from laminar.stack.keep import About, keep
from laminar.stack.kernels import kernels_from
from laminar.stack.key import code_of
from laminar.stack.use import load_model
from laminar.store.manifest import BuildRecord, Input, check_input
from laminar.store.names import Line, is_ref
from laminar.store.own import note_own
from laminar.store.store import Store

ABOUT = "laminar"  # the name of our note inside an exported file


def export_layer(store: Store, id: str, path: Path, root: Path | None) -> None:
    """Write a layer as .safetensors, .pt2 or .onnx, with a note of what its inputs and classes are."""
    manifest = store.layer(id)
    note = {
        "id": id,
        "name": manifest.name,
        "stack": manifest.stack,
        "classes": manifest.classes,
        "task": manifest.task,
        "input": manifest.input,
    }
    dtype = torch.float64 if any(t.dtype == "F64" for t in manifest.tensors.values()) else torch.float32
    example, metadata = torch.zeros(2, *manifest.input["shape"], dtype=dtype), {ABOUT: json.dumps(note)}
    if path.suffix != ".safetensors" and is_foreign(store, manifest):  # for weights alone nothing is run
        try:
            export_foreign(store, id, root, path, example, metadata)
            return
        except LaminarError as error:
            if error.code != "L706":
                raise  # a kernel is not where the child looks: the project's code may know of it
    export_file(load_model(store, id, root), path, example=example, metadata=metadata)


def import_layer(
    store: Store,
    path: Path,
    *,
    name: str,
    root: Path,
    factory: str | None = None,
    args: str | None = None,
    shape: str | None = None,
    classes: list[str] | None = None,
    clock: Clock = SYSTEM,
) -> str:
    """Make a layer of a file. Weights alone need the `factory` (with `args`) they belong to; a .pt2 brings its graph."""
    if not is_ref(name):
        raise LaminarError("L008", f"'{name[:80]}' is no name for a layer: expected stack/layer", hint="--name zoo/x")
    stack, _, layer = name.partition("/")
    with kernels_from(root):
        found = _read(path)
    about = _about(path, found)
    known_shape = _shape(shape, about)
    model, steps = _model(
        found, factory, args, root, {"classes": len(classes or about.get("classes") or []) or None, "input_shape": known_shape}
    )
    example = torch.zeros(2, *known_shape, dtype=next((p.dtype for p in model.parameters() if p.is_floating_point()), torch.float32))
    forms = None
    if factory is None:
        outputs, forms = import_graph(path, root, example, found.tensors, found.aliases)
        if forms.train is None:
            forms = replace(forms, structure=digest.of_json(steps))
    else:
        outputs = run_once(model, example)
    if outputs.ndim < 2:
        raise LaminarError(
            "L204",
            f"the model makes {list(outputs.shape)} of a batch of {len(example)} samples, expected [{len(example)}, outputs]",
            hint="export one that keeps the batch in the first dimension",
        )
    classes = classes or about.get("classes") or [str(i) for i in range(outputs.shape[1])]
    if len(classes) != outputs.shape[1]:
        raise LaminarError(
            "L204", f"the model gives {outputs.shape[1]} outputs, but {len(classes)} classes were named", hint="--classes a,b,c"
        )
    inputs: dict[str, Any] = about.get("input") or {"shape": known_shape, "dtype": "float32", "scale": 1.0}
    task = str(about.get("task", "classification"))
    key_inputs = {"import": digest.of_file(path), "factory": factory, "args": args, "input": inputs}
    said = About(
        stack=stack,
        name=layer,
        key=digest.of_json(key_inputs),
        run="",
        parent=None,
        steps=steps,
        route=f"imported from {path.name}",
        classes=classes if task == "classification" else None,
        task=task,
        input=inputs,
    )
    with store.lease():
        manifest = keep(store, model, example, said, now=clock.now(), forms=forms)
        record = BuildRecord(
            key=said.key,
            id=manifest.id,
            inputs=key_inputs,
            stack=stack,
            name=layer,
            spec={},
            data=None,
            metrics={},
            seconds=0.0,
            created=manifest.created,
            run="",
            provenance=manifest.provenance,
        )
        if factory is not None:
            note_own(store, manifest)  # its graph was traced from the project's code
        store.commit(manifest, record, f"{stack}/{layer}", why=f"import of {path.name}")
    return manifest.id


def _read(path: Path) -> Imported:
    """As `import_file`. A graph that is refused came from a file, not from a remote: it is the file that must be had again."""
    try:
        return import_file(path)
    except LaminarError as error:
        if error.code != "L207":
            raise
        said = error.message if path.name in error.message else f"{path.name}: {error.message}"
        raise LaminarError("L207", said, hint=f"write {path.name} again with torch.export.save, or copy it again") from error


def _model(
    found: Imported, factory: str | None, args: str | None, root: Path, inject: dict[str, Any]
) -> tuple[nn.Module, list[dict[str, Any]]]:
    if factory is None:
        if found.forms is None:
            raise LaminarError(
                "L008",
                "the file holds weights without a model",
                hint='--model models:convnet --args "{ classes = 5 }" says what they belong to',
            )
        with kernels_from(root):
            return load_forms(found.forms.train, found.forms.eval, found.tensors, found.aliases), []
    given = {k: v for k, v in inject.items() if v}
    values = _args(args)
    step = {"factory": factory, "args": values, "known": given, "code": code_of(factory, root, "--model").sources}
    model = make_model(factory, values, root, seed=0, inject=given)
    load_state(model, found.tensors, found.aliases)
    return model, [step]


def _args(text: str | None) -> dict[str, Any]:
    if not text:
        return {}
    try:
        value = tomllib.loads(f"args = {text}")["args"]
    except tomllib.TOMLDecodeError as error:
        raise LaminarError("L008", f"--args {text}: {error}", hint='write a TOML table: --args "{ channels = [16, 32] }"') from None
    if not isinstance(value, dict):
        raise LaminarError("L008", f"--args {text} is no table", hint='--args "{ channels = [16, 32] }"')
    return value


def _shape(text: str | None, about: dict[str, Any]) -> list[int]:
    if text:
        try:
            shape = [int(part) for part in text.split(",")]
            check_input({"shape": shape})
            return shape
        except ValueError:
            raise LaminarError("L008", f"--input {text} is no shape", hint="--input 1,28,28") from None
    shape = about.get("input", {}).get("shape")
    if not shape:
        raise LaminarError("L008", "the file does not say what shape a sample has", hint="--input 1,28,28")
    try:
        check_input({"shape": shape})
    except ValueError as error:
        raise LaminarError("L208", f"the file says of a sample what cannot be: {error}", hint="--input 1,28,28") from None
    return [int(n) for n in shape]


def _about(path: Path, found: Imported) -> dict[str, Any]:
    """What the file says of its samples and classes: our own note, or the sizes in a .pt2's graph."""
    text = found.metadata.get(ABOUT)
    try:
        if path.suffix == ".pt2":
            with zipfile.ZipFile(path) as archive:
                names = archive.namelist()
                notes = [n for n in names if n.endswith(f"/extra/{ABOUT}")]
                if not notes:
                    return _sizes(json.loads(archive.read(next(n for n in names if n.endswith(".json") and "/models/" in n))))
                text = archive.read(notes[0]).decode()
    except (ValueError, KeyError, StopIteration, TypeError, IndexError, RecursionError, OSError, zlib.error, NotImplementedError):
        return {}  # not ours, or not readable: what it does not say must be given
    try:
        note = msgspec.json.decode(text or b"{}", type=_Note)
        if note.input is not None:
            check_input(msgspec.to_builtins(note.input))
    except (ValueError, RecursionError) as error:
        why = "it is nested too deep" if isinstance(error, RecursionError) else error
        raise LaminarError("L208", f"{path.name} has a note of Laminar's that is damaged: {why}", hint="export it again") from None
    return {name: value for name, value in msgspec.to_builtins(note).items() if value is not None}


class _Sample(Input, frozen=True, kw_only=True):
    scale: float | list[float] | None = 1.0


class _Note(msgspec.Struct, frozen=True, kw_only=True):
    """What an exported file says of its layer, as far as an import goes by it."""

    input: _Sample | None = None
    classes: list[str] | None = None
    task: Line | None = None


def _sizes(model: dict[str, Any]) -> dict[str, Any]:
    module = model["graph_module"]
    name = next(s["user_input"]["arg"]["as_tensor"]["name"] for s in module["signature"]["input_specs"] if "user_input" in s)
    return {
        "input": {
            "shape": [size["as_int"] for size in module["graph"]["tensor_values"][name]["sizes"][1:]],
            "dtype": "float32",
            "scale": 1.0,
        }
    }

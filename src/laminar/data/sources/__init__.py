"""Sources: where samples come from. One file a source; `protocol.py` says what a source is.

A source is written `kind` or `kind:rest`. A plug-in adds its own with `register("kind", factory)`, where
factory(spec, rest, root) gives a Source and raises LaminarError L109 for settings it does not know.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from laminar.core.errors import LaminarError
from laminar.core.nearest import did_you_mean

if TYPE_CHECKING:
    from laminar.data.sources.protocol import Source
    from laminar.data.spec import DataSpec

Factory = Callable[["DataSpec", str, Path], "Source"]

# Written as text, so that asking for one source imports that one only.
_FACTORIES: dict[str, str | Factory] = {
    "brodatz": "laminar.data.sources.textures:brodatz",
    "cifar10": "laminar.data.sources.cifar10:Cifar10",
    "csv": "laminar.data.sources.csv:Csv",
    "digits": "laminar.data.sources.digits:Digits",
    "fashion-mnist": "laminar.data.sources.mnist:fashion_mnist",
    "flowers": "laminar.data.sources.flowers:Flowers",
    "folder": "laminar.data.sources.folder:folder",
    "glyphs": "laminar.data.sources.glyphs:Glyphs",
    "hf": "laminar.data.sources.tables:hf",
    "idx": "laminar.data.sources.idx:Idx",
    "index": "laminar.data.sources.index:IndexSource",
    "kth-tips2": "laminar.data.sources.textures:kth_tips2",
    "kylberg": "laminar.data.sources.textures:kylberg",
    "mnist": "laminar.data.sources.mnist:mnist",
    "npy": "laminar.data.sources.arrays:npy",
    "npz": "laminar.data.sources.arrays:npz",
    "parquet": "laminar.data.sources.tables:parquet",
    "python": "laminar.data.sources.python:PythonSource",
    "safetensors": "laminar.data.sources.arrays:safetensors",
}
_SHAPES = {
    "csv": "csv:file.csv",
    "folder": "folder:photos",
    "hf": "hf:folder",
    "index": "index:https://…/index.json[,https://other/index.json]",
    "idx": "idx:folder or idx:images,labels[,test-images,test-labels]",
    "npy": "npy:x.npy,y.npy[,x-test.npy,y-test.npy]",
    "npz": "npz:file.npz",
    "parquet": "parquet:file.parquet or parquet:folder",
    "python": "python:module:function",
    "safetensors": "safetensors:file.safetensors",
}


def kinds() -> list[str]:
    return sorted(_FACTORIES)


def register(kind: str, factory: Factory) -> None:
    _FACTORIES[kind] = factory


def source_of(spec: DataSpec, root: Path) -> Source:
    """The source that `spec.source` names, or the join of several; paths in it are relative to `root`."""
    if not isinstance(spec.source, str):
        from laminar.data.sources.joined import join

        return join(spec, root)
    kind, _, rest = spec.source.partition(":")
    found = _FACTORIES.get(kind)
    if found is None:
        raise LaminarError(
            "L105",
            f"source: there is no data source '{kind}'; {did_you_mean(kind, kinds())}",
            hint="sources: " + ", ".join(_SHAPES.get(k, k) for k in kinds()),
        )
    if isinstance(found, str):
        module, _, name = found.partition(":")
        found = getattr(importlib.import_module(module), name)
    if not rest and kind in _SHAPES:
        raise LaminarError("L109", f"source: '{spec.source}' does not say what to open", hint=f'write it as "{_SHAPES[kind]}"')
    return found(spec, rest, root)

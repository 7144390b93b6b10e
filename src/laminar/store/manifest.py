"""Manifests: what a layer is, what it was made from, and how both are named."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from laminar.core.digest import of_json
from laminar.core.errors import LaminarError
from laminar.store import records

FORMAT: Final = 1


class Delta(msgspec.Struct, frozen=True, kw_only=True):
    """A tensor kept as changes: the whole tensor `base`, then the delta objects `steps`, applied in order (at most 8)."""

    base: str
    steps: tuple[str, ...]

    @property
    def object(self) -> str:
        """The delta that this layer added."""
        return self.steps[-1]


class TensorRef(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A tensor by content: `digest` is the sha256 of its whole file, whether that file is kept or only a delta to it."""

    dtype: str
    shape: tuple[int, ...]
    digest: str
    delta: Delta | None = None

    def objects(self) -> tuple[str, ...]:
        """Every object that must be there to load it."""
        return (self.digest,) if self.delta is None else (self.delta.base, *self.delta.steps)


class Graph(msgspec.Struct, frozen=True, kw_only=True):
    """Objects that hold the exported graph, without weights. `note` says why one is missing."""

    train: str | None = None
    eval: str | None = None
    note: str = ""


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """A layer. Immutable: the file is named by `id`."""

    format: int = FORMAT
    id: str
    name: str
    stack: str
    parent: str | None
    tensors: dict[str, TensorRef]  # every tensor of the model, own or inherited
    aliases: dict[str, str]  # tied tensors: name -> name of the one that is kept
    graph: Graph
    structure: str
    model: dict[str, Any]  # how the model is made: provenance, and used when the project's code is at hand
    classes: list[str] | None
    task: str
    input: dict[str, Any]
    frozen: list[str]
    metrics: dict[str, float]
    key: str
    run: str
    created: float
    seconds: float
    provenance: dict[str, Any]
    notes: list[str] = []

    def objects(self) -> Iterator[str]:
        """Every object this layer needs, possibly more than once."""
        for tensor in self.tensors.values():
            yield from tensor.objects()
        if self.graph.train is not None:
            yield self.graph.train
        if self.graph.eval is not None:
            yield self.graph.eval

    def own_id(self) -> str:
        """The id that the content asks for; equals `id` unless someone meddled."""
        return identity(
            self.tensors, aliases=self.aliases, structure=self.structure, classes=self.classes, input=self.input, task=self.task
        )


class BuildRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One build: the inputs whose sha256 is `key`, and the id that came out."""

    format: int = FORMAT
    key: str
    id: str
    inputs: dict[str, Any]
    stack: str
    name: str
    spec: dict[str, Any]
    data: dict[str, Any] | None
    metrics: dict[str, float]
    seconds: float
    created: float
    run: str
    provenance: dict[str, Any]
    order: dict[str, list[str]] = {}  # of the keys in `spec` and `data` where it is not the alphabet's: records are in that


def identity(
    tensors: Mapping[str, TensorRef],
    *,
    aliases: Mapping[str, str],
    structure: str,
    classes: list[str] | None,
    input: Mapping[str, Any],
    task: str,
) -> str:
    """The id of a layer: a digest of what it computes, not of how or when it was made."""
    return of_json(
        {
            "tensors": {name: tensor.digest for name, tensor in tensors.items()},
            "aliases": dict(aliases),
            "structure": structure,
            "classes": classes,
            "input": dict(input),
            "task": task,
        }
    )


def encode(value: Manifest | BuildRecord) -> bytes:
    """The record's bytes, with their check."""
    return records.dump(msgspec.to_builtins(value))


_MANIFEST: Final = msgspec.json.Decoder(Manifest)
_BUILD: Final = msgspec.json.Decoder(BuildRecord)


def decode_manifest(data: bytes, where: object) -> Manifest:
    """A manifest from a record's bytes: its check, its shape and its id are proved; L303 if one does not hold."""
    try:
        manifest = _MANIFEST.decode(records.body(data))
    except (records.BadRecord, msgspec.DecodeError) as error:
        raise LaminarError("L303", f"{where} is corrupt: {error}", hint="laminar verify --repair") from None
    _known(manifest.format, where)
    return manifest


def decode_record(data: bytes, where: object) -> BuildRecord:
    try:
        record = _BUILD.decode(records.body(data))
    except (records.BadRecord, msgspec.DecodeError) as error:
        raise LaminarError("L303", f"{where} is corrupt: {error}", hint="laminar verify --repair") from None
    _known(record.format, where)
    return record


def _known(format: int, where: object) -> None:
    if format > FORMAT:
        raise LaminarError("L306", f"{where} has format {format}; this Laminar reads up to {FORMAT}", hint="pip install -U laminar-train")

"""Manifests: what a layer is, what it was made from, and how both are named.

Both kinds of record may come from a stranger. What becomes a path or a name is of a type that admits nothing else (names.py); the tables
that only people and programs of the same author read (`model`, `provenance`, `inputs`) are any JSON.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta

from laminar.core.digest import of_json
from laminar.core.errors import LaminarError
from laminar.store import records
from laminar.store.names import Digest, Line, Moment, Part, Run
from laminar.store.raw import SIZES

FORMAT: Final = 1
LARGEST: Final = 1 << 31
"""Numbers of one sample: more is a trap for the memory of whoever asks the layer something."""

Dtype = Annotated[str, Meta(pattern=rf"\A(?:{'|'.join(SIZES)})\Z")]
Shape = Annotated[tuple[Annotated[int, Meta(ge=0, le=1 << 48)], ...], Meta(max_length=64)]


class Delta(msgspec.Struct, frozen=True, kw_only=True):
    """A tensor kept as changes: the whole tensor `base`, then the delta objects `steps`, applied in order (at most 8)."""

    base: Digest
    steps: Annotated[tuple[Digest, ...], Meta(min_length=1, max_length=64)]

    @property
    def object(self) -> str:
        """The delta that this layer added."""
        return self.steps[-1]


class TensorRef(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A tensor by content: `digest` is the sha256 of its whole file, whether that file is kept or only a delta to it."""

    dtype: Dtype
    shape: Shape
    digest: Digest
    delta: Delta | None = None

    def objects(self) -> tuple[str, ...]:
        """Every object that must be there to load it."""
        return (self.digest,) if self.delta is None else (self.delta.base, *self.delta.steps)


class Graph(msgspec.Struct, frozen=True, kw_only=True):
    """Objects that hold the exported graph, without weights. `note` says why one is missing."""

    train: Digest | None = None
    eval: Digest | None = None
    note: str = ""


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """A layer. Immutable: the file is named by `id`."""

    format: int = FORMAT
    id: Digest
    name: Part
    stack: Part
    parent: Digest | None
    tensors: dict[str, TensorRef]  # every tensor of the model, own or inherited
    aliases: dict[str, str]  # tied tensors: name -> name of the one that is kept
    graph: Graph
    structure: Line
    model: dict[str, Any]  # how the model is made: provenance, and used when the project's code is at hand
    classes: list[str] | None
    task: Line
    input: dict[str, Any]
    frozen: list[str]
    metrics: dict[str, float]
    key: Digest
    run: Run
    created: Moment
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
    key: Digest
    id: Digest
    inputs: dict[str, Any]
    stack: Part
    name: Part
    spec: dict[str, Any]
    data: dict[str, Any] | None
    metrics: dict[str, float]
    seconds: float
    created: Moment
    run: Run
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
    """A manifest from a record's bytes: its check and the types of its fields are proved; L303 if one does not hold.

    That the id is the one of the content is for the caller to see (`own_id`): it costs a digest of all.
    """
    with _explaining(where):
        manifest = _MANIFEST.decode(records.body(data))
        check_input(manifest.input)
    _known(manifest.format, where)
    return manifest


def decode_record(data: bytes, where: object) -> BuildRecord:
    with _explaining(where):
        record = _BUILD.decode(records.body(data))
    _known(record.format, where)
    return record


def decode_foreign_manifest(data: bytes, where: object) -> Manifest:
    """As `decode_manifest`, of bytes that a stranger may have written; that the id is the one of the content is proved too."""
    with _explaining(where):
        records.must_be_shallow(data)
        manifest = decode_manifest(data, where)
        if manifest.own_id() != manifest.id:
            raise ValueError(f"it calls itself {manifest.id}, but its content is {manifest.own_id()}")
    return manifest


def decode_foreign_record(data: bytes, where: object) -> BuildRecord:
    with _explaining(where):
        records.must_be_shallow(data)
        return decode_record(data, where)


class Input(msgspec.Struct, frozen=True, kw_only=True):
    """What a layer takes for a sample, as far as it is said; more may be said beside it."""

    shape: Shape
    dtype: Annotated[str, Meta(pattern=r"\A(?:bool|u?int(?:8|16|32|64)|b?float(?:16|32|64)|complex(?:64|128))\Z")] = "float32"


def check_input(given: Mapping[str, Any]) -> None:
    """ValueError where `input` of a manifest, which stays as it was written because the id is made of it, is not an Input."""
    if math.prod(msgspec.convert(given, Input).shape) > LARGEST:
        raise ValueError(f"a sample of more than {LARGEST:,} numbers")


@contextlib.contextmanager
def _explaining(where: object) -> Iterator[None]:
    """L303 for whatever a decoder throws at bytes that nobody of us wrote."""
    try:
        yield
    except (ValueError, RecursionError) as error:  # BadRecord and msgspec's own are ValueErrors
        why = "it is nested too deep" if isinstance(error, RecursionError) else error
        raise LaminarError("L303", f"{where} is corrupt: {why}", hint="laminar verify --repair") from None


def _known(format: int, where: object) -> None:
    if format > FORMAT:
        raise LaminarError("L306", f"{where} has format {format}; this Laminar reads up to {FORMAT}", hint="pip install -U laminar-train")

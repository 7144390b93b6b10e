"""What a graph is after reading: plain values, no torch symbols, no code."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal


@dataclass(frozen=True)
class Ref:
    """A value of the graph, by name (flat form) or by slot number (in a body)."""

    name: str | int


@dataclass(frozen=True)
class Attr:
    """A tensor of the model: a parameter or buffer by its dotted name, or a constant by the digest of its content."""

    kind: Literal["parameter", "buffer", "constant"]
    name: str


@dataclass(frozen=True)
class Spec:
    """How a nest of tuples, lists and dicts holds its leaves."""

    kind: Literal["leaf", "tuple", "list", "dict"]
    keys: tuple[str, ...] = ()
    parts: tuple[Spec, ...] = ()

    @property
    def leaves(self) -> int:
        return 1 if self.kind == "leaf" else sum(part.leaves for part in self.parts)

    def build(self, leaves: list[Any]) -> Any:
        """The nest, with its leaves taken from the front of `leaves`."""
        if self.kind == "leaf":
            return leaves.pop(0)
        made = [part.build(leaves) for part in self.parts]
        if self.kind == "dict":
            return dict(zip(self.keys, made, strict=True))
        return tuple(made) if self.kind == "tuple" else made

    def flatten(self, value: Any) -> list[Any]:
        """The leaves of a nest of this shape; ValueError for another shape."""
        if self.kind == "leaf":
            return [value]
        if self.kind == "dict":
            if not isinstance(value, dict) or set(value) != set(self.keys):
                raise ValueError(f"expected the names {list(self.keys)}")
            parts = [value[key] for key in self.keys]
        else:
            if not isinstance(value, list | tuple) or len(value) != len(self.parts):
                raise ValueError(f"expected {len(self.parts)} values")
            parts = list(value)
        return [leaf for part, item in zip(self.parts, parts, strict=True) for leaf in part.flatten(item)]


LEAF = Spec("leaf")


@dataclass(frozen=True)
class Node:
    """One operator. `stack` are the module calls it happened in, outermost first, the model itself left out."""

    @property
    def calls(self) -> tuple[Call, ...]:
        return self.stack or ()

    target: str
    args: tuple[Any, ...]
    kwargs: tuple[tuple[str, Any], ...]
    outs: tuple[str | None, ...]  # names of the results; None for one that nobody uses
    listed: bool  # the one result is a list, and `outs` are its items
    stack: tuple[Call, ...] | None  # None while reading only: tracing lost it
    grad: bool | None = None  # gradients switched on or off around it; None: as they are


@dataclass(frozen=True)
class Call:
    """The nth call (from 0) of the module at a path."""

    path: str
    number: int = 0


@dataclass(frozen=True)
class Signature:
    """What a module was called with and gave back, as it was written in Python."""

    inputs: tuple[Any, ...]
    in_spec: Spec
    outputs: tuple[Any, ...]
    out_spec: Spec


@dataclass
class Flat:
    """A whole graph as a list of operators."""

    signature: Signature  # of the model itself
    tensors: dict[str, Attr]  # placeholder -> the model's tensor
    persistent: dict[str, bool]  # buffers
    nodes: list[Node]
    dims: dict[str, tuple[str | int, ...]]  # of every tensor value; a str names an unknown size (compared, never evaluated)
    calls: dict[Call, Signature] = field(default_factory=dict)
    mutated: dict[str, str] = field(default_factory=dict)  # buffer -> the value that becomes its content


@dataclass(frozen=True)
class Step:
    """An operator inside a body: results go to slots."""

    target: str
    args: tuple[Any, ...]
    kwargs: tuple[tuple[str, Any], ...]
    outs: tuple[int | None, ...]
    listed: bool
    grad: bool | None = None


@dataclass(frozen=True)
class Enter:
    """A module call inside a body. `more_*` are values that pass beside its arguments and results."""

    call: Call
    signature: Signature
    outs: tuple[int | None, ...]
    more_in: tuple[Any, ...] = ()
    more_out: tuple[int, ...] = ()
    grad: bool | None = None


@dataclass(frozen=True)
class Body:
    """What one module does when called: inputs in slots, steps, outputs."""

    in_spec: Spec
    inputs: tuple[int | None, ...]  # slot of every leaf
    more_in: tuple[int, ...]
    steps: tuple[Step | Enter, ...]
    outputs: tuple[Any, ...]
    out_spec: Spec
    more_out: tuple[int, ...]
    writes: tuple[tuple[str, Any], ...]  # buffers that get a new tensor at the end
    slots: int


@dataclass
class Tree:
    """A whole graph as bodies of modules: path -> the body of each of its calls."""

    bodies: dict[str, list[Body]]
    flat: Flat

"""Rules: requirements on arguments that an operator does not check itself. graph_operators.py lists the rules of each operator.

A rule gets a function that returns an argument by its name in the operator's schema (None for one that is left out). It returns a
complaint, or None. Shapes may be symbolic, because models are traced through these rules; contents are checked in real calls only.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

Get = Callable[[str], Any]
Rule = Callable[[Get], str | None]


def channels(of: str, *names: str) -> Rule:
    """Each of `names` that is given has one number for every channel (dimension 1) of the tensor `of`."""

    def rule(get: Get) -> str | None:
        tensor = get(of)
        if tensor.dim() < 2:
            return f"{of} has no channels: its shape is {_shape(tensor)}"
        for name in names:
            numbers = get(name)
            if numbers is not None and (numbers.dim() != 1 or numbers.shape[0] != tensor.shape[1]):
                return f"{name} has shape {_shape(numbers)}, but {of} has {tensor.shape[1]} channels"
        return None

    return rule


def given(*names: str, unless: str) -> Rule:
    """None of `names` may be left out, unless the flag `unless` is set."""

    def rule(get: Get) -> str | None:
        missing = [] if get(unless) is True else [name for name in names if get(name) is None]
        return f"{missing[0]} is left out, and {unless} is not set" if missing else None

    return rule


def like(name: str, other: str) -> Rule:
    """`name` has the shape and dtype of `other`."""

    def rule(get: Get) -> str | None:
        tensor, model = get(name), get(other)
        if tensor.shape != model.shape or tensor.dtype != model.dtype:
            return f"{name} has shape {_shape(tensor)} and {tensor.dtype}, {other} has {_shape(model)} and {model.dtype}"
        return None

    return rule


def real(*names: str) -> Rule:
    """No tensor of complex numbers among `names`."""

    def rule(get: Get) -> str | None:
        for name in names:
            tensor = get(name)
            if isinstance(tensor, Tensor) and tensor.is_complex():
                return f"{name} holds complex numbers"
        return None

    return rule


def not_empty(name: str) -> Rule:
    def rule(get: Get) -> str | None:
        return f"{name} is empty: its shape is {_shape(get(name))}" if 0 in get(name).shape else None

    return rule


def contiguous(*names: str) -> Rule:
    """Each tensor among `names` must be contiguous."""

    def rule(get: Get) -> str | None:
        for name in names:
            tensor = get(name)
            if tensor is not None and not tensor.is_contiguous():
                return f"{name} is not contiguous in memory"
        return None

    return rule


def sized(weight: str, size: str) -> Rule:
    """The last dimensions of a weight are those that the argument `size` says once more."""

    def rule(get: Get) -> str | None:
        tensor, wanted = get(weight), get(size)
        if not isinstance(wanted, list | tuple) or list(tensor.shape[2:]) != list(wanted):
            return f"{weight} has shape {_shape(tensor)}, but {size} is {wanted}"
        return None

    return rule


def weight_norm(get: Get) -> str | None:
    """`g` has one number for each slice of `v` along `dim`; one number in all where `dim` is -1."""
    v, g, dim = get("v"), get("g"), get("dim")
    dim = 0 if dim is None else dim
    if dim == -1 and g.dim() == 0:
        return None
    if not 0 <= dim < v.dim():
        return f"dim is {dim}, but v has {v.dim()} dimensions"
    wanted = [size if i == dim else 1 for i, size in enumerate(v.shape)]
    return None if list(g.shape) == wanted else f"g has shape {_shape(g)}, expected {wanted} for v of shape {_shape(v)}"


def attends(get: Get) -> str | None:
    """Query, key and value have batch, heads and width in common, key and value their length; a mask fits or can be expanded."""
    query, key, value, mask = get("query"), get("key"), get("value"), get("attn_mask")
    if any(tensor.dim() != 4 for tensor in (query, key, value)):
        return "query, key and value need four dimensions"
    if 0 in (*query.shape, *key.shape):
        return "query or key is empty"
    if key.shape != value.shape or query.shape[:2] != key.shape[:2] or query.shape[3] != key.shape[3]:
        return f"query, key and value have shapes {_shape(query)}, {_shape(key)} and {_shape(value)}"
    if not query.dtype == key.dtype == value.dtype or not query.is_floating_point():
        return f"query, key and value have {query.dtype}, {key.dtype} and {value.dtype}"
    if mask is not None:
        full = (query.shape[0], query.shape[1], query.shape[2], key.shape[2])
        fits = mask.dim() in (2, 4) and all(size in (1, most) for size, most in zip(mask.shape[::-1], full[::-1], strict=False))
        if not fits:
            return f"attn_mask has shape {_shape(mask)}, expected one that expands to {list(full)}"
    return None


def groups_of_heads(get: Get) -> str | None:
    """Where several heads of a query share one of a key, their number is a multiple of it."""
    query, key, value = get("query"), get("key"), get("value")
    if not get("enable_gqa"):
        return None
    if min(query.dim(), key.dim(), value.dim()) < 3 or 0 in (key.shape[-3], value.shape[-3]):
        return f"query, key and value have shapes {_shape(query)}, {_shape(key)} and {_shape(value)}, which have no heads to share"
    return None


def bags(get: Get) -> str | None:
    """Offsets begin at 0, never fall, and end within the indices; indices are rows of the weight."""
    weight, indices, offsets = get("weight"), get("indices"), get("offsets")
    weights = get("per_sample_weights")
    if weight.dim() != 2 or indices.dim() != 1 or offsets.dim() != 1:
        return f"weight, indices and offsets have shapes {_shape(weight)}, {_shape(indices)} and {_shape(offsets)}"
    if weights is not None and weights.shape != indices.shape:
        return f"per_sample_weights has shape {_shape(weights)}, indices {_shape(indices)}"
    if torch.compiler.is_compiling():
        return None
    rows, starts, count = indices.tolist(), offsets.tolist(), indices.shape[0]
    if any(not 0 <= row < weight.shape[0] for row in rows):
        return f"an index is out of range for the {weight.shape[0]} rows of weight"
    ends = [*starts[1:], count]
    if (starts and starts[0] != 0) or any(not a <= b <= count for a, b in zip(starts, ends, strict=True)):
        return f"offsets do not divide the {count} indices"
    if get("include_last_offset") is True and (not starts or starts[-1] != count):
        return f"the last of offsets is not {count}, the number of indices"
    return None


def recurrent(gates: int) -> Rule:
    """Weights, biases and states of a recurrent network have the shapes that its input and its number of layers ask for."""

    def rule(get: Get) -> str | None:
        x, states, tensors, layers = get("input"), get("hx"), get("params"), get("num_layers")
        states = [states] if isinstance(states, Tensor) else list(states)
        ways, each = 2 if get("bidirectional") else 1, 4 if get("has_biases") else 2
        projected = gates == 4 and len(tensors) == layers * ways * (each + 1)
        each += projected
        if x.dim() != 3 or not 0 < layers <= len(tensors) or len(tensors) != layers * ways * each:
            return f"{len(tensors)} tensors for {layers} layers, and an input of shape {_shape(x)}"
        if any(tensor.dtype != x.dtype for tensor in (*tensors, *states)) or not x.is_floating_point():
            return f"its tensors are not all of the input's {x.dtype}"
        if tensors[0].dim() != 2 or tensors[1].dim() != 2:
            return f"weights have shapes {_shape(tensors[0])} and {_shape(tensors[1])}"
        given_out = tensors[1].shape[1]
        hidden = tensors[each - 1].shape[-1] if projected else given_out
        for cell in range(layers * ways):
            takes = x.shape[2] if cell < ways else given_out * ways
            wanted = [(gates * hidden, takes), (gates * hidden, given_out), *[(gates * hidden,)] * (2 if get("has_biases") else 0)]
            wanted += [(given_out, hidden)] if projected else []
            complaint = _shapes_differ(tensors[cell * each : (cell + 1) * each], wanted)
            if complaint:
                return complaint
        batch = x.shape[0 if get("batch_first") else 1]
        return _shapes_differ(states, [(layers * ways, batch, given_out), (layers * ways, batch, hidden)][: 2 if gates == 4 else 1])

    return rule


def aligned_scales(get: Get) -> str | None:
    """A scale that is said beside the size of the output is the one that gives this size."""
    x, sizes = get("input"), get("output_size")
    for name, dimension in (("scales_h", -2), ("scales_w", -1)):
        scale = get(name)
        if scale is not None and (x.dim() != 4 or not math.isfinite(scale) or math.floor(x.shape[dimension] * scale) != sizes[dimension]):
            return f"{name} is {scale}, which does not make an output of {list(sizes)} of an input of {_shape(x)}"
    return None


def _shapes_differ(tensors: Sequence[Tensor], wanted: Sequence[tuple[int, ...]]) -> str | None:
    if len(tensors) != len(wanted):
        return f"{len(tensors)} tensors where {len(wanted)} are needed"
    for tensor, shape in zip(tensors, wanted, strict=True):
        if tuple(tensor.shape) != shape:
            return f"a tensor has shape {_shape(tensor)}, expected {list(shape)}"
    return None


def _shape(tensor: Tensor) -> list[int]:
    return list(tensor.shape)

"""Weights: torch tensors to and from the store's raw tensors, without a copy where memory allows, and tied tensors kept once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import torch
from torch import Tensor, nn

from laminar.core.errors import LaminarError
from laminar.core.nearest import nearest
from laminar.store.raw import RawTensor

# safetensors' names. Bytes are moved as they are, so a dtype that this processor cannot compute in is kept all the same.
DTYPES: Final[dict[str, torch.dtype]] = {
    "F64": torch.float64,
    "F32": torch.float32,
    "F16": torch.float16,
    "BF16": torch.bfloat16,
    "I64": torch.int64,
    "I32": torch.int32,
    "I16": torch.int16,
    "I8": torch.int8,
    "U64": torch.uint64,
    "U32": torch.uint32,
    "U16": torch.uint16,
    "U8": torch.uint8,
    "BOOL": torch.bool,
    "F8_E4M3": torch.float8_e4m3fn,
    "F8_E5M2": torch.float8_e5m2,
    "F8_E8M0": torch.float8_e8m0fnu,
    "C64": torch.complex64,
}
NAMES: Final[dict[torch.dtype, str]] = {dtype: name for name, dtype in DTYPES.items()}


def to_raw(tensor: Tensor, name: str = "tensor") -> RawTensor:
    """A view of the tensor's memory (a copy only if it is not contiguous or not on the CPU). It lives as long as the view."""
    if tensor.dtype not in NAMES or tensor.layout is not torch.strided or tensor.is_quantized:
        kind = tensor.dtype if tensor.layout is torch.strided else tensor.layout
        raise LaminarError(
            "L202",
            f"'{name}' is a tensor of {kind}, which cannot be kept; expected one of {', '.join(DTYPES)}",
            hint="convert it in the factory, e.g. to float32",
        )
    return RawTensor(dtype=NAMES[tensor.dtype], shape=tuple(tensor.shape), data=raw_bytes(tensor))


def raw_bytes(tensor: Tensor) -> memoryview:
    """The tensor's bytes in row-major order, little-endian as the processor has them."""
    plain = tensor.detach().resolve_conj().resolve_neg().cpu().contiguous()
    if not plain.numel():
        return memoryview(b"")
    return memoryview(plain.reshape(-1).view(torch.uint8).numpy())  # type: ignore[arg-type]  # numpy arrays are buffers


def from_raw(raw: RawTensor) -> Tensor:
    """A tensor over the raw tensor's memory (a copy only if that memory is read-only)."""
    dtype = DTYPES.get(raw.dtype)
    if dtype is None:
        raise LaminarError("L205", f"unknown dtype {raw.dtype}; expected one of {', '.join(DTYPES)}", hint="pip install -U laminar-train")
    view = memoryview(raw.data).cast("B")
    if not view.nbytes:
        return torch.empty(raw.shape, dtype=dtype)
    if view.readonly:
        view = memoryview(bytearray(view))
    return torch.frombuffer(view, dtype=dtype).view(raw.shape)


def state(model: nn.Module) -> tuple[dict[str, Tensor], dict[str, str]]:
    """Every tensor of the model's state_dict once, by name, and `aliases`: the other names of tied tensors -> the name kept."""
    tensors: dict[str, Tensor] = {}
    aliases: dict[str, str] = {}
    seen: dict[tuple[Any, ...], str] = {}
    for name, value in model.state_dict(keep_vars=True).items():
        if not isinstance(value, Tensor):
            continue  # get_extra_state(): what is no tensor cannot be kept without pickle
        place = _place(value)
        if place is not None and place in seen:
            aliases[name] = seen[place]
            continue
        if place is not None:
            seen[place] = name
        tensors[name] = value.detach()
    return tensors, aliases


def raw_state(model: nn.Module) -> tuple[dict[str, RawTensor], dict[str, str]]:
    """state() as the store takes it."""
    tensors, aliases = state(model)
    return {name: to_raw(tensor, name) for name, tensor in tensors.items()}, aliases


def tensors_of(raws: Mapping[str, RawTensor], aliases: Mapping[str, str] | None = None) -> dict[str, Tensor]:
    """What the store gives, as torch tensors; an alias is the very same tensor."""
    found = {name: from_raw(raw) for name, raw in raws.items()}
    for name, kept in (aliases or {}).items():
        found[name] = found[kept]
    return found


@torch.no_grad()
def load_state(model: nn.Module, tensors: Mapping[str, Tensor | RawTensor], aliases: Mapping[str, str] | None = None) -> None:
    """Copy `tensors` into the model. Names, shapes and dtypes must fit exactly (L205); tied tensors may come under any of their names."""
    given = {name: value if isinstance(value, Tensor) else from_raw(value) for name, value in tensors.items()}
    for name, kept in (aliases or {}).items():
        if name not in given and kept in given:
            given[name] = given[kept]
    own = {name: value for name, value in model.state_dict(keep_vars=True).items() if isinstance(value, Tensor)}
    _, own_aliases = state(model)
    for name, kept in own_aliases.items():
        if kept not in given and name in given:
            given[kept] = given[name]
        if name not in given and kept in given:
            given[name] = given[kept]
    _compare(own, given)
    for name, value in own.items():
        value.copy_(given[name])


def _compare(own: Mapping[str, Tensor], given: Mapping[str, Tensor]) -> None:
    missing = [name for name in own if name not in given]
    extra = [name for name in given if name not in own]
    if missing or extra:
        said = []
        if missing:
            best = nearest(missing[0], extra)
            said.append(
                f"the model wants '{missing[0]}'"
                + (f" (nearest there: '{best}')" if best else "")
                + f", {_more(missing)}which is not there"
            )
        if extra:
            said.append(f"there is '{extra[0]}', {_more(extra)}which the model has not")
        raise LaminarError(
            "L205", "; ".join(said), hint="use the factory and args that the weights were trained with, then replace modules"
        )
    for name, value in own.items():
        other = given[name]
        if value.shape != other.shape or value.dtype != other.dtype:
            raise LaminarError(
                "L205",
                f"'{name}' is {_kind(other)} in the layer and {_kind(value)} in the model",
                hint="use the factory and args that the weights were trained with, then replace modules",
            )


def _place(tensor: Tensor) -> tuple[Any, ...] | None:
    """Where the tensor lies in memory; None for an empty one, which lies nowhere."""
    if not tensor.numel() or tensor.layout is not torch.strided:
        return None
    return (tensor.device, tensor.untyped_storage().data_ptr(), tensor.storage_offset(), tuple(tensor.shape), tensor.stride(), tensor.dtype)


def _kind(tensor: Tensor) -> str:
    return f"{NAMES.get(tensor.dtype, str(tensor.dtype))}{list(tensor.shape)}"


def _more(names: list[str]) -> str:
    return f"with {len(names) - 1} more, " if len(names) > 1 else ""

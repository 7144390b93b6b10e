"""Freeze: frozen modules run as in evaluation, get no gradient, and their tensors are proved unchanged.

`requires_grad=False` alone would let BatchNorm go on collecting statistics and normalising by its batch mates, so frozen means
eval() as well; `model.train()` undoes that, so keep() is called after each of them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from typing import final

import torch
from torch import Tensor, nn

from laminar.core.errors import LaminarError
from laminar.model.paths import expand
from laminar.model.weights import raw_bytes


@final
class Frozen:
    """The frozen modules of one model."""

    def __init__(self, model: nn.Module, written: Sequence[str], expanded: Sequence[str]) -> None:
        self.model = model
        self.written = list(written)  # as in laminar.toml, globs included
        self.paths = list(expanded)
        # What the author's code would train: graph_export writes the model down as it is without our freezing.
        self.trainable = {name for name, p in model.named_parameters(remove_duplicate=False) if p.requires_grad}
        self._before: dict[str, str] | None = None

    def modules(self) -> Iterator[nn.Module]:
        for path in self.paths:
            yield self.model.get_submodule(path)

    def covers(self, name: str) -> bool:
        """Is the module or tensor called `name` inside a frozen module?"""
        return any(name == path or name.startswith(path + ".") for path in self.paths)

    def tensors(self) -> dict[str, Tensor]:
        """Parameters and buffers (those that are not saved, too) of the frozen modules, by their name in the model."""
        every = [*self.model.named_parameters(remove_duplicate=False), *self.model.named_buffers(remove_duplicate=False)]
        return {name: tensor for name, tensor in every if self.covers(name)}

    def keep(self) -> None:
        """Frozen again, after model.train() or model.requires_grad_() made it otherwise."""
        for module in self.modules():
            module.eval()
            module.requires_grad_(False)

    def digest(self) -> dict[str, str]:
        """sha256 of every frozen tensor. The first call is what check() compares with."""
        found = {name: _digest(tensor) for name, tensor in self.tensors().items()}
        if self._before is None:
            self._before = found
        return found

    def compare_from_now_on(self) -> None:
        """Its tensors were replaced, by parts of them: check() goes by these."""
        self._before = None
        self.digest()

    def check(self, before: Mapping[str, str] | None = None) -> None:
        """L602 unless every frozen tensor is what it was when digest() was first called (or as in `before`)."""
        expected = before if before is not None else self._before
        if expected is None:
            raise ValueError("check() without a digest() before it")
        now = {name: _digest(tensor) for name, tensor in self.tensors().items()}
        changed = sorted(name for name in expected.keys() | now.keys() if expected.get(name) != now.get(name))
        if changed:
            more = f" and {len(changed) - 1} more" if len(changed) > 1 else ""
            raise LaminarError(
                "L602",
                f"the frozen tensor '{changed[0]}'{more} changed during training: frozen are {', '.join(self.written)}",
                hint="forward() writes to it, or it shares memory with a trained tensor: take it out of freeze, or correct the model",
            )


def freeze(model: nn.Module, wanted: Sequence[str]) -> Frozen:
    """Freeze the modules at the paths (or globs) `wanted` of `model`."""
    expanded = expand(model, wanted, what="freeze")
    inside = {id(part) for path in expanded for part in model.get_submodule(path).modules()}
    expanded += [path for path, part in model.named_modules(remove_duplicate=False) if id(part) in inside and path not in expanded]
    frozen = Frozen(model, wanted, expanded)
    _refuse_shared(frozen)
    frozen.keep()
    return frozen


def _refuse_shared(frozen: Frozen) -> None:
    """A tensor cannot be frozen under one name and trained under another."""
    every = [*frozen.model.named_parameters(remove_duplicate=False), *frozen.model.named_buffers(remove_duplicate=False)]
    inside: dict[int, str] = {}
    for name, tensor in every:
        if frozen.covers(name) and tensor.numel():
            inside.setdefault(tensor.untyped_storage().data_ptr(), name)
    for name, tensor in every:
        if tensor.numel() and not frozen.covers(name) and (other := inside.get(tensor.untyped_storage().data_ptr())) is not None:
            module = name.rpartition(".")[0] or "the model itself"
            raise LaminarError(
                "L203",
                f"freeze: '{other}' is the same tensor as '{name}' (tied weights), which is not frozen: "
                "one tensor cannot be frozen and trained at once",
                hint=f"freeze '{module}' as well, or leave '{other.rpartition('.')[0]}' unfrozen",
            )


@torch.no_grad()
def _digest(tensor: Tensor) -> str:
    head = f"{tensor.dtype}{tuple(tensor.shape)}".encode()
    state = hashlib.sha256(head)
    state.update(raw_bytes(tensor))
    return state.hexdigest()

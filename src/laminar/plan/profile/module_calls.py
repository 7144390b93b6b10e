"""Module calls: a model is run once, and its innermost modules say what goes into them, in their order, and what they keep.

Innermost is a module that calls no other while it runs: MultiheadAttention has another one inside, and never calls it. What is computed
and kept beside these calls belongs to nobody.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import cache
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from laminar.parallel.split.prepare import some_samples
from laminar.plan.profile.model_code import code_of, plain_name
from laminar.plan.profile.passes import in_training, loss_of_job, targets_of
from laminar.plan.profile.unchanged import unchanged
from laminar.train import dtype
from laminar.train.job import Job
from laminar.train.snapshot import trainable


@dataclass(frozen=True)
class Call:
    """Of a module; one that is called twice has two."""

    path: str
    kind: str  # its class
    key: Mapping[str, Any]  # all that its time depends on, but for threads, torch and the machine
    given: int  # bytes of what it gives
    kept: int  # bytes that stay until its backward pass
    trained: tuple[int, ...]  # numbers of the trained tensors that it has, as the model has them in order


class Example(NamedTuple):
    """A module with what went into it."""

    module: nn.Module
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    learns: tuple[bool, ...]  # of each tensor of both: does a gradient of it go back?


@dataclass
class Recorded:
    calls: list[Call] = field(default_factory=list)
    examples: list[Example] = field(default_factory=list)  # of each call; equal keys have one
    kept: int = 0  # bytes beside all calls

    @property
    def kinds(self) -> int:
        return len({id(one) for one in self.examples})


@dataclass
class _Frame:
    path: str
    example: Example
    kept: int = 0
    calls_others: bool = False


def record(job: Job, rows: int) -> Recorded:
    """Of one pass of so many rows, there, with the loss. The job is afterwards what it was."""
    with unchanged(job), ExitStack() as held:
        in_training(job)
        watch = _Watch(job)
        for path, module in job.fit_route.module.named_modules():
            held.callback(module.register_forward_pre_hook(watch.enters(path), with_kwargs=True).remove)
            held.callback(module.register_forward_hook(watch.leave).remove)
        held.enter_context(dtype.autocast(job.recipe.dtype))
        held.enter_context(torch.autograd.graph.saved_tensors_hooks(watch.keep, lambda one: one))
        loss_of_job(job)(job.fit_route.module(*some_samples(job, rows)), targets_of(job, rows))
    return watch.found


class _Watch:
    def __init__(self, job: Job) -> None:
        self.found, self._open = Recorded(), list[_Frame]()
        self._number = {id(one): number for number, one in enumerate(trainable(job.model).values())}
        self._own = {one.untyped_storage().data_ptr() for one in [*job.model.parameters(), *job.model.buffers()]}
        self._there: dict[int, Tensor] = {}  # by its place in memory, and so that no memory is used twice
        self._dtype, self._first = job.recipe.dtype, dict[str, Example]()

    def enters(self, path: str) -> Any:
        def enter(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
            if self._open:
                self._open[-1].calls_others = True
            learns = tuple(one.requires_grad for one in tensors_in([args, kwargs]))
            own_args, own_kwargs = mapped((args, kwargs), lambda one: one.detach())
            self._open.append(_Frame(path, Example(module, own_args, own_kwargs, learns)))

        return enter

    def leave(self, module: nn.Module, _args: tuple[Any, ...], gives: Any) -> None:
        frame = self._open.pop()
        if frame.calls_others:
            self.found.kept += frame.kept
            return
        key = key_of(frame.example, self._dtype)
        trained = sorted({self._number[id(one)] for one in module.parameters() if id(one) in self._number})
        given = sum(one.nbytes for one in tensors_in(gives))
        self.found.calls.append(Call(frame.path, type(module).__name__, key, given, frame.kept, tuple(trained)))
        self.found.examples.append(self._first.setdefault(repr(key), frame.example))  # inputs of others are not held

    def keep(self, tensor: Tensor) -> Tensor:
        place = tensor.untyped_storage().data_ptr()
        if place not in self._own and place not in self._there:
            self._there[place] = tensor.detach()
            size = tensor.untyped_storage().nbytes()
            if self._open:
                self._open[-1].kept += size
            else:
                self.found.kept += size
        return tensor


def key_of(example: Example, precision: str) -> dict[str, Any]:
    """Equal where a module of the same kind and settings, on inputs of the same shapes, would be timed."""
    module = example.module
    kinds = tuple(sorted({type(one) for one in module.modules()}, key=lambda one: (one.__module__, one.__qualname__)))
    tensors = [*module.named_parameters(), *module.named_buffers()]
    return {
        "what": "module",
        "type": f"{plain_name(type(module).__module__)}.{type(module).__qualname__}",
        "code": _code(kinds),
        "settings": str(module),
        "plain": {name: repr(value) for name, value in sorted(vars(module).items()) if not name.startswith("_") and _plain(value)},
        "tensors": [[name, list(one.shape), str(one.dtype), one.requires_grad] for name, one in tensors],
        "inputs": _described([list(example.args), example.kwargs]),
        "learns": list(example.learns),
        "precision": precision,
    }


@cache
def _code(kinds: tuple[type, ...]) -> str:
    return code_of(kinds)


def _plain(value: Any) -> bool:
    if isinstance(value, list | tuple):
        return all(map(_plain, value))
    return value is None or isinstance(value, str | int | float | bool | torch.dtype)


def _described(value: Any) -> Any:
    if isinstance(value, Tensor):
        return {"shape": list(value.shape), "dtype": str(value.dtype), "strides": list(value.stride())}
    if isinstance(value, list | tuple):
        return [_described(one) for one in value]
    if isinstance(value, dict):
        return {str(name): _described(one) for name, one in value.items()}
    return repr(value) if _plain(value) else type(value).__name__


def mapped(value: Any, make: Any) -> Any:
    """With what `make` makes of every tensor in it."""
    if isinstance(value, Tensor):
        return make(value)
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(mapped(one, make) for one in value))
    if isinstance(value, list | tuple):
        return type(value)(mapped(one, make) for one in value)
    if isinstance(value, dict):
        return {name: mapped(one, make) for name, one in value.items()}
    return value


def tensors_in(value: Any) -> list[Tensor]:
    """All of them, however deep."""
    if isinstance(value, Tensor):
        return [value]
    some = value.values() if isinstance(value, dict) else value if isinstance(value, list | tuple) else ()
    return [tensor for one in some for tensor in tensors_in(one)]

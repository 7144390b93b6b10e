"""Fit: does the model take these samples, and does it give as many outputs as the data wants?"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any, Final

import torch
from torch import Tensor, nn

from laminar.core.errors import LaminarError
from laminar.model.author_errors import last_line, raised_at
from laminar.model.modes import evaluating

_OF_SHAPES: Final = (RuntimeError, ValueError, IndexError)  # what torch raises when sizes do not go together


def check_output(model: nn.Module, example: Tensor, outputs: int, task: str) -> None:
    """Run one batch through the model (eval, no gradient, nothing is changed) and compare its shape with what training needs.

    `outputs` is the number of classes, or of target values for regression. L204 says which module failed, or both numbers.
    """
    sample = tuple(example.shape[1:])
    given = run_once(model, example)
    if not isinstance(given, Tensor):
        raise LaminarError(
            "L204",
            f"the model returns a {type(given).__name__} for samples of shape {sample}, expected one tensor",
            hint="let forward() return the logits alone",
        )
    what = "classes" if task == "classification" else "target values"
    if given.ndim == 0 or given.shape[0] != example.shape[0]:
        raise LaminarError(
            "L204",
            f"the model makes {tuple(given.shape)} of a batch of {example.shape[0]} samples of shape {sample}, "
            f"expected ({example.shape[0]}, {outputs})",
            hint="let forward() keep the batch in the first dimension: flatten with x.flatten(1)",
        )
    shape = tuple(given.shape[1:])
    fits = shape == (outputs,) or (task != "classification" and shape == () and outputs == 1)
    if not fits:
        count = shape[0] if len(shape) == 1 else shape
        raise LaminarError(
            "L204",
            f"the model gives {count} outputs, but the data has {outputs} {what}",
            hint=f'set args = {{ classes = {outputs} }}, or replace the head: replace = {{ head = "laminar:head" }}',
        )


@torch.no_grad()
def run_once(model: nn.Module, example: Tensor) -> Any:
    """model(example) in eval mode; an error inside becomes L204 with the sample's shape and the module it happened in."""
    entered: list[str] = []
    with evaluating(model), _watching(model, entered):
        try:
            return model(example)
        except LaminarError:
            raise
        except Exception as error:
            raise _failed(model, example, entered[-1] if entered else "", error) from error


def _failed(model: nn.Module, example: Tensor, path: str, error: Exception) -> LaminarError:
    kind = type(model.get_submodule(path)).__name__
    place = raised_at(error)
    where = (f" at {place}" if place else "") + (f", in module '{path}' ({kind})" if path else f", in the model's own forward ({kind})")
    samples = f"samples of shape {tuple(example.shape[1:])} ({str(example.dtype).removeprefix('torch.')})"
    if "scalar types: Long, Int" in str(error):
        return LaminarError(
            "L204",
            f"{samples} reach a module that needs integer indices: {last_line(error)}{where}",
            hint="samples reach a model as float32: index with x.long(). uint8 is divided by 255 before, so store ids as int32",
        )
    if isinstance(error, _OF_SHAPES):
        return LaminarError(
            "L204",
            f"{samples} do not fit the model: {last_line(error)}{where}",
            hint="make the first modules take that shape (a factory may ask for `input_shape`), or change size / grey of the data",
        )
    return LaminarError(
        "L204",
        f"the model fails on the first batch, {samples}: {last_line(error)}{where}",
        hint=f"correct {place or 'its forward()'}; --debug shows the whole traceback",
    )


@contextlib.contextmanager
def _watching(model: nn.Module, entered: list[str]) -> Iterator[None]:
    """Keep in `entered` the paths of the modules whose forward has begun and not ended."""

    def enter(path: str) -> Any:
        def hook(*_: Any) -> None:
            entered.append(path)

        return hook

    def leave(*_: Any) -> None:
        entered.pop()

    handles = []
    for path, module in model.named_modules():
        handles.append(module.register_forward_pre_hook(enter(path)))
        handles.append(module.register_forward_hook(leave))
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()

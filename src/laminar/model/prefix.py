"""The frozen prefix: the largest part of a model that depends on its input and on frozen tensors only.

    find_prefix(model, example, frozen)  ->  Prefix(fit, test)  or  NoPrefix(reason)

A `Cut` splits one form of the model in two: `features` (sample -> what the trainable part needs) and `suffix` (that -> the
model's output). The suffix shares its Parameter and buffer objects with the model, so training the suffix trains the model.
The training form and the eval form are cut apart, because dropout and batch statistics make them different programs.

Read in this order: this file, prefix_taint.py (which nodes of an exported graph are live), prefix_split.py (a tainted graph in
two modules), prefix_boundary.py (the fallback by module boundaries where a model cannot be exported).
Not here: whether keeping the outputs pays, and how they are kept (train/features.py).
"""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import torch
from torch import Tensor, nn

from laminar.model.modes import keeping_modes

Locate = Callable[[Tensor, Tensor, float], str]


class Keeps(Protocol):
    """What of model/freeze.py is needed here: puts frozen modules back into eval mode after `model.train()`."""

    def keep(self) -> None: ...


@dataclass(frozen=True)
class Cut:
    """One form of a model, cut in two. Feature i of a sample has `shapes[i]` without the batch dimension."""

    features: nn.Module  # batch -> tuple of tensors
    suffix: nn.Module  # the tensors, as positional arguments -> output of the model
    shapes: tuple[tuple[int, ...], ...]
    dtypes: tuple[torch.dtype, ...]
    input_at: int | None  # which of the features is the sample itself; it need not be kept
    tensors: tuple[Tensor, ...]  # the frozen tensors read, in the order of the graph
    graph: Any  # JSON: what is computed, without names and places
    modules: tuple[str, ...]  # paths of the modules that lie in the prefix, for people
    locate: Locate  # (few samples, the same among strangers, tolerance) -> the module that mixes them, or ""

    @property
    def kept(self) -> tuple[int, ...]:
        """The features that have to be stored: all but the sample itself."""
        return tuple(i for i in range(len(self.shapes)) if i != self.input_at)


@dataclass(frozen=True)
class Prefix:
    fit: Cut
    test: Cut
    how: Literal["graph", "modules"]
    note: str = ""  # why the graph was not used, where it was not


@dataclass(frozen=True)
class NoPrefix:
    reason: str


class CannotCut(Exception):
    """This way of cutting does not work for this model; the text says why."""


def find_prefix(model: nn.Module, example: Tensor, frozen: Keeps | None) -> Prefix | NoPrefix:
    """Cut `model` before its first trainable part. `example` is a batch of two or more samples, scaled as in training.

    Leaves the model, its modes and torch's random state as they were.
    """
    if frozen is None or all(p.requires_grad for p in model.parameters()):
        return NoPrefix("nothing is frozen")
    if not any(p.requires_grad for p in model.parameters()):
        return NoPrefix("everything is frozen")
    if example.shape[0] < 2:
        return NoPrefix("one sample is too few to tell a batch from a sample")
    from laminar.model.prefix_boundary import cut_by_modules
    from laminar.model.prefix_split import cut_by_graph

    with as_it_was(model):
        try:
            fit = cut_by_graph(model, example, lambda: training_mode(model, frozen))
            test = cut_by_graph(model, example, lambda: eval_mode(model))
        except CannotCut as why:
            note = str(why)
        except Exception as error:  # a graph of a kind not met before: there is another way, and no reason to fail a build
            note = f"its graph could not be cut ({type(error).__name__}: {error})"
        else:
            return NoPrefix(fit.reason) if isinstance(fit, NoPrefix) else test if isinstance(test, NoPrefix) else Prefix(fit, test, "graph")
        both = cut_by_modules(model, example, lambda: training_mode(model, frozen), lambda: eval_mode(model))
    if isinstance(both, NoPrefix):
        return NoPrefix(f"{both.reason} (module boundaries were tried because {note})")
    return Prefix(*both, "modules", note)


def training_mode(model: nn.Module, frozen: Keeps) -> None:
    model.train()
    frozen.keep()


def eval_mode(model: nn.Module) -> None:
    model.eval()


@contextlib.contextmanager
def as_it_was(model: nn.Module) -> Iterator[None]:
    """Modes, buffers and torch's random state afterwards as before: looking at a model must not change how it trains."""
    buffers = [(m, name, b, b.detach().clone()) for m in model.modules() for name, b in m._buffers.items() if b is not None]
    with keeping_modes(model), torch.random.fork_rng(devices=[]), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch.export's advice is of no use to who builds a layer
        try:
            yield
        finally:
            with torch.no_grad():
                for module, name, buffer, before in buffers:
                    module._buffers[name] = buffer  # a model may put another tensor in its place
                    buffer.copy_(before)

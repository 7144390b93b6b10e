"""Row probe: do the rows of a batch depend on each other in this model? Found by running it on some samples before it is trained.

Workers that share a batch each send their rows through the model. That is what one process does if every row's outputs, and what it adds
to gradients, are the same whatever the other rows are, and whoever they come with. So, on copies of the model, with random weights moved
a little where they are all alike (what is multiplied by zero cannot be seen), dropout off, and batch norms with the statistics of the
whole batch, as workers will have them:

    another first row, another last row       no other row's outputs change                also of models that draw random numbers
    each half of the rows by itself           the same outputs; gradients add up           what depends on how many rows there are
    tensors that the model writes into        the same, whichever rows went through

It needs no graph, so models that cannot be traced are looked at as well. In float64 where the model runs in it, so that what differs by
rounding is not taken for what differs. What a model does only later (after so many steps, or for other values) is not seen.
"""

from __future__ import annotations

import contextlib
import copy
import math
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, final

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode
from torch.utils import _pytree as pytree

from laminar.core.memory import available
from laminar.data.dataset import as_float
from laminar.model.modes import keeping_modes
from laminar.parallel.sync.batch_norms import BatchNorms, Moments, moments_of
from laminar.parallel.sync.row_facts import RowFacts
from laminar.train import borrowed
from laminar.train.engine import give_back
from laminar.train.job import Job, Route

ROWS: Final = 8  # samples that are looked at, and two others in the place of some
FEW: Final = 4  # where a pass takes long
LONG: Final = 0.1  # seconds of a pass in float32, above which it is not made in float64, which may take ten times as long
COPIES: Final = 6  # as many bytes as these copies of the model must be free, or it is looked at as it is
MOVED: Final = 0.1  # of its size, or of one, that a weight is moved by at most
TOLERANCES: Final = {torch.float64: 1e-7, torch.float32: 1e-3}  # of the largest number of a tensor
SAME_SHAPE: Final = {torch.float64: 1e-9, torch.float32: 1e-6}  # the same where nothing has another shape: then other rows round alike


def row_facts(job: Job) -> RowFacts:
    """What workers that share batches of this job must know. The job is afterwards what it was. Of a model that cannot be run nothing
    is known: training will tell."""
    with borrowed.seeded(job.recipe.seed), _as_trained(job), _copies(job) as copied:
        most = min(job.recipe.batch, len(job.data.train))
        rows = min(ROWS, most)
        try:
            began = time.perf_counter()
            _Probe(job, copied, rows, torch.float32).run(_Recorded())
            seconds = time.perf_counter() - began
        except Exception:
            rows, seconds = most, math.inf  # it may take batches of one size only
            try:
                _Probe(job, copied, rows, torch.float32).run(_Recorded())
            except Exception:
                return RowFacts()
        if seconds <= LONG:
            with contextlib.suppress(Exception):  # it does not run in float64
                return _Probe(job, copied, rows, torch.float64).facts()
        elif seconds < math.inf:
            rows = min(FEW, rows)
        try:
            return _Probe(job, copied, rows, torch.float32).facts()
        except Exception as error:
            return RowFacts(mixes=f"the model does not run with all samples ({_first_line(error)})")


def _first_line(error: Exception) -> str:
    return f"{type(error).__name__}: {(str(error).strip() or 'no message').splitlines()[0]}"


class _OtherWay(Exception):
    """Other rows had other batch norms."""


# Runs that leave no trace


class _Tops(NamedTuple):
    model: nn.Module
    fit: nn.Module
    test: nn.Module


@contextlib.contextmanager
def _as_trained(job: Job) -> Iterator[None]:
    """In the modes of training, frozen modules in eval mode; afterwards as before."""
    with keeping_modes(job.model), keeping_modes(job.fit_route.module), keeping_modes(job.test_route.module):
        job.model.train()
        job.fit_route.module.train()
        if job.frozen is not None:
            job.frozen.keep()
        yield


@contextlib.contextmanager
def _copies(job: Job) -> Iterator[Callable[[], _Tops]]:
    """Fresh copies of the model, each as it is before training. One that cannot be copied, or is too large, is itself brought back."""
    own = _Tops(job.model, job.fit_route.module, job.test_route.module)
    tensors = {id(one): one for top in own for one in [*top.parameters(), *top.buffers()]}
    free = available()
    if (free is None or COPIES * sum(one.nbytes for one in tensors.values()) < free) and _can_be_copied(own):
        yield lambda: copy.deepcopy(own)
        return
    before = [(one, one.detach().clone(), one.grad) for one in tensors.values()]

    def back() -> _Tops:
        with torch.no_grad():
            for tensor, value, grad in before:
                tensor.copy_(value)
                tensor.grad = grad
        return own

    try:
        yield back
    finally:
        back()


def _can_be_copied(tops: _Tops) -> bool:
    try:
        copy.deepcopy(tops)
    except Exception:  # whatever an author's objects raise
        return False
    return True


@dataclass
class _Ran:
    """What came of one run."""

    output: Tensor
    grads: dict[str, Tensor]
    written: dict[str, Tensor]  # the model's tensors afterwards
    drew: bool  # random numbers
    tracked: list[str]  # buffers of running statistics


class _Recorded:
    """Statistics of the rows at hand, written down."""

    constant = True

    def __init__(self) -> None:
        self.seen: list[Moments] = []
        self.learned: list[bool] = []

    def moments(self, x: Tensor) -> Moments:
        self.seen.append(moments_of(x))
        self.learned.append(x.requires_grad)
        return self.seen[-1]

    def add_up(self, own: Tensor) -> Tensor:
        return own


class _Again:
    """The statistics of a run before, call by call."""

    constant = True

    def __init__(self, before: _Recorded) -> None:
        self._left = list(before.seen)

    def moments(self, x: Tensor) -> Moments:
        if not self._left or len(self._left[0].mean) != x.shape[1]:
            raise _OtherWay
        return self._left.pop(0)

    def add_up(self, own: Tensor) -> Tensor:
        return own

    def end(self) -> None:
        if self._left:
            raise _OtherWay


_aten: Any = torch.ops.aten
_DROPOUTS: Final = (
    *(F.dropout, F.dropout1d, F.dropout2d, F.dropout3d, F.alpha_dropout, F.feature_alpha_dropout),
    *(torch.dropout, torch.dropout_, torch.alpha_dropout, torch.feature_dropout, torch.feature_alpha_dropout),
    *(_aten.dropout.default, _aten.alpha_dropout.default, _aten.feature_dropout.default, _aten.feature_alpha_dropout.default),
)
_ATTENTION: Final = (F.scaled_dot_product_attention, _aten.scaled_dot_product_attention.default)
_NAMES: Final = ("query", "key", "value", "attn_mask", "dropout_p", "is_causal")


class _NoDropout(TorchFunctionMode):
    """Draws other numbers for other rows, and mixes none."""

    def __torch_function__(self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None) -> Any:
        kwargs = kwargs or {}
        if func in _DROPOUTS:
            return args[0] if args else kwargs["input"]
        if func in _ATTENTION:
            kwargs, args = {**dict(zip(_NAMES, args, strict=False)), **kwargs, "dropout_p": 0.0}, ()
            query, key, value = (kwargs.pop(name) for name in _NAMES[:3])
            return func(query, key, value, **kwargs)
        return func(*args, **kwargs)


# What is asked of them


@final
class _Probe:
    def __init__(self, job: Job, copied: Callable[[], _Tops], rows: int, dtype: torch.dtype) -> None:
        self._job, self._copied, self._dtype = job, copied, dtype
        self._order = np.random.default_rng(0).permutation(len(job.data.train))
        self._rows = rows
        self._others = [int(self._order[(rows + i) % len(self._order)]) for i in range(2)]
        self._cotangent: Tensor | None = None

    def run(
        self, statistics: Any, rows: slice | None = None, *, replaced: int | None = None, judged: bool = False, watch: Any = None
    ) -> _Ran:
        """Of some of the rows, or of all with one `replaced` by another sample. `watch`: is given the model before it runs."""
        model, fit, test = tops = self._copied()
        module = test if judged else fit
        for top in tops:
            _without_dropout(top)
            if self._dtype == torch.float64:
                top.double()
        _moved(model)
        if judged:
            module.eval()
        if watch is not None:
            watch(module)
        inputs = self._inputs(self._job.test_route if judged else self._job.fit_route, replaced)
        inputs = inputs if rows is None else [one[rows] for one in inputs]
        norms = BatchNorms(statistics, track=False)
        torch.default_generator.manual_seed(0)
        np.random.seed(0)
        before = torch.get_rng_state()
        with _NoDropout(), norms, torch.set_grad_enabled(not judged):
            output = module(*inputs)
            written = {name: tensor.detach().clone() for name, tensor in _tensors(tops).items()}
            if not judged and output.requires_grad:
                give_back([output], [self._along(output, rows)])
        if isinstance(statistics, _Again):
            statistics.end()
        grads = {name: p.grad.to_dense().clone() for name, p in model.named_parameters() if p.grad is not None}
        names = {id(buffer): name for name, buffer in model.named_buffers()}
        tracked = [names[key] for key in norms.tracked if key in names]
        drew = not torch.equal(before, torch.get_rng_state())
        return _Ran(output.detach().clone(), grads, written, drew, tracked)

    def _inputs(self, route: Route, replaced: int | None) -> list[Tensor]:
        count = len(route.inputs[0])
        chosen = [int(one) % count for one in self._order[: self._rows]]
        if replaced is not None:
            chosen[replaced] = self._others[replaced] % count
        found = [torch.from_numpy(as_float(np.stack([array[i] for i in chosen]))) for array in route.inputs]
        device = next(iter(self._job.model.parameters())).device
        return [(one.to(self._dtype) if one.is_floating_point() else one).to(device) for one in found]

    def _along(self, output: Tensor, rows: slice | None) -> Tensor:
        """A gradient of the output, the same for a row whoever it comes with."""
        if self._cotangent is None:
            made = np.random.default_rng(1).normal(size=output.shape)
            self._cotangent = torch.from_numpy(made).to(output)
        return self._cotangent if rows is None else self._cotangent[rows]

    def facts(self) -> RowFacts:
        recorded, judging = _Recorded(), _Recorded()
        whole = self.run(recorded)
        judged = self.run(judging, judged=True)
        channels = [len(one.mean) for one in recorded.seen]
        try:
            mixes = self._mixes(whole, recorded) or self._mixed_when_judged(judged, judging)
        except _OtherWay:
            mixes = "which batch norms there are depends on what is in them"
        return RowFacts(channels=channels, learned=recorded.learned, judged=bool(judging.seen), tracked=whole.tracked, mixes=mixes)

    def _mixes(self, whole: _Ran, recorded: _Recorded) -> str:
        """In words, where rows depend on each other in training; empty: nowhere."""
        for place in (0, -1):
            other = self.run(_Again(recorded), replaced=place)
            if not self._same(_but(whole.output, place), _but(other.output, place), SAME_SHAPE):
                return self._where(recorded, place)
            if name := self._written(whole, other):
                return f"what it keeps in '{name}' comes from all of them"
        if whole.drew:  # and others for other rows
            return ""
        half = self._rows // 2
        try:
            parts = [self.run(_Again(recorded), some) for some in (slice(0, half), slice(half, self._rows))]
        except _OtherWay:
            raise
        except Exception as error:
            return f"the model does not take a part of a batch ({_first_line(error)})"
        if not self._same(whole.output, torch.cat([part.output for part in parts]), TOLERANCES):
            return "it gives other outputs for a row when fewer rows come with it"
        for part in parts:
            if name := self._written(whole, part):
                return f"what it keeps in '{name}' depends on how many there are"
        # Of the largest of all: some are zero but for rounding, as that of a bias before a norm.
        size = max((_size(grad) for grad in whole.grads.values()), default=0.0)
        for name, grad in whole.grads.items():
            added = torch.stack([part.grads.get(name, torch.zeros_like(grad)) for part in parts]).sum(0)
            if not self._same(grad, added, TOLERANCES, size):
                return f"the gradient of '{name}' is not the sum of what each adds to it"
        return ""

    def _mixed_when_judged(self, judged: _Ran, judging: _Recorded) -> str:
        for place in (0, -1):
            other = self.run(_Again(judging), replaced=place, judged=True)
            if not self._same(_but(judged.output, place), _but(other.output, place), SAME_SHAPE):
                return "when the model is judged, a row's outputs are others when another row changes"
        return ""

    def _written(self, one: _Ran, other: _Ran) -> str:
        """A tensor that has become another one."""
        for name, tensor in one.written.items():
            if not self._same(tensor, other.written[name], SAME_SHAPE):
                return name
        return ""

    def _same(self, one: Tensor, other: Tensor, within: Mapping[torch.dtype, float], size: float | None = None) -> bool:
        """`size`: of what they may differ by a little part; None: their own."""
        if one.shape != other.shape:
            return False
        if not (one.is_floating_point() or one.is_complex()):
            return torch.equal(one, other)
        return torch.allclose(one, other, rtol=0.0, atol=within[self._dtype] * (_size(one) if size is None else size), equal_nan=True)

    def _where(self, recorded: _Recorded, place: int) -> str:
        """In words: the innermost module whose inputs are the same but for one row, and whose outputs are not."""
        calls: list[list[tuple[str, list[Tensor], list[Tensor]]]] = [[], []]

        def watching(seen: list[tuple[str, list[Tensor], list[Tensor]]]) -> Callable[[nn.Module], None]:
            def watch(module: nn.Module) -> None:
                for path, inner in module.named_modules():
                    if isinstance(inner, torch.jit.ScriptModule):  # takes none
                        continue
                    inner.register_forward_hook(
                        lambda one, args, out, path=path: seen.append((_named(path, one), _leaves(args), _leaves(out)))
                    )

            return watch

        self.run(_Again(recorded), watch=watching(calls[0]))
        self.run(_Again(recorded), replaced=place, watch=watching(calls[1]))
        for (named, *before), (_, *after) in zip(*calls, strict=False):
            inside, outside = (
                len(some) == len(others)
                and all(self._same(self._rest(a, place), self._rest(b, place), SAME_SHAPE) for a, b in zip(some, others, strict=True))
                for some, others in zip(before, after, strict=True)
            )
            if inside and not outside:
                return f"{named} gives others for a row when another row changes"
        return "the model gives others for a row when another row changes"

    def _rest(self, tensor: Tensor, place: int) -> Tensor:
        """Of all rows but one, where it has a part for each."""
        if not tensor.ndim or tensor.shape[0] % self._rows:
            return tensor
        return _but(tensor.reshape(self._rows, -1), place)


def _size(tensor: Tensor) -> float:
    """Of its largest number."""
    finite = tensor[torch.isfinite(tensor)]
    return float(finite.abs().max()) if finite.numel() else 0.0


def _named(path: str, module: nn.Module) -> str:
    kind = str(module._get_name())  # type: ignore[no-untyped-call]
    return f"'{path}' ({kind})" if path else f"the model's own forward ({kind})"


def _leaves(value: Any) -> list[Tensor]:
    return [one.detach().clone() for one in pytree.tree_leaves(value) if isinstance(one, Tensor)]


def _but(tensor: Tensor, place: int) -> Tensor:
    return tensor[1:] if place == 0 else tensor[:-1]


def _tensors(tops: _Tops) -> dict[str, Tensor]:
    return dict([*tops.model.named_parameters(), *tops.model.named_buffers()])


def _without_dropout(top: nn.Module) -> None:
    """Where torch's own modules have it inside of one operator."""
    for module in top.modules():
        if isinstance(module, nn.MultiheadAttention | nn.RNNBase):
            module.dropout = 0.0


@torch.no_grad()
def _moved(model: nn.Module) -> None:
    """Weights that are zero hide what is multiplied by them."""
    generator = np.random.default_rng(2)
    for parameter in model.parameters():
        if parameter.requires_grad and parameter.is_floating_point():
            by = torch.from_numpy(generator.uniform(MOVED / 2, MOVED, size=tuple(parameter.shape))).to(parameter)
            parameter.add_(by * torch.where(parameter == 0, 1.0, parameter.abs()))

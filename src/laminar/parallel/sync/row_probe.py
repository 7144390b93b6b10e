"""Row probe: find out whether the rows of a batch depend on each other, by running the model on a few samples before training.

Workers that share a batch each send their own rows through the model. The result equals that of one process if no row's outputs and no
row's contribution to the gradients depend on the other rows. The probe runs copies of the model, with dropout off and with the batch
norm statistics of the whole batch, as workers will have them. Weights that are all equal are moved a little at random, because a
dependence multiplied by zero would be invisible. It checks:

    changed input                             what must hold
    another first row, another last row       the outputs for all other rows stay the same (also for models that draw random numbers)
    each half of the rows alone               the outputs stay the same; the gradients of the halves add up to those of the whole
    any of these                              tensors that the model writes into get the same values

The probe needs no graph, so it covers models that cannot be traced. It uses float64 where the model supports it, so that rounding is not
mistaken for a dependence. It does not see what a model does only later, after some number of steps or for other values.
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

ROWS: Final = 8  # samples in a probe; two more replace some of them
FEW: Final = 4  # samples for a model whose pass takes long
LONG: Final = 0.1  # seconds of a float32 pass above which the probe skips float64, which may take ten times as long
COPIES: Final = 6  # memory for this many copies of the model must be free, or the probe runs the model itself
MOVED: Final = 0.1  # the largest move of a weight, relative to its size or to 1
TOLERANCES: Final = {torch.float64: 1e-7, torch.float32: 1e-3}  # relative to the largest number of a tensor
SAME_SHAPE: Final = {torch.float64: 1e-9, torch.float32: 1e-6}  # tighter where shapes are equal, because then other rows round alike


def row_facts(job: Job) -> RowFacts:
    """What workers that share the batches of this job must know. The job is left unchanged. A model that cannot run gives no facts: its
    error appears in the training."""
    with borrowed.seeded(job.recipe.seed), _as_trained(job), _copies(job) as copied:
        most = min(job.recipe.batch, len(job.data.train))
        rows = min(ROWS, most)
        try:
            began = time.perf_counter()
            _Probe(job, copied, rows, torch.float32).run(_Recorded())
            seconds = time.perf_counter() - began
        except Exception:
            rows, seconds = most, math.inf  # the model may accept one batch size only
            try:
                _Probe(job, copied, rows, torch.float32).run(_Recorded())
            except Exception:
                return RowFacts()
        if seconds <= LONG:
            with contextlib.suppress(Exception):  # the model does not run in float64
                return _Probe(job, copied, rows, torch.float64).facts()
        elif seconds < math.inf:
            rows = min(FEW, rows)
        try:
            return _Probe(job, copied, rows, torch.float32).facts()
        except Exception as error:
            return RowFacts(mixes=f"the model fails on some samples ({_first_line(error)})")


def _first_line(error: Exception) -> str:
    return f"{type(error).__name__}: {(str(error).strip() or 'no message').splitlines()[0]}"


class _OtherWay(Exception):
    """Another run of the model reached other batch norms."""


# Runs that leave no trace


class _Tops(NamedTuple):
    model: nn.Module
    fit: nn.Module
    test: nn.Module


@contextlib.contextmanager
def _as_trained(job: Job) -> Iterator[None]:
    """Set training mode, with frozen modules in eval mode, and restore the modes afterwards."""
    with keeping_modes(job.model), keeping_modes(job.fit_route.module), keeping_modes(job.test_route.module):
        job.model.train()
        job.fit_route.module.train()
        if job.frozen is not None:
            job.frozen.keep()
        yield


@contextlib.contextmanager
def _copies(job: Job) -> Iterator[Callable[[], _Tops]]:
    """Yield a function that returns the model as it is before training: a copy, or, if it is too large or cannot be copied, the model
    itself with its tensors restored."""
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
    """The result of one run."""

    output: Tensor
    grads: dict[str, Tensor]
    written: dict[str, Tensor]  # the model's tensors afterwards
    drew: bool  # whether it drew random numbers
    tracked: list[str]  # buffers of running statistics


class _Recorded:
    """Use the statistics of the current rows, and record them."""

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
    """Use the recorded statistics of an earlier run, call by call."""

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
        """A fixed gradient for the output; each row always gets the same one."""
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
            mixes = "the values in the rows decide which batch norms run"
        return RowFacts(channels=channels, learned=recorded.learned, judged=bool(judging.seen), tracked=whole.tracked, mixes=mixes)

    def _mixes(self, whole: _Ran, recorded: _Recorded) -> str:
        """How rows depend on each other in training, in words; empty if they do not."""
        for place in (0, -1):
            other = self.run(_Again(recorded), replaced=place)
            if not self._same(_but(whole.output, place), _but(other.output, place), SAME_SHAPE):
                return self._where(recorded, place)
            if name := self._written(whole, other):
                return f"the values that the model writes into '{name}' depend on all rows together"
        if whole.drew:  # halves would draw other numbers
            return ""
        half = self._rows // 2
        try:
            parts = [self.run(_Again(recorded), some) for some in (slice(0, half), slice(half, self._rows))]
        except _OtherWay:
            raise
        except Exception as error:
            return f"the model does not accept a part of a batch ({_first_line(error)})"
        if not self._same(whole.output, torch.cat([part.output for part in parts]), TOLERANCES):
            return "the outputs for a row change when the batch has fewer rows"
        for part in parts:
            if name := self._written(whole, part):
                return f"the values that the model writes into '{name}' depend on the number of rows"
        # Compared with the largest gradient: some are zero up to rounding, such as that of a bias before a norm.
        size = max((_size(grad) for grad in whole.grads.values()), default=0.0)
        for name, grad in whole.grads.items():
            added = torch.stack([part.grads.get(name, torch.zeros_like(grad)) for part in parts]).sum(0)
            if not self._same(grad, added, TOLERANCES, size):
                return f"the gradient of '{name}' is not the sum over the rows"
        return ""

    def _mixed_when_judged(self, judged: _Ran, judging: _Recorded) -> str:
        for place in (0, -1):
            other = self.run(_Again(judging), replaced=place, judged=True)
            if not self._same(_but(judged.output, place), _but(other.output, place), SAME_SHAPE):
                return "in tests, the outputs for a row change when another row changes"
        return ""

    def _written(self, one: _Ran, other: _Ran) -> str:
        """The name of a tensor whose values differ after the two runs; empty if none does."""
        for name, tensor in one.written.items():
            if not self._same(tensor, other.written[name], SAME_SHAPE):
                return name
        return ""

    def _same(self, one: Tensor, other: Tensor, within: Mapping[torch.dtype, float], size: float | None = None) -> bool:
        """Whether two tensors are equal up to a tolerance, relative to `size` (default: the largest number in `one`)."""
        if one.shape != other.shape:
            return False
        if not (one.is_floating_point() or one.is_complex()):
            return torch.equal(one, other)
        return torch.allclose(one, other, rtol=0.0, atol=within[self._dtype] * (_size(one) if size is None else size), equal_nan=True)

    def _where(self, recorded: _Recorded, place: int) -> str:
        """Name the innermost module whose inputs differ in one row only, and whose outputs differ in other rows."""
        calls: list[list[tuple[str, list[Tensor], list[Tensor]]]] = [[], []]

        def watching(seen: list[tuple[str, list[Tensor], list[Tensor]]]) -> Callable[[nn.Module], None]:
            def watch(module: nn.Module) -> None:
                for path, inner in module.named_modules():
                    if isinstance(inner, torch.jit.ScriptModule):  # takes no hooks
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
                return f"{named} changes its outputs for other rows when one row changes"
        return "the model changes its outputs for other rows when one row changes"

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

"""Batch norms that use the statistics of a whole batch, while each process has a part of its rows.

`BatchNorms` is a TorchFunctionMode. While it is active, every batch norm that computes statistics of its input, whether in a module, a
function or a stored graph, takes them from `Statistics` instead: from the workers of a team (team_statistics.py), or from an earlier run
(row_probe.py). Everything else is unchanged.

Each worker sends its count, mean and sum of squared deviations. All combine them in the order of the ranks, by the formula of Chan, Golub
and LeVeque ("Updating formulae and a pairwise algorithm for computing sample variances", 1979), in float64: a difference of sums of
squares would lose precision when the mean is large. In the backward pass two sums for each channel complete the gradient:

    y = (x - m) * s * w + b,  s = 1 / sqrt(v + eps)
    dL/dx = w * s * (g - sum(g) / n - (x - m) * s^2 * sum(g * (x - m)) / n)          # sums over the whole batch
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, Protocol

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode

PIECE: Final = 1 << 17  # numbers converted to float64 at a time, so that they stay in a core's cache


@dataclass(frozen=True)
class Moments:
    """Statistics for each channel, in float64."""

    count: int  # numbers per channel
    mean: Tensor
    squares: Tensor  # the sum of squared deviations from the mean

    @property
    def variance(self) -> Tensor:
        return self.squares / self.count


class Statistics(Protocol):
    constant: bool  # whether no gradient flows through them

    def moments(self, x: Tensor) -> Moments:
        """The statistics of the whole batch; `x` has this process's rows."""
        ...

    def add_up(self, own: Tensor) -> Tensor:
        """Sum a row of float64 numbers over the whole batch."""
        ...


def moments_of(x: Tensor) -> Moments:
    """The statistics of these rows alone."""
    channels, count = x.shape[1], x.numel() // max(1, x.shape[1])
    if not count:
        nothing = torch.zeros(channels, dtype=torch.float64, device=x.device)
        return Moments(0, nothing, nothing.clone())
    if x.device.type != "cpu":
        variance, mean = torch.var_mean(x.double(), _over(x), correction=0)
        return Moments(count, mean, variance * count)
    found = []
    for part in torch.split(x, max(1, PIECE * len(x) // x.numel())):
        mean, variance = torch.batch_norm_update_stats(part.double(), None, None, 0.0)
        n = part.numel() // channels
        found.append(Moments(n, mean, variance * n))
    return combined(found)


def combined(parts: Sequence[Moments]) -> Moments:
    """The statistics of all parts together; the same parts in the same order give the same bits."""
    if len(parts) == 1:
        return parts[0]
    count = sum(one.count for one in parts)
    means = torch.stack([one.mean for one in parts])
    counts = torch.tensor([[float(one.count)] for one in parts], dtype=torch.float64, device=means.device)
    # Relative to the first mean, so that values far from zero lose no precision.
    mean = means[0] + ((means - means[0]) * counts).sum(0) / max(1, count)
    squares = torch.stack([one.squares for one in parts]) + (means - mean).square() * counts
    return Moments(count, mean, squares.sum(0))


def normalised(
    x: Tensor, weight: Tensor | None, bias: Tensor | None, eps: float, statistics: Statistics
) -> tuple[Tensor, Moments, Tensor, Tensor]:
    """The normalised `x`, the statistics used, and these in torch's form: means and 1 / standard deviations."""
    with torch.no_grad():
        moments = statistics.moments(x)
        if moments.count <= 1:
            raise ValueError(f"Expected more than 1 value per channel when training, got input size {x.shape}")
        kept = torch.promote_types(x.dtype, torch.float32)  # under autocast x may be a half: its statistics are none, as torch's are not
        mean, scale = moments.mean.to(kept), torch.rsqrt(moments.variance + eps).to(kept)
    found: Tensor = _Normalised.apply(x, weight, bias, mean, scale, (moments.count, eps, statistics))  # type: ignore[no-untyped-call]
    return found, moments, mean, scale


def _over(x: Tensor) -> list[int]:
    """All dimensions except that of channels."""
    return [d for d in range(x.ndim) if d != 1]


def _by_channel(x: Tensor, like: Tensor) -> Tensor:
    return x.view(-1, *([1] * (like.ndim - 2)))


class _Normalised(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor | None, bias: Tensor | None, mean: Tensor, scale: Tensor, how: Any) -> Tensor:
        ctx.how = how
        ctx.save_for_backward(x, weight, mean, scale)
        times = scale if weight is None else scale * weight
        plus = -mean * times if bias is None else bias - mean * times
        return torch.addcmul(_by_channel(plus, x), x, _by_channel(times, x)).to(x.dtype)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        x, weight, mean, scale = ctx.saved_tensors
        (grad,) = grads
        wants_x, wants_weight, wants_bias = ctx.needs_input_grad[:3]
        if torch.is_grad_enabled():
            whole, along, plain = _differentiable(x, weight, grad, mean, scale, ctx.how)
            return whole if wants_x else None, along if wants_weight else None, plain if wants_bias else None, None, None, None
        along, plain = _sums(x, grad, mean, scale)
        into: Tensor | None = None
        if wants_x:
            count, _, statistics = ctx.how
            times = scale if weight is None else scale * weight
            if statistics.constant:
                into = grad * _by_channel(times, x)
            else:
                of_mean, of_scale = (statistics.add_up(torch.cat([plain, along]).double()) / count).to(mean.dtype).chunk(2)
                into = (x - _by_channel(mean, x)).mul_(_by_channel(-scale * of_scale, x))
                into.add_(grad).sub_(_by_channel(of_mean, x)).mul_(_by_channel(times, x))
            into = into.to(x.dtype)
        return into, along if wants_weight else None, plain if wants_bias else None, None, None, None


def _sums(x: Tensor, grad: Tensor, mean: Tensor, scale: Tensor) -> tuple[Tensor, Tensor]:
    """For each channel, the sums of grad * (x - mean) * scale and of grad over these rows."""
    if x.device.type == "cpu" and x.numel():
        run = torch.ops.aten.native_batch_norm_backward.default
        _, along, plain = run(grad, x, torch.ones_like(mean), None, None, mean, scale, True, 0.0, [False, True, True])
        return along, plain
    return (grad * (x - _by_channel(mean, x))).sum(_over(x)) * scale, grad.sum(_over(x))


def _differentiable(x: Tensor, weight: Tensor | None, grad: Tensor, mean: Tensor, scale: Tensor, how: Any) -> tuple[Tensor, Tensor, Tensor]:
    """The same gradients in differentiable operations, for models that take the gradient of a gradient."""
    count, eps, statistics = how
    x, grad = x.to(mean.dtype), grad.to(mean.dtype)

    def together(numbers: Tensor) -> Tensor:
        found: Tensor = _Together.apply(numbers, statistics)  # type: ignore[no-untyped-call]
        return found

    if not statistics.constant:
        mean = together(x.sum(_over(x))) / count
    off = x - _by_channel(mean, x)
    if not statistics.constant:
        scale = torch.rsqrt(together(off.square().sum(_over(x))) / count + eps)
    scale = _by_channel(scale, x)
    along, plain = (grad * off * scale).sum(_over(x)), grad.sum(_over(x))
    into = grad
    if not statistics.constant:
        into = grad - _by_channel(together(plain), x) / count - off * scale * _by_channel(together(along), x) / count
    return into * scale * (1.0 if weight is None else _by_channel(weight, x)), along, plain


class _Together(torch.autograd.Function):
    """A sum over the whole batch. Every worker uses it for its own rows, so its gradient is the sum of theirs."""

    @staticmethod
    def forward(ctx: Any, own: Tensor, statistics: Statistics) -> Tensor:
        ctx.statistics = statistics
        return statistics.add_up(own.double()).to(own.dtype)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        return _Together.apply(grads[0], ctx.statistics), None  # type: ignore[no-untyped-call]


# The arguments and results of each of torch's batch norm functions


class _Way(NamedTuple):
    names: tuple[str, ...]
    gives: str  # "one" tensor; also what was "kept" of the statistics; also the "next" running ones, where they are not written into

    def arguments(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        return {**_LEFT_OUT, **dict(zip(self.names, args, strict=False)), **kwargs}


_LEFT_OUT: Final[dict[str, Any]] = {
    "weight": None,
    "bias": None,
    "running_mean": None,
    "running_var": None,
    "training": True,
    "momentum": 0.1,
    "eps": 1e-5,
}
_PLAIN: Final = ("input", "weight", "bias", "running_mean", "running_var", "training", "momentum", "eps")
_NO_STATS: Final = ("input", "weight", "bias", "training", "momentum", "eps")
_aten: Any = torch.ops.aten

BATCH_NORMS: Final[dict[Callable[..., Any], _Way]] = {
    F.batch_norm: _Way(("input", "running_mean", "running_var", "weight", "bias", "training", "momentum", "eps"), "one"),
    torch.batch_norm: _Way(_PLAIN, "one"),
    _aten.batch_norm: _Way(_PLAIN, "one"),
    _aten.batch_norm.default: _Way(_PLAIN, "one"),
    torch.native_batch_norm: _Way(_PLAIN, "kept"),
    _aten.native_batch_norm: _Way(_PLAIN, "kept"),
    _aten.native_batch_norm.default: _Way(_PLAIN, "kept"),
    _aten._native_batch_norm_legit.default: _Way(_PLAIN, "kept"),
    _aten._native_batch_norm_legit.no_stats: _Way(_NO_STATS, "kept"),
    _aten._native_batch_norm_legit_functional: _Way(_PLAIN, "next"),
    _aten._native_batch_norm_legit_functional.default: _Way(_PLAIN, "next"),
}
INSTANCE_NORMS: Final[dict[Callable[..., Any], tuple[str, ...]]] = {
    F.instance_norm: ("input", "running_mean", "running_var", "weight", "bias", "use_input_stats", "momentum", "eps"),
    torch.instance_norm: ("input", "weight", "bias", "running_mean", "running_var", "use_input_stats", "momentum", "eps"),
    _aten.instance_norm: ("input", "weight", "bias", "running_mean", "running_var", "use_input_stats", "momentum", "eps"),
    _aten.instance_norm.default: ("input", "weight", "bias", "running_mean", "running_var", "use_input_stats", "momentum", "eps"),
}


class BatchNorms(TorchFunctionMode):
    """With `track` False, running statistics do not change."""

    def __init__(self, statistics: Statistics, *, track: bool = True) -> None:
        super().__init__()
        self._statistics, self._track = statistics, track
        self.tracked: dict[int, Tensor] = {}  # running statistics seen so far, by identity

    def __torch_function__(self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None) -> Any:
        kwargs = kwargs or {}
        if (way := BATCH_NORMS.get(func)) is not None:
            given = way.arguments(args, kwargs)
            if given["training"]:
                return self._batch_norm(way, given)
        elif func in INSTANCE_NORMS:
            given = {**_LEFT_OUT, "use_input_stats": True, **dict(zip(INSTANCE_NORMS[func], args, strict=False)), **kwargs}
            if given["use_input_stats"] and given["running_mean"] is not None:
                return self._instance_norm(given)
        elif func is Tensor.backward:
            with self:  # recomputation in the backward pass (checkpointing) must use the same statistics
                return _backward(*args, **kwargs)
        return func(*args, **kwargs)

    def _batch_norm(self, way: _Way, given: Mapping[str, Any]) -> Any:
        found, moments, mean, scale = normalised(given["input"], given["weight"], given["bias"], given["eps"], self._statistics)
        running = [given["running_mean"], given["running_var"]]
        after = [] if running[0] is None else self._after(running, moments.mean, moments.squares / (moments.count - 1), given["momentum"])
        if way.gives == "next":
            return found, mean, scale, *after
        with torch.no_grad():
            for tensor, value in zip(running, after, strict=False):
                tensor.copy_(value)
        return found if way.gives == "one" else (found, mean, scale)

    def _instance_norm(self, given: Mapping[str, Any]) -> Tensor:
        """An instance norm normalises each sample by itself; only its running statistics are means over the batch."""
        x = given["input"]
        if x.numel() <= x.shape[0] * x.shape[1]:
            raise ValueError(f"Expected more than 1 spatial element when training, got input size {x.shape}")
        found = torch.instance_norm(x, given["weight"], given["bias"], None, None, True, given["momentum"], given["eps"], False)
        with torch.no_grad():
            variance, mean = torch.var_mean(x.detach().double(), list(range(2, x.ndim)), correction=1)
            total = self._statistics.add_up(torch.cat([mean.sum(0), variance.sum(0), mean.new_tensor([float(len(x))])]))
            of_mean, of_variance = (total[:-1] / total[-1]).chunk(2)
            running = [given["running_mean"], given["running_var"]]
            for tensor, value in zip(running, self._after(running, of_mean, of_variance, given["momentum"]), strict=True):
                tensor.copy_(value)
        return found

    @torch.no_grad()
    def _after(self, running: Sequence[Tensor], mean: Tensor, variance: Tensor, momentum: float) -> list[Tensor]:
        if not self._track:
            self.tracked |= {id(one): one for one in running}
            return [one.clone() for one in running]
        pairs = zip(running, (mean, variance), strict=True)
        return [(momentum * new + (1 - momentum) * old.double()).to(old.dtype) for old, new in pairs]


def _backward(
    tensor: Tensor, gradient: Tensor | None = None, retain_graph: bool | None = None, create_graph: bool = False, inputs: Any = None
) -> None:
    torch.autograd.backward(tensor, gradient, retain_graph, create_graph, inputs=inputs)

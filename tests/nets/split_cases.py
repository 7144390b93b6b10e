"""Cases for the net of splits: operators of ATen that have a rule, called with arguments of every kind, inside a small model.

An operator is called by its overload, as a graph has it, so that each argument of each schema is reached, also those that no function of
torch's Python interface gives. Which argument gets what is drawn from `DRAW`.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

import torch
from torch import Tensor, nn
from torch._ops import OpOverload

ROWS: Final = 6
CLASSES: Final = 12


@dataclass(frozen=True)
class Made:
    """A tensor argument: the value that goes through the model, another like it, or one of the model's own."""

    kind: str  # value, twin, parameter, buffer, ids
    sizes: tuple[int, ...] = ()
    below: int = 0  # ids: of so many


VALUE, TWIN = Made("value"), Made("twin")
Shape = tuple[int, ...]  # of the value, without the batch
Draw = Callable[[random.Random, Shape], dict[str, Any]]
KINDS: Final[dict[str, Shape]] = {"image": (8, 6, 5), "signal": (8, 9), "words": (6, 8), "heads": (4, 6, 8), "features": (12,)}
DIMENSIONS: Final = {
    "image": ("batch", "channels", "height", "width"),
    "signal": ("batch", "channels", "length"),
    "words": ("batch", "length", "hidden"),
    "heads": ("batch", "length", "heads", "hidden"),
    "features": ("batch", "features", "hidden"),
}


def parameter(*sizes: int) -> Made:
    return Made("parameter", sizes)


def _dim(r: random.Random, shape: Shape, *, batch: bool = True) -> int:
    rank = len(shape) + 1
    at = r.randrange(0 if batch else 1, rank)
    return r.choice([at, at - rank])


def _dims(r: random.Random, shape: Shape) -> list[int]:
    some = r.sample(range(len(shape) + 1), r.randint(1, len(shape)))
    return [d - r.choice([0, len(shape) + 1]) for d in some]


def _inner(r: random.Random, shape: Shape) -> tuple[int, int]:
    """A dimension that is not the batch's, and its size."""
    at = r.randrange(len(shape))
    return at + 1, shape[at]


def _pairs(r: random.Random, n: int, values: list[int]) -> Any:
    return r.choice([[r.choice(values)], [r.choice(values) for _ in range(n)]]) if n > 1 else [r.choice(values)]


def _conv(r: random.Random, shape: Shape) -> dict[str, Any]:
    n, channels = len(shape) - 1, shape[0]
    groups = r.choice([1, 1, 2, 4, 8])
    out = r.choice([4, 8, 16] if groups < 8 else [8, 16])
    size = [r.choice([1, 2, 3]) for _ in range(n)]
    padding: Any = r.choice([_pairs(r, n, [0, 1, 2, 4]), "same", "valid"])
    stride = [1] if padding == "same" else _pairs(r, n, [1, 2])
    return {
        "input": VALUE,
        "weight": parameter(out, channels // groups, *size),
        "bias": parameter(out),
        "stride": stride,
        "padding": padding,
        "dilation": _pairs(r, n, [1, 2]),
        "groups": groups,
    }


def _pool(r: random.Random, shape: Shape) -> dict[str, Any]:
    n = len(shape) - 1
    return {
        "self": VALUE,
        "kernel_size": _pairs(r, n, [2, 3]),
        "stride": r.choice([[], _pairs(r, n, [1, 2, 3])]),
        "padding": _pairs(r, n, [0, 1]),
        "dilation": _pairs(r, n, [1, 2]),
        "ceil_mode": r.random() < 0.6,
        "count_include_pad": r.random() < 0.5,
        "divisor_override": r.choice([None, 3, 5]),
    }


def _norm(r: random.Random, shape: Shape) -> dict[str, Any]:
    channels = shape[0]
    running = Made("buffer", (channels,))
    statistics = r.random() < 0.7
    return {
        "input": VALUE,
        "weight": parameter(channels),
        "bias": parameter(channels),
        "running_mean": running if statistics else None,
        "running_var": running if statistics else None,
        "training": r.random() < 0.7 or not statistics,
        "momentum": r.choice([0.1, 0.3]),
        "eps": r.choice([1e-5, 1e-2]),
        "cudnn_enabled": r.random() < 0.5,
        "num_groups": r.choice([1, 2, 4, 8]),
    }


def _layer_norm(r: random.Random, shape: Shape) -> dict[str, Any]:
    last = list(shape[-r.randint(1, len(shape)) :])
    return {
        "input": VALUE,
        "normalized_shape": last,
        "weight": parameter(*last),
        "bias": parameter(*last),
        "eps": r.choice([1e-5, 1e-2]),
        "cudnn_enable": r.random() < 0.5,
    }


def _view(r: random.Random, shape: Shape) -> dict[str, Any]:
    at, size = _inner(r, shape)
    flat = [-1]
    for one in shape:
        flat.append(one) if r.random() < 0.5 or len(flat) == 1 else flat.append(flat.pop() * one)
    halves = [-1, *[part for one in shape for part in ([2, one // 2] if one % 2 == 0 and r.random() < 0.5 else [one])]]
    sizes = r.choice([flat, halves, [-1, *reversed(shape)], [-1, 2, *shape[:-1], shape[-1] // 2]])
    start = r.randrange(0, len(shape) + 1)
    return {
        "self": VALUE,
        "other": TWIN,
        "size": sizes,
        "shape": sizes,
        "sizes": [2, -1] if size % 2 == 0 else [-1],
        "dim": r.choice([at, [at], at - len(shape) - 1]),
        "start_dim": start,
        "end_dim": r.choice([-1, r.randrange(start, len(shape) + 1)]),
        "dtype": r.choice([torch.int64, torch.float64]),
    }


def _part(r: random.Random, shape: Shape) -> dict[str, Any]:
    at, size = _inner(r, shape)
    begin = r.randrange(size - 1)
    cut = r.randint(1, size - 1)
    return {
        "self": VALUE,
        "dim": r.choice([at, at - len(shape) - 1, 0]),
        "index": r.choice([0, 1, -1]),
        "start": r.choice([0, begin, None]),
        "end": r.choice([None, 1 << 62, begin + 1, -1, size]),
        "step": r.choice([1, 2]),
        "length": r.randint(1, size - begin),
        "split_size": r.choice([cut, [cut, size - cut], max(1, size // 2)]),
        "split_sizes": r.choice([[cut, size - cut], [size // 2] * 2 + [size % 2] * (size % 2)]),
        "chunks": r.choice([1, 2, 3, 4]),
        "sections": r.choice([1, 2, 3]),
        "indices": [cut],
    }


def _joined(r: random.Random, shape: Shape) -> dict[str, Any]:
    return {"tensors": [r.choice([VALUE, TWIN]) for _ in range(r.choice([1, 2, 3]))], "dim": _dim(r, shape)}


def _reduced(r: random.Random, shape: Shape) -> dict[str, Any]:
    dims = _dims(r, shape)
    return {
        "self": VALUE,
        "dim": r.choice([dims, dims[:1], dims[0], None, []]),
        "keepdim": r.random() < 0.5,
        "dtype": r.choice([None, torch.float32, torch.float64]),
        "p": r.choice([1, 2, 3, float("inf")]),
        "ord": r.choice([1, 2, 3.5, float("inf")]),
        "correction": r.choice([0, 1, 2]),
        "unbiased": r.random() < 0.5,
        "half_to_float": False,
    }


def _padded(r: random.Random, shape: Shape) -> dict[str, Any]:
    mode = r.choice(["constant", "constant", "reflect", "replicate", "circular"])
    count = r.randint(1, len(shape)) if mode == "constant" else max(1, len(shape) - 1)
    amounts = [r.choice([0, 1, 2] + ([-1] if mode == "constant" else [])) for _ in range(2 * count)]
    return {"self": VALUE, "pad": amounts, "mode": mode, "value": r.choice([None, 0.5]) if mode == "constant" else None}


def _padded_nd(r: random.Random, shape: Shape) -> dict[str, Any]:
    return {"self": VALUE, "pad": [r.choice([0, 1, 2, -1]) for _ in range(2 * r.randint(1, len(shape)))], "value": r.choice([0, 0.5])}


def _embedded(r: random.Random, shape: Shape) -> dict[str, Any]:
    return {
        "weight": parameter(12, 8),
        "indices": Made("ids", below=12),
        "padding_idx": r.choice([-1, 0, 7]),
        "scale_grad_by_freq": r.random() < 0.4,
        "sparse": False,
    }


def _attended(r: random.Random, shape: Shape) -> dict[str, Any]:
    heads, length, _ = shape
    masked = r.random() < 0.3
    mask = parameter(*r.choice([(length, length), (heads, length, length), (1, length, length)]))
    return {
        "query": VALUE,
        "key": r.choice([TWIN, TWIN, VALUE]),
        "value": r.choice([TWIN, VALUE]),
        "attn_mask": mask if masked else None,
        "dropout_p": 0.0,
        "is_causal": not masked and r.random() < 0.5,
        "scale": r.choice([None, 0.3]),
        "enable_gqa": r.random() < 0.4,
    }


def _multiplied(r: random.Random, shape: Shape) -> dict[str, Any]:
    wide = parameter(shape[-1], r.choice([4, 10]))
    batched = parameter(*shape[:-2], shape[-1], 4) if len(shape) > 1 else wide
    other = r.choice([wide, batched, Made("vector", (shape[-1],)), Made("turned")])
    return {"self": VALUE, "other": other, "mat2": other}


def _kept(r: random.Random, shape: Shape) -> dict[str, Any]:
    return {
        "self": VALUE,
        "other": r.choice([TWIN, parameter(*shape), Made("ids", below=4)]),
        "memory_format": r.choice([None, torch.contiguous_format, torch.preserve_format]),
        "dtype": r.choice([torch.float32, torch.float64, torch.int64]),
        "copy": r.random() < 0.5,
        "non_blocking": r.random() < 0.5,
        "device": torch.device("cpu"),
        "pin_memory": False,
    }


def _dropped(r: random.Random, shape: Shape) -> dict[str, Any]:
    return {"input": VALUE, "p": r.choice([0.0, 1.0]), "train": r.random() < 0.6}


def _written(r: random.Random, shape: Shape) -> dict[str, Any]:
    buffer = Made("buffer", shape)
    return {
        "self": buffer,
        "other": r.choice([2.0, Made("mean"), Made("other", shape)]),
        "src": Made("mean"),
        "alpha": r.choice([1, 0.5]),
        "value": 0.25,
        "end": Made("mean"),
        "weight": 0.2,
        "rounding_mode": None,
        "non_blocking": r.random() < 0.5,
    }


def _pointwise(r: random.Random, shape: Shape) -> dict[str, Any]:
    at = r.randrange(len(shape))
    narrow = tuple(1 if i == at else size for i, size in enumerate(shape))
    other = r.choice([TWIN, VALUE, parameter(*shape), parameter(*narrow), parameter(*shape[r.randrange(len(shape)) :]), parameter(), 0.7])
    return {
        "self": VALUE,
        "other": other,
        "alpha": r.choice([1, 0.5]),
        "rounding_mode": r.choice([None, "floor", "trunc"]),
        "approximate": r.choice(["none", "tanh"]),
        "negative_slope": 0.2,
        "min": r.choice([None, -0.5]),
        "max": 0.5,
        "exponent": r.choice([2, 3.0]),
        "end": TWIN,
        "weight": r.choice([0.3, parameter(*shape)]),
        "condition": Made("condition"),
        "tensor1": TWIN,
        "tensor2": parameter(*narrow),
        "value": r.choice([1, 0.5]),
        "beta": r.choice([1, 2]),
        "threshold": r.choice([20, 0.5]),
        "alpha_": 1.0,
        "mask": Made("condition"),
        "p": r.choice([0.0, 1.0]),
        "train": r.random() < 0.5,
        "decimals": 1,
        "shifts": [r.choice([1, 2])],
        "dims": [_dim(r, shape, batch=False)],
        "input": VALUE,
        "dim": _dim(r, shape),
        "descending": r.random() < 0.5,
        "diagonal": r.choice([0, 1]),
        "repeats": [1, *[r.choice([1, 2]) for _ in shape]],
        "k": 2,
        "largest": r.random() < 0.5,
        "sorted": True,
        "source": parameter(shape[0]),
        "n": 2,
        "fill_value": 0.5,
        "lower": 0.1,
        "upper": 0.3,
        "training": False,
    }


def _turned(r: random.Random, shape: Shape) -> dict[str, Any]:
    rank = len(shape) + 1
    order = [d - r.choice([0, rank]) for d in r.sample(range(rank), rank)]
    one, other = _dim(r, shape), _dim(r, shape)
    return {"self": VALUE, "dims": order, "dim0": one, "dim1": other, "axis0": one, "axis1": other, "dim": _dim(r, shape)}


def _stretched(r: random.Random, shape: Shape) -> dict[str, Any]:
    """Of a mean over some of its dimensions, as F.normalize does; sizes with the batch are worked out in the model."""
    over = sorted(r.sample(range(1, len(shape) + 1), r.randint(1, len(shape))))
    sizes = [2] * r.randint(0, 1) + [-1] + [size if i + 1 in over else r.choice([size, -1]) for i, size in enumerate(shape)]
    return {"self": Made("reduced", tuple(over)), "other": TWIN, "size": sizes, "implicit": r.random() < 0.3}


ALL: Final = ("image", "signal", "words", "features")
DRAW: Final[dict[str, tuple[tuple[str, ...], Draw]]] = {
    "linear": (
        ("words", "features", "heads"),
        lambda r, shape: {"input": VALUE, "weight": parameter(r.choice([10, 12]), shape[-1]), "bias": parameter(12)},
    ),
    **dict.fromkeys(("matmul",), (("words", "features", "heads"), _multiplied)),
    "mm": (("features",), _multiplied),
    "bmm": (("words", "signal"), lambda _, __: {"self": VALUE, "mat2": Made("turned")}),
    "embedding": (("words",), _embedded),
    "scaled_dot_product_attention": (("heads",), _attended),
    "conv1d": (("signal",), _conv),
    "conv2d": (("image",), _conv),
    **dict.fromkeys(("max_pool1d", "avg_pool1d"), (("signal",), _pool)),
    **dict.fromkeys(("max_pool2d", "avg_pool2d"), (("image",), _pool)),
    "adaptive_avg_pool1d": (("signal",), lambda r, _: {"self": VALUE, "output_size": [r.choice([1, 2, 4])]}),
    "adaptive_avg_pool2d": (("image",), lambda r, _: {"self": VALUE, "output_size": r.choice([[1, 1], [2, 3], [1, 5]])}),
    "batch_norm": (("image", "signal", "features"), _norm),
    "group_norm": (("image", "signal", "features"), lambda r, shape: _norm(r, shape) | {"num_groups": r.choice([1, 2, 4])}),
    **dict.fromkeys(("layer_norm", "rms_norm"), (ALL, _layer_norm)),
    **dict.fromkeys(
        ("view", "reshape", "_unsafe_view", "flatten", "unflatten", "squeeze", "ravel", "view_as", "reshape_as"), ((*ALL, "heads"), _view)
    ),
    **dict.fromkeys(("permute", "transpose", "swapaxes", "unsqueeze"), ((*ALL, "heads"), _turned)),
    "t": (("features",), _turned),
    **dict.fromkeys(("expand", "expand_as", "broadcast_to"), (ALL, _stretched)),
    **dict.fromkeys(("select", "slice", "narrow", "unbind", "split", "chunk", "split_with_sizes", "tensor_split"), (ALL, _part)),
    **dict.fromkeys(("cat", "concat", "stack"), (ALL, _joined)),
    "pad": (("image", "signal", "words"), _padded),
    "constant_pad_nd": (ALL, _padded_nd),
    **dict.fromkeys(
        ("sum", "mean", "amax", "amin", "argmax", "logsumexp", "std", "var", "norm", "linalg_vector_norm"), ((*ALL, "heads"), _reduced)
    ),
    **dict.fromkeys(("softmax", "log_softmax", "_softmax"), ((*ALL, "heads"), lambda r, s: _reduced(r, s) | {"dim": _dim(r, s)})),
    **dict.fromkeys(
        ("alias", "clone", "contiguous", "detach", "to", "_to_copy", "lift_fresh_copy", "type_as", "zeros_like", "ones_like"), (ALL, _kept)
    ),
    "dropout": (ALL, _dropped),
    **dict.fromkeys(("add_", "copy_", "mul_", "sub_", "div_", "fill_", "zero_", "lerp_"), (ALL, _written)),
}
# Operators without a rule of their own: number by number, and some that every worker computes whole.
_OTHERS: Final = """
add sub mul div gelu relu tanh sigmoid leaky_relu clamp pow where lerp addcmul softplus maximum minimum masked_fill silu exp abs sign floor
eq gt neg square rsub hardtanh logical_not atan2 xlogy cumsum flip roll sort topk repeat triu full_like glu alpha_dropout feature_dropout
rrelu prelu cummax hardswish
"""
OTHERS: Final = tuple(_OTHERS.split())
DRAW_ANY: Final[tuple[tuple[str, ...], Draw]] = (ALL, _pointwise)


def overloads_of(name: str) -> list[OpOverload]:
    """Those that can stand in a traced model, with plain tensors and numbers."""
    packet = getattr(torch.ops.aten, name)
    found = [getattr(packet, one) for one in packet.overloads()]
    kinds = ("Dimname", "Generator? generator,", "Stream", "bool[]", "Layout layout,")
    return [
        one
        for one in found
        if "Tensor" in str(one._schema)
        and not any(kind in str(one._schema) for kind in kinds)
        and not any(argument.is_out for argument in one._schema.arguments)
        and "prim_" not in one._overloadname
        and one._schema.returns
    ]


@dataclass
class Case:
    """One operator with arguments, in a model."""

    kind: str
    overload: OpOverload
    args: list[Any]
    kwargs: dict[str, Any]
    model: nn.Module = field(init=False)

    def __str__(self) -> str:
        return f"{self.overload}({', '.join([*map(str, self.args), *(f'{k}={v}' for k, v in self.kwargs.items())])}) of {self.kind}"


class Called(nn.Module):
    """Only the operator, so that a strategy can name it."""

    def __init__(self, case: Case) -> None:
        super().__init__()
        self.overload, self.args, self.kwargs = case.overload, case.args, case.kwargs
        self.own: list[str] = []
        for made in self._tensors([case.args, list(case.kwargs.values())]):
            if made.kind in ("parameter", "vector") and self._name(made) not in self.own:
                self.register_parameter(self._name(made), nn.Parameter(torch.randn(made.sizes)))
            elif made.kind in ("buffer", "other") and self._name(made) not in self.own:
                self.register_buffer(self._name(made), torch.rand(made.sizes) + 0.5)
            else:
                continue
            self.own.append(self._name(made))

    def _tensors(self, value: Any) -> list[Made]:
        if isinstance(value, Made):
            return [value]
        return [one for inner in value for one in self._tensors(inner)] if isinstance(value, list) else []

    @staticmethod
    def _name(made: Made) -> str:
        return f"{made.kind}_{'_'.join(map(str, made.sizes))}"

    def forward(self, value: Tensor, twin: Tensor) -> Any:
        def tensor(made: Any) -> Any:
            if isinstance(made, list):
                return [tensor(one) for one in made]
            if not isinstance(made, Made):
                return made
            match made.kind:
                case "value":
                    return value
                case "twin":
                    return twin
                case "turned":
                    return twin.transpose(-1, -2)
                case "mean":
                    return twin.mean(0).detach()
                case "reduced":
                    return value.mean(list(made.sizes), keepdim=True)
                case "condition":
                    return twin > 0
                case "ids":
                    return (
                        (twin.detach().abs() * 5).long() % made.below if made.below != 12 else (twin.detach()[..., 0].abs() * 9).long() % 12
                    )
            return getattr(self, self._name(made))

        found = self.overload(*tensor(self.args), **{name: tensor(one) for name, one in self.kwargs.items()})
        if self.overload._schema.is_mutable and self.overload._schema.name.endswith("_"):  # what was written into a buffer is read again
            return [value + getattr(self, self._name(self.args[0]))]
        return list(found) if isinstance(found, list | tuple) else [found]


class Around(nn.Module):
    """What goes through the operator was made by a module, and what it gives goes into another."""

    def __init__(self, case: Case, *, linear: bool) -> None:
        super().__init__()
        shape = KINDS[case.kind]
        self.kind = case.kind
        self.before, self.beside = (self._producer(shape, linear=linear or i == 1) for i in range(2))
        self.called = Called(case)
        wide = 1
        for size in shape:
            wide *= size
        self.trunk = nn.Linear(wide, CLASSES)
        self.heads = nn.ModuleDict()
        self.places: list[int | None] = []
        self._fit()

    def _producer(self, shape: Shape, *, linear: bool) -> nn.Module:
        if not linear:
            return Scaled(shape)
        match self.kind:
            case "image":
                return nn.Conv2d(shape[0], shape[0], 1)
            case "signal":
                return nn.Conv1d(shape[0], shape[0], 1)
            case "heads":
                return Heads(shape)
        return nn.Linear(shape[-1], shape[-1])

    def _fit(self) -> None:
        """Finds where the rows are in what the operator gives to doubles."""
        self.double()
        shape = KINDS[self.kind]
        state = {name: buffer.clone() for name, buffer in self.named_buffers()}
        with torch.no_grad():
            found = []
            for rows in (5, 7):
                x = torch.randn(rows, *shape, dtype=torch.float64)
                found.append([out.shape for out in self.called(self.before(x), self.beside(x))])
            for name, buffer in self.named_buffers():
                buffer.copy_(state[name])
        for i, (few, more) in enumerate(zip(*found, strict=True)):
            places = [d for d in range(len(few)) if (few[d], more[d]) == (5, 7)]
            others = [d for d in range(len(few)) if few[d] != more[d] and d not in places]
            self.places.append(places[0] if len(places) == 1 and not others else None)
            if self.places[-1] is not None:
                numbers = few.numel() // 5
                self.heads[str(i)] = nn.Linear(numbers, CLASSES, dtype=torch.float64)

    def forward(self, x: Tensor) -> Tensor:
        value, twin = self.before(x), self.beside(x)
        out = self.trunk(value.flatten(1))
        for i, given in enumerate(self.called(value, twin)):
            place, given = self.places[i], given if given.is_floating_point() else given.to(x.dtype)
            given = given.to(x.dtype)
            if place is None:
                out = out + given.mean()
            else:
                out = out + self.heads[str(i)](given.movedim(place, 0).flatten(1))
        return out


class Scaled(nn.Module):
    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.randn(shape))

    def forward(self, x: Tensor) -> Tensor:
        return x * self.scale


class Heads(nn.Module):
    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.heads, self.length, self.width = shape
        self.inner = nn.Linear(self.heads * self.width, self.heads * self.width)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.inner(x.transpose(1, 2).flatten(2)).view(-1, self.length, self.heads, self.width).transpose(1, 2)
        return out


def drawn(number: int, names: list[str]) -> tuple[str, Case, Around, Tensor]:
    """The case of this number. What cannot be called so, as a window larger than its image, is drawn again."""
    for turn in itertools.count():
        r = random.Random(number * 1009 + turn)
        name = names[number % len(names)]
        kinds, draw = DRAW.get(name, DRAW_ANY)
        kind = r.choice(kinds)
        given = draw(r, KINDS[kind])
        overload = r.choice(overloads_of(name))
        arguments: dict[str, Any] = {}
        by_place = True
        args: list[Any] = []
        for argument in overload._schema.arguments:
            wanted = not argument.has_default_value() or r.random() < 0.6
            if argument.name not in given or not wanted:
                by_place = False
                if not argument.has_default_value():
                    break
            elif by_place and not argument.kwarg_only:
                args.append(given[argument.name])
            else:
                arguments[argument.name] = given[argument.name]
        else:
            case = Case(kind, overload, args, arguments)
            torch.manual_seed(number)
            try:
                model = Around(case, linear=r.random() < 0.6).double()
                out = model(torch.randn(ROWS, *KINDS[kind], dtype=torch.float64))
                out.sum().backward()
                if bool(out.isfinite().all()) and all(p.grad is None or bool(p.grad.isfinite().all()) for p in model.parameters()):
                    model.zero_grad()
                    return name, case, model, torch.randn(ROWS, *KINDS[kind], dtype=torch.float64)
            except (RuntimeError, IndexError, TypeError, ValueError, NotImplementedError):
                pass
        if turn > 2000:
            raise AssertionError(f"nothing that {name} can be called with was drawn")
    raise AssertionError

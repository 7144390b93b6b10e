"""Arguments that a rule does not know are refused with a reason, and what is worked out of the number of rows stays what it is."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from laminar.core.errors import LaminarError
from laminar.parallel.split.operator_rule import OperatorRule
from laminar.parallel.split.ops import rule_for
from laminar.parallel.split.ops.windows import max_pool
from laminar.parallel.split.place import Decision, Placed, Site, place
from laminar.parallel.split.prepare import placed_model
from laminar.parallel.split.rules import Rules
from laminar.parallel.split.trace import trace
from laminar.parallel.split.traffic import traffic
from tests.torch.parallel.split_models import images, words
from tests.torch.parallel.test_split_exact import TWO, check


class With(nn.Module):
    """A function between two products."""

    def __init__(self, function: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.inner, self.head, self.function = nn.Linear(784, 16), nn.Linear(16, 10), function

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.head(self.function(torch.relu(self.inner(x.flatten(1)))))
        return out


class Pooled(nn.Module):
    def __init__(self, pool: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.conv, self.head, self.pool = nn.Conv2d(1, 4, 3, padding=1), nn.LazyLinear(10), pool

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.head(self.pool(self.conv(x)).flatten(1))
        return out


def placed(model: nn.Module, x: Tensor, rules: Rules) -> Placed:
    return placed_model(model, (model, [x[:2]]), (model, [x[:2]]), rules)[0]


@pytest.mark.parametrize("split", ["height", "width", "batch", "channels"])
@pytest.mark.parametrize(
    "pool",
    [
        nn.MaxPool2d(3, 2, ceil_mode=True),
        nn.MaxPool2d((3, 2), (2, 3), (1, 0), ceil_mode=True),
        lambda x: F.avg_pool2d(x, 3, 2, divisor_override=5),
        lambda x: F.avg_pool2d(x, 2, 2, ceil_mode=True, count_include_pad=False),
    ],
    ids=["max", "max-uneven", "divisor", "ceil"],
)
def test_poolings(pool: Any, split: str) -> None:
    torch.manual_seed(0)
    model, x = Pooled(pool), images()
    model(x)
    check((model, x), TWO, {split: "cols"})


@pytest.mark.parametrize("split", ["batch", "hidden"])
@pytest.mark.parametrize(
    "function",
    [
        F.normalize,
        lambda x: x / x.size(0) ** 0.5,
        lambda x: x * (1.0 / (x.shape[0] + 1)) - x.shape[0] // 2,
        lambda x: x.type_as(x.detach()) + x.reshape(-1, 4, 4).sum(1, keepdim=True).expand(-1, 4, 4).reshape_as(x),
        lambda x: x + (x @ x.t()).mean() * 1e-3,
        lambda x: x + x[torch.arange(x.size(0)), x.argmax(1)][:, None] * 1e-2,
        lambda x: x.sum(dtype=torch.float64).float() * 0.01 + x,
    ],
    ids=["normalize", "root", "arithmetic", "as", "gram", "arange", "dtype"],
)
def test_numbers_of_rows_and_second_tensors(function: Any, split: str) -> None:
    torch.manual_seed(0)
    check((With(function), images()), TWO, {split: "cols"})


class Writes(nn.Module):
    """Into a buffer that is as wide as what is split."""

    def __init__(self) -> None:
        super().__init__()
        self.inner, self.head = nn.Linear(784, 16), nn.Linear(16, 10)
        self.seen: Tensor
        self.register_buffer("seen", torch.ones(16))

    def forward(self, x: Tensor) -> Tensor:
        x = torch.relu(self.inner(x.flatten(1))) + 0.1 * self.seen
        self.seen.mul_(0.9).clamp_(0.5, 2.0)
        out: Tensor = self.head(x)
        return out


def test_a_buffer_that_is_written_into_is_whole() -> None:
    torch.manual_seed(0)
    check((Writes(), images()), TWO, {"hidden": "cols"})


def test_what_a_rule_does_not_know_is_named() -> None:
    model = With(lambda x: x + F.scaled_dot_product_attention(*[x.view(-1, 4, 2, 2)] * 3, enable_gqa=True).flatten(1))
    ops = placed(model, images(), Rules(TWO, {"heads": "cols"})).operations
    (attention,) = [op for op in ops if "attention" in op.call.target]
    assert attention.run == "whole"
    assert "enable_gqa = True" in attention.why


def test_a_rule_cannot_read_what_it_does_not_declare() -> None:
    class Pool(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return torch.max_pool2d(x, 2)

    traced = trace(Pool(), [images()], str, training=True)
    forgetful = OperatorRule(max_pool, tensors=frozenset({"self"}), reads=frozenset({"kernel_size"}))
    with pytest.MonkeyPatch.context() as patch, pytest.raises(KeyError, match="reads stride, but does not declare it"):
        patch.setattr("laminar.parallel.split.ops.rule_for", lambda _: forgetful)
        place(traced, Rules(TWO, {"height": "cols"}))


def test_an_argument_that_our_kernel_does_not_get_is_refused() -> None:
    """It would be passed on to the operator, which our kernel does not run."""

    def by_ours(site: Site) -> Decision:
        return Decision([site.have[0]], [site.have[0]], run="same")

    rule = OperatorRule(by_ours, tensors=frozenset({"self"}), passes=frozenset({"approximate"}))
    traced = trace(With(lambda x: F.gelu(x, approximate="tanh")), [images()], str, training=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("laminar.parallel.split.ops.rule_for", lambda call: rule if "gelu" in call.target else rule_for(call))
        (gelu,) = [op for op in place(traced, Rules(TWO, {"hidden": "cols"})).operations if "gelu" in op.call.target]
    assert gelu.run == "whole"
    assert "approximate" in gelu.why


@torch.no_grad()
def without_gradients(x: Tensor) -> Tensor:
    return x.tanh()


@pytest.mark.parametrize(
    ("function", "said"),
    [
        (lambda x: torch.stack([part.sum() for part in x.split(4)]).sum() + x, "2 to 4 rows only"),
        (lambda x: torch.ops.aten._unsafe_view(x, [-1, 16]), "workers do not run"),
        (lambda x: x * x.sum().item(), "cannot be split"),
        (lambda x: x + without_gradients(x), r"call \.detach\(\) on the result instead"),
    ],
    ids=["pieces of the batch", "unknown operator", "a number of the values", "no_grad"],
)
def test_what_cannot_be_traced_for_any_batch_is_refused(function: Any, said: str) -> None:
    with pytest.raises(LaminarError, match=said) as raised:
        placed(With(function), images(), Rules(TWO, {"hidden": "cols"}))
    assert raised.value.code == "L209"


class Aside(nn.Module):
    """Something beside the way to the output, of which no gradient comes back."""

    def __init__(self, function: Callable[[Tensor, Tensor], Tensor]) -> None:
        super().__init__()
        self.embed, self.aside, self.head, self.function = nn.Embedding(50, 16), nn.Linear(16, 16), nn.Linear(16, 10), function

    def forward(self, x: Tensor) -> Tensor:
        y = self.embed(x)
        out: Tensor = self.head(self.function(y, self.aside(y)).mean(1))
        return out


@pytest.mark.parametrize(
    "function",
    [
        lambda x, other: x.view_as(other),
        lambda x, other: x.type_as(other),
        lambda x, other: x.mean(2, keepdim=True).expand_as(other) + x,
        lambda x, other: x + torch.zeros_like(other),
        lambda x, other: x + torch.ones_like(other),
        lambda x, other: x + other.detach(),
        lambda x, other: x.where(other > 0, x * 2),
        lambda x, other: x.gather(2, other.argmax(2, keepdim=True)) + x,
    ],
    ids=["view_as", "type_as", "expand_as", "zeros_like", "ones_like", "detach", "compared", "argmax"],
)
def test_no_bytes_are_told_for_gradients_that_do_not_come_back(function: Any) -> None:
    torch.manual_seed(0)
    model, x = Aside(function), words()
    layout = placed(model, x, Rules(TWO, {"batch": "cols"}))
    assert not any(name.startswith("aside") for name in traffic(layout, {"cols": 0}, 6, lambda _: True).gradients)
    check((model, x), TWO, {"hidden": "cols"})


def test_a_root_of_the_rows_is_a_number() -> None:
    rules = Rules(TWO, {"batch": "cols"})
    divided = next(op for op in placed(With(lambda x: x / x.size(0) ** 0.5), images(), rules).operations if ".div." in op.call.target)
    assert divided.call.args[1].of(16) == math.sqrt(16)
    assert "rows of the batch" in divided.why or divided.run == "whole"

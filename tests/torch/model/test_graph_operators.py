"""The table of operators: calls that crashed or read behind a tensor are refused, and hostile arguments of any operator end in no crash."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from laminar.core.errors import LaminarError
from laminar.model.graph_ir import LEAF, Body, Ref, Spec, Step
from laminar.model.graph_module import GraphModule, Home
from laminar.model.graph_ops import ALLOWED, NUMBERS, operator_called
from tests.nets import graph_operators

SEEDS = 2 * len(ALLOWED)  # twice every overload


def called(target: str, *args: Any, **named: Any) -> Any:
    """As a graph calls it: tensors are values of the run."""
    leaves: list[Any] = []

    def held(value: Any) -> Any:
        if isinstance(value, Tensor):
            leaves.append(value)
            return Ref(len(leaves) - 1)
        return tuple(held(item) for item in value) if isinstance(value, list) else value

    fixed, more = tuple(map(held, args)), tuple((name, held(value)) for name, value in named.items())
    step = Step(f"torch.ops.aten.{target}", fixed, more, (len(leaves),), False)
    many = Spec("tuple", (), (Spec("tuple", (), (LEAF,) * len(leaves)), Spec("dict")))
    module = GraphModule("", "Net", Home({}))
    body = Body(many, tuple(range(len(leaves))), (), (step,), (Ref(len(leaves)),), LEAF, (), (), len(leaves) + 1)
    module.set_bodies(True, [body])
    return module(*leaves)


def ones(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.ones(shape, dtype=dtype)


DEADLY: dict[str, tuple[str, tuple[Any, ...], dict[str, Any]]] = {
    "segment_reduce": ("segment_reduce.default", (ones(4), "sum"), {"lengths": torch.tensor([1 << 28]), "unsafe": True}),
    "short statistics": (
        "_native_batch_norm_legit.default",
        (ones(2, 100_000, 3), ones(1), ones(1), ones(1), ones(1), True, 0.1, 1e-5),
        {},
    ),
    "short statistics, judging": ("native_batch_norm.default", (ones(2, 9, 3), ones(1), ones(1), ones(1), ones(1), False, 0.1, 1e-5), {}),
    "short statistics, no training": (
        "_native_batch_norm_legit_no_training.default",
        (ones(2, 9, 3), ones(1), ones(1), ones(1), ones(1), 0.1, 1e-5),
        {},
    ),
    "no statistics": ("_native_batch_norm_legit.no_stats", (ones(2, 9, 3), None, None, False, 0.1, 1e-5), {}),
    "weight norm": ("_weight_norm_interface.default", (ones(1000, 3), ones(1, 1), 0), {}),
    "weight norm of modules": ("_weight_norm.default", (ones(4, 3, 5), ones(5, 0), 0), {}),
    "a dtype that is a number": ("sum.default", (ones(3),), {"dtype": 1 << 62}),
    "keys of fewer heads": (
        "_scaled_dot_product_flash_attention_for_cpu.default",
        (ones(2, 4, 64, 8), ones(1, 1, 64, 8), ones(1, 1, 1, 8)),
        {},
    ),
    "no heads to share": (
        "scaled_dot_product_attention.default",
        (ones(2, 4, 5, 4), ones(2, 0, 6, 4), ones(2, 2, 6, 4), None, 0.0, False),
        {"enable_gqa": True},
    ),
    "offsets that leave out": (
        "_embedding_bag.default",
        (ones(7, 4), torch.arange(6), torch.zeros(3, dtype=torch.int64), True, 0, False, ones(6), True, -1),
        {},
    ),
    "weights of a recurrent network": (
        "lstm.input",
        (ones(2, 5, 3), [ones(1, 2, 4), ones(1, 2, 4)], [ones(16, 3), ones(16, 3)], False, 1, 0.0, False, False, True),
        {},
    ),
    "a scale that is another": ("_upsample_bicubic2d_aa.default", (ones(2, 3, 6, 6), [4, 5], False, 0.1, 0.1), {}),
    "complex numbers": ("conv3d.default", (ones(1, 1, 4, 4, 4, dtype=torch.complex64), ones(1, 1, 4, 4, 4, dtype=torch.complex64)), {}),
    "a kernel of another size": (
        "slow_conv3d.default",
        (ones(2, 3, 5, 5, 5), ones(4, 3, 3, 3, 1), [3, 3, 3], ones(4), [1, 1, 1], [1, 1, 1]),
        {},
    ),
    "nothing to compare": ("pdist.default", (ones(0, 5),), {"p": float("inf")}),
    "expanded weights": ("native_group_norm.default", (ones(4, 6, 6), ones(1).expand(6), ones(6), 4, 6, 6, 3, 1e-3), {}),
    "no tensor": ("copy.default", (None, ones(4)), {}),
    "an endless power": ("matrix_power.default", (ones(0, 2, 2), -(1 << 63)), {}),
    "out": ("add.out", (ones(3), ones(3)), {"out": ones(3)}),
    "a storage": ("set_.source_Tensor", (ones(3), ones(3)), {}),
}


@pytest.mark.parametrize("name", DEADLY)
def test_calls_that_crash_are_refused(name: str) -> None:
    target, args, named = DEADLY[name]
    with pytest.raises(LaminarError, match="the graph calls") as caught:
        called(target, *args, **named)
    assert caught.value.code == "L207"


def test_none_as_a_value_of_the_run_is_no_tensor() -> None:
    module = GraphModule("", "Net", Home({}))
    many = Spec("tuple", (), (Spec("tuple", (), (LEAF, LEAF)), Spec("dict")))
    step = Step("torch.ops.aten.copy.default", (Ref(0), Ref(1)), (), (2,), False)
    module.set_bodies(True, [Body(many, (0, 1), (), (step,), (Ref(2),), LEAF, (), (), 3)])
    with pytest.raises(LaminarError, match="cannot be None"):
        module(None, ones(4))


def test_memory_is_never_shown_as_it_was_found() -> None:
    for _ in range(5):
        torch.full((4096,), 7.0)
        assert not called("empty.memory_format", [4096]).any()
        assert not called("new_empty.default", ones(2), [4096]).any()
        assert not called("empty_like.default", ones(4096)).any()


def test_sizes_are_calculated_with_sizes_only() -> None:
    assert NUMBERS["_operator.mul"](3, 4) == 12
    for values in ([1 << 40, 1 << 40], [[1], 1 << 40], ["x", 9]):
        with pytest.raises(LaminarError, match="calculates"):
            NUMBERS["_operator.mul"](*values)


def test_every_overload_has_a_call_that_works() -> None:
    assert set(graph_operators.calls()) == ALLOWED
    for target in ALLOWED:
        assert str(operator_called(target)) == target.removeprefix("torch.ops.")
        assert not any(argument.is_out for argument in operator_called(target)._schema.arguments)  # type: ignore[attr-defined]


def test_hostile_arguments_of_any_operator_crash_nothing() -> None:
    try:
        words = [graph_operators.check(seed) for seed in range(SEEDS)]
    finally:
        graph_operators.close()
    assert words.count("ran") + words.count("ran back") > SEEDS / 3  # else the net tries nothing
    assert words.count("refused") > SEEDS / 50

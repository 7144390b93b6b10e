"""Operators are measured in the shapes that workers have, once; and what they exchange is what workers do."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch

from laminar.core.errors import LaminarError
from laminar.parallel.split.dims import local_sizes
from laminar.parallel.split.traffic import traffic
from laminar.plan.profile import meter as meters
from laminar.plan.profile.measure import Profile
from laminar.plan.profile.one_operator import Site
from laminar.plan.profile.operators import LOSS, last_place
from laminar.plan.profile.patterns import Pattern, laid, pattern_of
from laminar.plan.profile.timing import as_in_training
from laminar.plan.profile.traced_job import TracedJob, rules
from laminar.train.splitting import Pipeline
from tests.torch.plan.profile_jobs import made, profile

SPLITS: list[tuple[str, dict[str, int], dict[str, str], dict[str, Any]]] = [
    ("mlp", {"cols": 2}, {"hidden": "cols"}, {}),
    ("mlp", {"rows": 2, "cols": 2}, {"batch": "rows", "hidden": "cols"}, {}),
    ("cnn", {"cols": 2}, {"channels": "cols"}, {}),
    ("cnn", {"rows": 2, "cols": 2}, {"height": "rows", "width": "cols"}, {}),
    ("cnn", {"cols": 3}, {"width": "cols"}, {}),
    ("cnn", {"rows": 2, "cols": 2}, {"batch": "rows", "channels": "cols"}, {"features.0": {"height": "cols"}, "head": {}}),
    ("words", {"cols": 2}, {"hidden": "cols"}, {}),
    ("words", {"rows": 2, "cols": 2}, {"vocab": "rows", "hidden": "cols"}, {}),
]


@pytest.fixture(scope="module")
def known(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Profile]:
    """One for each model: what was measured in one test is known in the next."""
    folder = tmp_path_factory.mktemp("known")
    return cache(lambda name: profile(made(name, folder)))


@pytest.mark.parametrize(("name", "mesh", "split", "module"), SPLITS)
def test_exchanges_are_those_of_traffic_to_the_byte(known: Any, name: str, mesh: Any, split: Any, module: Any) -> None:
    found, traced = known(name).cost(mesh, split, module, 16), known(name)._traced
    placed, _ = traced.placed(rules(mesh, split, module))
    counted = traffic(placed, last_place(mesh), 16, lambda tensor: tensor in traced.trained)
    assert len(found.operators) == len(placed.operations) + 1
    for cost, sent in zip(found.operators, [*counted.operators, counted.output], strict=True):
        assert sum(some.bytes for some in (*cost.before, *cost.after)) == sent.forward, cost.name
        assert sum(some.bytes for some in cost.back) == sent.backward, cost.name
    every = [some for cost in found.operators for some in (*cost.before, *cost.after, *cost.back)]
    assert sum(some.bytes for some in (*every, *found.gradients)) == counted.step > 0
    assert {some.axis for some in every} <= set(mesh)


@pytest.mark.parametrize(("name", "mesh", "split", "module"), SPLITS)
def test_made_up_operands_have_the_shapes_of_a_workers_parts(known: Any, name: str, mesh: Any, split: Any, module: Any) -> None:
    """And the kernels take them."""
    measured = known(name)
    traced: TracedJob = measured._traced
    placed, _ = traced.placed(rules(mesh, split, module))
    measured.cost(mesh, split, module, 16)
    assert measured._operators.odd == {}
    at = last_place(mesh)
    site = Site(placed, at, 16, {}, traced.flow.learns)
    for op in placed.operations:
        for i, (node, need) in enumerate(zip(op.operands, op.needs, strict=False)):
            tensor = site.operand(op, i).made()
            assert tuple(tensor.shape) == local_sizes(need, at, mesh, 16), (op.call.name, node)
            assert tensor.dtype == placed.traced.dtypes[node][0]
            assert tensor.requires_grad == (node in traced.flow.learns and tensor.is_floating_point())


def test_a_worker_has_less_to_do_the_more_share_the_model(known: Any) -> None:
    measured = known("mlp")
    whole, half = measured.cost({}, {}, {}, 16), measured.cost({"cols": 2}, {"hidden": "cols"}, {}, 16)
    assert half.trained < 0.6 * whole.trained
    hidden = next(one for one in half.operators if one.name == "linear")
    assert hidden.given == next(one for one in whole.operators if one.name == "linear").given // 2
    assert whole.trained == 4 * measured.job().parameters
    assert whole.gradients == () and all(not one.before + one.after + one.back for one in whole.operators)


def test_needs_follow_the_values(known: Any) -> None:
    measured = known("words")
    found = measured.cost({}, {}, {}, 16).operators
    flow = measured.flow()
    for cost, op in zip(found, flow.operations, strict=False):
        assert cost.needs == tuple(sorted({flow.maker[node] for node in op.operands if node in flow.maker}))
        assert all(maker < i for i, one in enumerate(found) for maker in one.needs)
    assert found[-1].name == LOSS and found[-1].needs == (len(found) - 2,)
    assert all(one.forward > 0 for one in found)


def test_what_the_backward_pass_needs_stays_in_memory(known: Any) -> None:
    rows = 4096  # of few, a gradient may take no longer than what autograd adds to it, which is subtracted
    found = {one.name: one for one in known("mlp").cost({}, {}, {}, rows).operators}
    assert found["relu"].kept == found["relu"].given == rows * 32 * 4  # looked at by its own gradient, and by the next weight's
    assert found["linear"].kept == 0 and found["linear"].weights > 0
    assert found["linear"].inputs == 0  # nobody asks for gradients of samples
    assert found["linear_1"].inputs > 0
    assert found["relu"].weights == 0


def test_a_model_is_measured_once(tmp_path: Path) -> None:
    path = tmp_path / "kept.sqlite"
    first = profile(made("cnn", tmp_path), path)
    there = first.cost({}, {}, {}, 16), first.cost({"cols": 2}, {"channels": "cols"}, {}, 16)
    assert first.meter.measured > 20
    again = profile(made("cnn", tmp_path), path)
    assert (again.cost({}, {}, {}, 16), again.cost({"cols": 2}, {"channels": "cols"}, {}, 16)) == there
    assert again.meter.measured == 0
    assert again.scales == first.scales


def test_equal_operators_are_measured_once(tmp_path: Path) -> None:
    measured = profile(made("words", tmp_path))
    found = measured._operators.cost(measured.flow().placed, 16)
    kinds = {one.name.rstrip("_0123456789") for one in found.operators}
    assert len(kinds) < measured.meter.measured < len(found.operators)


def test_other_threads_and_another_torch_are_other_measurements(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "kept.sqlite"
    profile(made("mlp", tmp_path), path).whole(16)
    again = profile(made("mlp", tmp_path), path)
    again.whole(16)
    assert again.meter.measured == 0
    again.whole(16, threads=2)
    assert again.meter.measured == 1
    monkeypatch.setattr(meters, "torch_version", lambda: "99.0")
    other = profile(made("mlp", tmp_path), path)
    other.whole(16)
    assert other.meter.measured == 1


@pytest.mark.parametrize("threads", [1, 2])
def test_workers_with_more_threads_are_measured_with_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, threads: int) -> None:
    """Operators, whole passes, a worker alone: all that a mesh, a pipeline or branches are priced by."""
    seen: list[int] = []

    @contextlib.contextmanager
    def watched(count: int) -> Iterator[None]:
        seen.append(count)
        with as_in_training(count):
            assert torch.get_num_threads() == count
            yield

    monkeypatch.setattr(meters, "as_in_training", watched)
    measured = profile(made("mlp", tmp_path))
    mesh, split = {"cols": 2}, {"hidden": "cols"}
    found = measured.cost({}, {}, {}, 16, threads)
    assert found.forward == pytest.approx(measured.whole(16, "program", threads).forward)
    measured.cost(mesh, split, {}, 16, threads)
    measured.check(mesh, split, {}, 16, threads)
    assert measured.cost(mesh, split, {}, 16, threads).forward == pytest.approx(measured.dry(mesh, split, {}, 16, threads).forward)
    measured.stages(Pipeline(stages=2, microbatches=2), 16, threads)
    assert set(seen) == {threads}


def test_rules_that_the_model_does_not_allow(known: Any) -> None:
    measured = known("mlp")
    for split, module in (({"channels": "cols"}, {}), ({"hidden": "cols"}, {"nowhere": {"hidden": "cols"}})):
        with pytest.raises(LaminarError) as caught:
            measured.cost({"cols": 2}, split, module, 16)
        assert caught.value.code == "L012"
    with pytest.raises(LaminarError) as caught:
        measured.cost({"cols": 3}, {"hidden": "cols"}, {}, 16)
    assert caught.value.code == "L012"


def test_calibrated_times_add_up_to_a_measured_pass(known: Any) -> None:
    measured = known("mlp")
    whole, found = measured.whole(16, "program"), measured.cost({}, {}, {}, 16)
    assert found.forward == pytest.approx(whole.forward)
    assert found.backward == pytest.approx(whole.backward)
    scale = measured.scales[16, False, 1]
    plain = measured._operators.cost(measured.flow().placed, 16)
    assert [one.forward for one in found.operators] == pytest.approx([one.forward * scale.forward for one in plain.operators])
    half = measured.cost({"cols": 2}, {"hidden": "cols"}, {}, 16)
    assert half.forward > 0 and measured.scales[16, False, 1] == scale


@pytest.mark.parametrize(
    "tensor",
    [
        torch.empty(3, 4, 5).transpose(1, 2),
        torch.empty(4, 12)[:, 4:8],
        torch.empty(5, 1).expand(5, 6),
        torch.empty(2, 6, 4).permute(2, 0, 1)[1:3],
        torch.empty(3, 1, 5).transpose(0, 2),
    ],
)
def test_patterns_of_memory(tensor: torch.Tensor) -> None:
    pattern = pattern_of(tensor)
    made_up = laid(tensor.shape, tensor.dtype, pattern)
    assert made_up.shape == tensor.shape
    several = [d for d in range(tensor.ndim) if tensor.shape[d] > 1]
    assert [made_up.stride(d) for d in several] == [tensor.stride(d) for d in several]


def test_patterns_follow_the_sizes_of_parts() -> None:
    assert pattern_of(torch.empty(3, 4)) is None
    assert Pattern(((0, 1.0), (1, 1.0))).strides((2, 7)) == (1, 2)
    assert laid((2, 3), torch.float32, None).is_contiguous()

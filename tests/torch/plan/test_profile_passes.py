"""Whole passes, and what a job is beside its model: measured once, and nothing of the job is changed by it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from laminar.core.errors import LaminarError
from laminar.data.dataset import Dataset, Split
from laminar.model.freeze import freeze
from laminar.parallel.split.rules import Rules
from laminar.parallel.stages.measure import Cost
from laminar.parallel.stages.prepare import in_stages
from laminar.plan.budget import Budget
from laminar.plan.known import Known
from laminar.plan.profile.loop_trial import loop_gap
from laminar.plan.profile.measure import Profile
from laminar.plan.profile.noise import noise_scale
from laminar.plan.profile.passes import module_pass
from laminar.plan.profile.timing import SHORT, as_in_training
from laminar.plan.profile.traced_job import TracedJob
from laminar.train.job import Job
from laminar.train.splitting import Branches, Pipeline
from tests.torch.parallel.split_models import Wide
from tests.torch.plan.profile_jobs import job, made, profile


def everything(one: Job) -> dict[str, Any]:
    """All of a job and of this process that measuring might change."""
    model = one.model
    return {
        "tensors": {name: tensor.clone() for name, tensor in [*model.named_parameters(), *model.named_buffers()]},
        "grads": [p.grad for p in model.parameters()],
        "learn": [p.requires_grad for p in model.parameters()],
        "modes": [module.training for module in model.modules()],
        "hooks": [len(module._forward_pre_hooks) for module in model.modules()],
        "torch": torch.get_rng_state(),
        "numpy": np.random.get_state(legacy=True)[1].tolist(),  # type: ignore[index, union-attr]
        "threads": torch.get_num_threads(),
        "strict": torch.are_deterministic_algorithms_enabled(),
        "files": sorted(one.folder.rglob("*")),
        "recipe": one.recipe,
    }


def same(a: Any, b: Any) -> bool:
    if isinstance(a, torch.Tensor):
        return torch.equal(a, b)
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(same(a[key], b[key]) for key in a)
    return bool(a == b)


@pytest.mark.parametrize("name", ["cnn", "words", "untraceable"])
def test_a_job_is_what_it_was_after_measuring(tmp_path: Path, name: str) -> None:
    one = made(name, tmp_path / "run", clip=1.0)
    (tmp_path / "run").mkdir()
    one.model.eval()
    before = everything(one)
    found = profile(one)
    found.job()
    found.whole(8)
    found.whole(8, "program", threads=2)
    found.cost({}, {}, {}, 8)
    if name != "untraceable":
        found.cost({"rows": 2}, {"batch": "rows"}, {}, 8)
        found.stages(Pipeline(stages=2, microbatches=2, batch_norm="each"), 8)
        found.dry({"rows": 2}, {"batch": "rows"}, {}, 8)
    after = everything(one)
    for what, value in before.items():
        assert same(value, after[what]), what


def test_frozen_modules_stay_frozen_and_out_of_training(tmp_path: Path) -> None:
    one = made("cnn", tmp_path)
    one.frozen = freeze(one.model, ["features"])
    found = profile(one)
    facts, cost = found.job(), found.cost({}, {}, {}, 8)
    assert facts.parameters == sum(p.numel() for p in one.model.head.parameters())  # type: ignore[union-attr]
    assert cost.trained == 4 * facts.parameters
    assert cost.untrained == facts.untrained > 0
    assert all(op.inputs == op.weights == 0 for op in cost.operators if op.path.startswith("features"))
    one.frozen.digest()
    one.frozen.check()


def test_both_ways_of_a_pass_take_time(tmp_path: Path) -> None:
    found = profile(made("cnn", tmp_path))
    for how in ("module", "program"):
        taken = found.whole(8, how)  # type: ignore[arg-type]
        assert taken.forward > 0 and taken.backward > 0 and taken.rows == 8
    dry = found.dry({"cols": 2}, {"channels": "cols"}, {}, 8)
    assert dry.forward > 0 and dry.backward > 0


def test_rules_that_were_held_against_a_worker_cost_what_it_takes(tmp_path: Path) -> None:
    found = profile(made("cnn", tmp_path))
    mesh, split = {"cols": 2}, {"channels": "cols"}
    other, before = found.cost({"rows": 2}, {"batch": "rows"}, {}, 8), found.cost(mesh, split, {}, 8)
    found.check(mesh, split, {}, 8)
    dry, cost = found.dry(mesh, split, {}, 8), found.cost(mesh, split, {}, 8)
    assert cost.forward == pytest.approx(dry.forward) and cost.backward == pytest.approx(dry.backward)
    assert cost.forward != before.forward and cost.gradients == before.gradients
    assert found.cost({"rows": 2}, {"batch": "rows"}, {}, 8) is other


def test_more_rows_take_longer(tmp_path: Path) -> None:
    one = made("mlp", tmp_path)
    with as_in_training(1):
        few, many = (module_pass(one, rows, SHORT) for rows in (2, 1024))
    assert many[0][0] > 3 * few[0][0]


def test_job_facts(tmp_path: Path) -> None:
    path = tmp_path / "kept.sqlite"
    one = made("mlp", tmp_path, optimizer="adam", batch=20)
    found = profile(one, path).job()
    numbers = 784 * 32 + 32 + 32 * 48 + 48 + 48 * 10 + 10
    assert (found.layer, found.batch, found.samples, found.epochs) == ("layer", 20, 200, 2)
    assert (found.optimizer, found.slots, found.parameters) == ("adam", 2, numbers)
    assert found.row_bytes == 784 * 4
    assert found.gather > 0 and found.loop >= 0
    assert found.step(1 << 23) > found.step(1 << 10) > 0
    assert found.biggest[0] == ("1.weight", 4 * 784 * 32)
    assert found.untrained == 0
    # of a sample: the flat picture is a view; what relu and tanh gave stays, and the loss keeps what it needs
    assert 4 * (32 + 48) <= found.kept_per_row <= 4 * (784 + 2 * (32 + 48 + 10)) + 64
    again = profile(made("mlp", tmp_path, optimizer="adam", batch=20), path)
    assert again.job() == found and again.meter.measured == 0


def test_other_weights_are_another_noise_and_the_same_of_all_else(tmp_path: Path) -> None:
    path = tmp_path / "kept.sqlite"
    first = profile(made("mlp", tmp_path), path)
    first.job(), first.noise()
    other = made("mlp", tmp_path)
    with torch.no_grad():
        next(other.model.parameters()).mul_(2)
    found = profile(other, path)
    found.job()
    assert found.meter.measured == 0
    found.noise()
    assert found.meter.measured == 1


def test_where_there_is_no_time_for_noise_there_is_none(tmp_path: Path) -> None:
    found = profile(made("mlp", tmp_path))
    found.within(Budget(0.0))
    assert found.noise() is None


@pytest.mark.parametrize("options", [{}, {"rows": 20, "batch": 64}, {"accumulate": 4, "clip": 0.1, "optimizer": "sgd", "momentum": 0.9}])
def test_what_a_loop_does_beside_passes_takes_some_time_and_not_long(tmp_path: Path, options: dict[str, Any]) -> None:
    one = made("mlp", tmp_path, **options)
    with as_in_training(1):
        assert 1e-6 < loop_gap(one, SHORT) < 0.1
    assert not list(tmp_path.iterdir())


def noisy(noise: float, folder: Path) -> Job:
    """Regression on one number: gradients differ by the noise in what is to be learned."""
    rng = np.random.default_rng(1)
    x = np.ones((4096, 1), np.float32)
    y = (1.0 + noise * rng.standard_normal((4096, 1))).astype(np.float32)
    model = torch.nn.Linear(1, 1, bias=False)
    torch.nn.init.zeros_(model.weight)
    return Job(
        "n", model, Dataset(Split(x, y), Split(x, y), None), job(model, folder, rows=20, batch=32).recipe, None, folder, tensorboard=False
    )


def test_the_noise_scale_is_variance_by_squared_mean(tmp_path: Path) -> None:
    """The gradient of (w - y)^2 at w = 0 is -2 y: its mean is -2, its variance 4 times that of y; so the scale is the variance of y."""
    for noise in (3.0, 6.0):
        found = noise_scale(noisy(noise, tmp_path), batches=64)
        assert found is not None and found == pytest.approx(noise**2, rel=0.3)
    assert noise_scale(noisy(0.0, tmp_path)) is None  # all alike
    assert noise_scale(job(torch.nn.Linear(784, 10), tmp_path, rows=20)) is None  # too few


def test_a_model_that_cannot_be_traced_is_known_by_its_modules(tmp_path: Path) -> None:
    found = profile(made("untraceable", tmp_path))
    assert found.untraceable is not None and "cannot be traced" in found.untraceable
    assert "modules" in found.notes[0]
    cost, whole = found.cost({}, {}, {}, 16), found.whole(16)
    assert [one.path for one in cost.operators] == ["inner", "act", "head", ""]
    assert (cost.forward, cost.backward) == (pytest.approx(whole.forward), pytest.approx(whole.backward))
    assert cost.operators[0].given == 16 * 16 * 4
    assert found.whole(16, "program") == whole
    assert (found.dimensions(), found.modules(), found.branches()) == ([], {}, 1)
    with pytest.raises(LaminarError) as caught:
        found.cost({"cols": 2}, {"hidden": "cols"}, {}, 16)
    assert caught.value.code == "L209"
    with pytest.raises(LaminarError) as caught:
        found.stages(Pipeline(stages=2), 16)
    assert caught.value.code == "L209"


def test_what_a_planner_chooses_from(tmp_path: Path) -> None:
    found: Profile = profile(made("cnn", tmp_path))
    known: Known = found
    assert known.untraceable is None
    assert {"batch", "channels", "height", "width", "classes"} <= set(found.dimensions())
    assert "features.0" in found.modules() and "head" in found.modules() and "features.2" not in found.modules()
    assert found.branches() == 1
    assert profile(job(Wide(), tmp_path)).branches() == 4
    assert found.digest() == profile(made("cnn", tmp_path)).digest() != profile(made("mlp", tmp_path)).digest()


@pytest.mark.parametrize("how", [Pipeline(stages=2, microbatches=4), Branches(lanes=2)])
def test_stages_are_those_of_the_executor(tmp_path: Path, how: Any) -> None:
    one = job(Wide(), tmp_path)
    found = profile(one)
    stages = found.stages(how, 16)
    cost = found._cost(Rules({}), 16 // stages.batches, staged=True)
    flows = TracedJob(one).flows(Rules({}))
    costs = [Cost(op.forward, op.inputs + op.weights) for op in cost.operators[: len(flows[0].operations)]]
    prepared = in_stages(one, how, *flows, costs)
    assert [stage.lane for stage in stages.stages] == [stage.lane for stage in prepared.fit.stages]
    assert sum(stage.forward for stage in stages.stages) == pytest.approx(cost.forward)
    assert sum(stage.inputs + stage.weights for stage in stages.stages) == pytest.approx(cost.backward)
    assert sum(stage.trained for stage in stages.stages) >= cost.trained
    assert (16 // stages.batches, True, 1) in found.scales


@pytest.mark.parametrize("name", ["cnn", "untraceable"])
def test_what_workers_exchange_for_batch_norms_is_known_of_any_model(tmp_path: Path, name: str) -> None:
    one = made(name, tmp_path / "run")
    norms = [module.num_features for module in one.model.modules() if isinstance(module, torch.nn.modules.batchnorm._BatchNorm)]
    rows = profile(one, tmp_path / "kept.sqlite").job().rows
    assert rows.channels == norms and rows.learned == [True] * len(norms) and not rows.mixes

"""Models that cannot be traced: their modules are found by running them, measured one by one, and kept."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
import torch
from torch import Tensor, nn

from laminar.core.errors import LaminarError
from laminar.plan.budget import Budget
from laminar.plan.facts import ModelCost
from laminar.plan.profile.by_modules import REST
from laminar.plan.profile.measure import Profile
from laminar.plan.profile.module_calls import record
from laminar.train.splitting import Pipeline
from tests.torch.plan.profile_jobs import job, made, profile

ROWS = 16


class Looped(nn.Module):
    """As often as the samples say; the same module each time."""

    def __init__(self) -> None:
        super().__init__()
        self.enter, self.again, self.head = nn.Linear(784, 32), nn.Linear(32, 32), nn.Linear(32, 10)

    def forward(self, x: Tensor) -> Tensor:
        y = self.enter(x.flatten(1))
        for _ in range(2 + int((x.sum() * 0).item())):
            y = torch.tanh(self.again(y))
        out: Tensor = self.head(y)
        return out


class Pair(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.left, self.right = nn.Parameter(torch.randn(784, 16)), nn.Parameter(torch.randn(784, 16))

    def forward(self, x: Tensor, *, scale: float = 1.0, more: dict[str, Tensor] | None = None) -> tuple[Tensor, dict[str, Tensor]]:
        assert more is not None and scale == 0.5
        return scale * (x @ self.left), {"right": more["x"] @ self.right}


class Told(nn.Module):
    """Modules with words to their arguments, that give several tensors; attention, which never calls the module inside of it."""

    def __init__(self) -> None:
        super().__init__()
        self.pair, self.attend, self.head = Pair(), nn.MultiheadAttention(16, 2, batch_first=True), nn.Linear(16, 10)
        self.scale = nn.Parameter(torch.ones(1))

    def forward(self, x: Tensor) -> Tensor:
        flat = x.flatten(1)
        left, more = self.pair(flat, scale=0.5, more={"x": flat})
        y = torch.stack([left, more["right"]], 1)
        attended, _ = self.attend(y, y, y, need_weights=False)
        if attended.detach().sum().item() > 1e9:
            attended = -attended
        out: Tensor = self.head(attended.mean(1) * self.scale)
        return out


class Stubborn(nn.Module):
    """Runs only inside of its model, which opens it first."""

    def __init__(self) -> None:
        super().__init__()
        self.own, self.key = nn.Parameter(torch.randn(16)), list[object]()

    def forward(self, x: Tensor) -> Tensor:
        if not self.key:
            raise ValueError("nobody has opened this\nby its key")
        return x * self.own


class WithStubborn(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.enter, self.odd, self.head = nn.Linear(784, 16), Stubborn(), nn.Linear(16, 10)

    def forward(self, x: Tensor) -> Tensor:
        y = self.enter(x.flatten(1))
        self.odd.key.append(object())
        if y.detach().sum().item() < 1e9:
            y = self.odd(y)
        self.odd.key.clear()
        out: Tensor = self.head(y)
        return out


def known(model: nn.Module, folder: Path, path: Path | None = None, **options: Any) -> Profile:
    torch.manual_seed(0)
    found = profile(job(model, folder, **options), path)
    assert found.untraceable is not None and "cannot be traced" in found.untraceable
    return found


def parts(found: Profile, rows: int = ROWS, threads: int = 1) -> ModelCost:
    cost = found.parts(rows, threads)
    assert cost is not None
    whole = found.whole(rows, threads=threads)
    assert (cost.forward, cost.backward) == (pytest.approx(whole.forward), pytest.approx(whole.backward))
    assert cost.operators[-1].name == REST
    return cost


def test_a_decision_by_what_is_computed(tmp_path: Path) -> None:
    """The first module's inputs are samples, and the activation writes into what it is given."""
    found = profile(made("untraceable", tmp_path))
    assert found.parts(ROWS) is None and not found.looked_into  # nobody has looked into it yet
    assert found.untraceable is not None
    cost = parts(found)
    assert [one.path for one in cost.operators] == ["inner", "act", "head", ""]
    inner, act, head, rest = cost.operators
    assert [one.trained for one in cost.operators] == [(0, 1), (), (2, 3), ()]
    assert all(one.forward > 0 and one.inputs > 0 for one in (inner, act, head))
    assert inner.given == ROWS * 16 * 4 and head.given == ROWS * 10 * 4
    # samples, which nobody else has, go into the first; what the activation made of its input stays for both ways
    assert inner.kept == ROWS * 784 * 4 and act.kept == ROWS * 16 * 4
    assert rest.kept >= ROWS * 10 * 4 and head.kept == 0  # tanh, whose result goes into the head, is between modules
    assert found.parts(ROWS) is cost


def test_a_module_that_is_called_twice_is_measured_once(tmp_path: Path) -> None:
    path = tmp_path / "kept.sqlite"
    found = known(Looped(), tmp_path, path)
    cost = parts(found)
    assert [one.path for one in cost.operators] == ["enter", "again", "again", "head", ""]
    assert cost.operators[1].forward == cost.operators[2].forward and cost.operators[1].trained == cost.operators[2].trained == (2, 3)
    assert "4 calls of 3 kinds" in found.notes[0]
    keys = [msgspec.json.decode(row[0]) for row in found.meter.kept._db.execute("SELECT key FROM measured_1")]
    modules = [key for key in keys if key["what"] == "module"]
    assert len(modules) == 3 and {key["type"] for key in modules} == {"torch.nn.modules.linear.Linear"}
    assert all(key["threads"] == 1 and key["torch"] and key["machine"] and key["inputs"] for key in modules)
    again = known(Looped(), tmp_path, path)
    assert parts(again) == cost and again.meter.measured == 0
    parts(again, threads=2)
    assert again.meter.measured == 3 + 1 + 1  # modules, the pass and the engine, with other threads
    before = again.meter.measured
    parts(again, rows=8)
    assert again.meter.measured == before + 3 + 1


def test_arguments_by_name_several_results_and_modules_inside_that_are_not_called(tmp_path: Path) -> None:
    found = known(Told(), tmp_path)
    cost = parts(found)
    assert [one.path for one in cost.operators] == ["pair", "attend", "head", ""]
    pair, attend, head, _ = cost.operators
    assert pair.given == 2 * ROWS * 16 * 4 and attend.given == ROWS * 2 * 16 * 4
    names = [name for name, _ in Told().named_parameters()]
    owned = [[names[i] for i in one.trained] for one in (pair, attend, head)]
    assert owned[0] == ["pair.left", "pair.right"] and "attend.out_proj.weight" in owned[1] and owned[2] == ["head.weight", "head.bias"]
    assert names.index("scale") not in {i for one in cost.operators for i in one.trained}  # the model's own: used between modules
    assert all(one.forward > 0 and one.inputs > 0 for one in (pair, attend, head))
    assert not found._modules.odd


def test_a_module_that_does_not_run_alone_is_part_of_the_rest(tmp_path: Path) -> None:
    found = known(WithStubborn(), tmp_path)
    cost = parts(found)
    enter, odd, _, rest = cost.operators
    assert (odd.path, odd.forward, odd.inputs, odd.trained) == ("odd", 0.0, 0.0, (2,)) and enter.forward > 0
    assert rest.forward > 0
    assert "1 module is in it, too, that could not be run alone: odd (ValueError: nobody has opened this)" in found.notes[0]


def test_frozen_modules_have_no_way_back(tmp_path: Path) -> None:
    one = job(Looped(), tmp_path)
    for parameter in one.model.enter.parameters():  # type: ignore[union-attr]
        parameter.requires_grad_(False)
    found = profile(one)
    assert found.untraceable is not None
    cost = parts(found)
    assert cost.operators[0].inputs == 0 and cost.operators[0].trained == () and cost.operators[1].trained == (0, 1)


def test_a_job_is_what_it_was(tmp_path: Path) -> None:
    one = made("untraceable", tmp_path)
    one.model.eval()
    before = {name: value.clone() for name, value in one.model.state_dict().items()}
    found = profile(one)
    assert found.untraceable is not None
    parts(found)
    assert all(torch.equal(before[name], value) for name, value in one.model.state_dict().items())
    assert not one.model.training and all(parameter.grad is None for parameter in one.model.parameters())
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in one.model.modules())


def test_what_is_lost_is_told(tmp_path: Path) -> None:
    found = known(Looped(), tmp_path)
    assert "no time to measure its modules" in found.notes[0]
    parts(found)
    note = found.notes[0]
    assert "% of a pass" in note and "a piece of its own" in note
    assert "what is lost: no plan splits its operators (mesh), cuts it (pipeline) or shares out its branches" in note
    with pytest.raises(LaminarError) as caught:
        found.stages(Pipeline(stages=2), ROWS)
    assert caught.value.code == "L209"


def test_without_time_a_pass_is_one_piece(tmp_path: Path) -> None:
    found = known(Looped(), tmp_path)
    found.whole(ROWS)
    found.within(Budget(0.0))
    assert found.parts(ROWS) is None


def test_settings_shapes_and_precision_tell_modules_apart(tmp_path: Path) -> None:
    def keys(model: nn.Module, rows: int = ROWS, **options: Any) -> list[str]:
        return [repr(call.key) for call in record(job(model, tmp_path, **options), rows).calls]

    plain = keys(Looped())
    assert plain[1] == plain[2] and len(set(plain)) == 3 and keys(Looped()) == plain
    assert not set(keys(Looped(), 8)) & set(plain)
    assert not set(keys(Looped(), dtype="bfloat16")) & set(plain)
    one, other = Told(), Told()
    other.pair.tempo = 3  # type: ignore[assignment]
    assert [a == b for a, b in zip(keys(one), keys(other), strict=True)] == [False, True, True]

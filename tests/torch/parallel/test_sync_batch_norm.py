"""Batch norms of sync: what one process learns, whoever has which rows; and another key where each worker's rows are by themselves."""

from __future__ import annotations

import contextlib
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

from laminar.core.clock import FakeClock
from laminar.core.errors import LaminarError
from laminar.model.graph import export_forms, load_forms
from laminar.model.weights import state
from laminar.parallel.sync.batch_norms import BatchNorms, Moments, combined, moments_of
from laminar.parallel.sync.row_facts import RowFacts, refuse_mixed
from laminar.parallel.sync.row_probe import row_facts
from laminar.train.compression import TopK
from laminar.train.metrics import Tally
from laminar.train.shares import EVERY, WARM
from laminar.train.snapshot import Run
from laminar.train.strategies import Sync
from laminar.train.team import Step, WholeModel
from laminar.train.together import Together
from tests.torch.parallel.batch_norm_teams import CLASSES, LINKS, alone, apart, distance, job, together

EXACT = 1e-6  # after one step


def seeded(*modules: nn.Module) -> nn.Module:
    generator = torch.Generator().manual_seed(3)
    model = nn.Sequential(*modules)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(0.3 * torch.randn(parameter.shape, generator=generator) + (1.0 if parameter.ndim == 1 else 0.0))
    return model


def lines(norm: nn.Module) -> nn.Module:
    return seeded(nn.Linear(4, 6), norm, nn.Tanh(), nn.Linear(6, CLASSES))


def images(norm: nn.Module) -> nn.Module:
    return seeded(nn.Conv2d(2, 5, 3), norm, nn.Tanh(), nn.Flatten(), nn.Linear(5 * 16, CLASSES))


def volumes(norm: nn.Module) -> nn.Module:
    return seeded(nn.Conv3d(1, 3, 2), norm, nn.Tanh(), nn.Flatten(), nn.Linear(3 * 8, CLASSES))


class Own(nn.Module):
    """Batch norms that are no modules, one of them of the samples themselves, whose gradient nobody needs."""

    def __init__(self, ways: str = "functional") -> None:
        super().__init__()
        self.inner, self.head, self.ways = nn.Linear(4, 6), nn.Linear(6, CLASSES), ways
        self.register_buffer("mean", torch.zeros(6))
        self.register_buffer("variance", torch.ones(6))
        seeded(self.inner, self.head)

    def norm(self, x: Tensor) -> Tensor:
        ops: Any = torch.ops.aten
        args = (None, None, self.mean, self.variance, self.training)
        if self.ways == "functional":
            return F.batch_norm(x, self.mean, self.variance, training=self.training)
        if self.ways == "aten":
            return ops.batch_norm.default(x, *args, 0.1, 1e-5, False)  # type: ignore[no-any-return]
        if self.ways == "legit":
            return ops._native_batch_norm_legit.default(x, *args, 0.1, 1e-5)[0]  # type: ignore[no-any-return]
        found = ops._native_batch_norm_legit_functional.default(x, *args, 0.1, 1e-5)
        self.mean, self.variance = found[3].detach(), found[4].detach()
        return found[0]  # type: ignore[no-any-return]

    def forward(self, x: Tensor) -> Tensor:
        x = F.batch_norm(x, None, None, training=True)
        out: Tensor = self.head(torch.tanh(self.norm(self.inner(x))))
        return out


class Checkpointed(nn.Module):
    """Computes its batch norm again in the backward pass."""

    def __init__(self) -> None:
        super().__init__()
        self.body, self.head = seeded(nn.Linear(4, 6), nn.BatchNorm1d(6), nn.Tanh()), nn.Linear(6, CLASSES)
        seeded(self.head)

    def forward(self, x: Tensor) -> Tensor:
        found = checkpoint(self.body, x, use_reentrant=False) if self.training else self.body(x)
        out: Tensor = self.head(found)
        return out


class OfGradients(nn.Module):
    """Has the gradient of something normalised among its outputs."""

    def __init__(self) -> None:
        super().__init__()
        self.body, self.head = seeded(nn.Linear(4, 6), nn.BatchNorm1d(6), nn.Tanh(), nn.Linear(6, 1)), nn.Linear(4, CLASSES)
        seeded(self.head)

    def forward(self, x: Tensor) -> Tensor:
        with torch.enable_grad():
            x = x.detach().requires_grad_()
            (grad,) = torch.autograd.grad(self.body(x).sum(), x, create_graph=True)
        out: Tensor = self.head(10 * grad + x)
        return out


CASES: dict[str, tuple[Any, dict[str, Any]]] = {
    "1d": (lambda: lines(nn.BatchNorm1d(6)), {}),
    "2d": (lambda: images(nn.BatchNorm2d(5)), {"shape": (2, 6, 6)}),
    "3d": (lambda: volumes(nn.BatchNorm3d(3)), {"shape": (1, 3, 3, 3)}),
    "sequences": (lambda: seeded(nn.Conv1d(4, 6, 2), nn.BatchNorm1d(6), nn.Flatten(), nn.Linear(24, CLASSES)), {"shape": (4, 5)}),
    "two": (lambda: seeded(nn.BatchNorm1d(4), nn.Linear(4, 6), nn.BatchNorm1d(6), nn.Tanh(), nn.Linear(6, CLASSES)), {}),
    "channels last": (lambda: images(nn.BatchNorm2d(5)).to(memory_format=torch.channels_last), {"shape": (2, 6, 6)}),
    "cumulative": (lambda: lines(nn.BatchNorm1d(6, momentum=None)), {}),
    "without running statistics": (lambda: lines(nn.BatchNorm1d(6, track_running_stats=False)), {}),
    "not affine": (lambda: lines(nn.BatchNorm1d(6, affine=False)), {}),
    "functional": (lambda: Own("functional"), {}),
    "an operator": (lambda: Own("aten"), {}),
    "another operator": (lambda: Own("legit"), {}),
    "an operator that writes nothing": (lambda: Own("writes nothing"), {}),
    "computed again": (Checkpointed, {}),
    "gradients of gradients": (OfGradients, {}),
    "instance norm": (lambda: images(nn.InstanceNorm2d(5, affine=True, track_running_stats=True)), {"shape": (2, 6, 6)}),
    "several batches a step": (lambda: lines(nn.BatchNorm1d(6)), {"accumulate": 3}),
    "compressed": (lambda: lines(nn.BatchNorm1d(6)), {"how": {"compress": TopK(sparsity=0.0, values="float32")}}),
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("link", LINKS)
def test_a_step_is_that_of_one_process(link: str, case: str, tmp_path: Path) -> None:
    """Of one batch whose rows are not equally many in each worker; its running statistics, and how the model is judged, too."""
    make, options = CASES[case]
    options = {"samples": 11 if "accumulate" not in options else 33, "batch": 11} | options
    one, told = alone(tmp_path / "one", make, **{k: v for k, v in options.items() if k != "how"})
    several, heard = together(link, tmp_path / "several", make, 2, **options)
    for made in several:
        assert distance(one.model, made.model) < EXACT
    assert heard.metrics["loss"] == pytest.approx(told.metrics["loss"], rel=EXACT)
    assert distance(one.model, make()) > 100 * EXACT


@pytest.mark.parametrize(
    ("size", "options"),
    [
        (3, {"samples": 3, "batch": 3}),  # one row each, of which there are no statistics
        (3, {"samples": 25, "batch": 10}),  # 4, 3, 3; and a last batch of 5, of which one has none
        (4, {"samples": 6, "batch": 8}),  # one worker never has a row
        (2, {"samples": 21, "batch": 8, "how": {"shares": "measured"}}),
        (2, {"samples": 19, "batch": 16}),  # the last batch is of three rows, for one worker alone
        (3, {"samples": 22, "batch": 5, "accumulate": 3}),
    ],
    ids=["one row each", "short last batch", "no row ever", "measured", "one worker's", "several batches a step"],
)
@pytest.mark.parametrize("link", LINKS)
def test_whoever_has_which_rows(link: str, size: int, options: dict[str, Any], tmp_path: Path) -> None:
    def make() -> nn.Module:
        return lines(nn.BatchNorm1d(6, momentum=None))

    one, told = alone(tmp_path / "one", make, **{k: v for k, v in options.items() if k != "how"})
    several, heard = together(link, tmp_path / "several", make, size, **options)
    for made in several:
        assert distance(one.model, made.model) < 10 * EXACT  # a few steps
    assert heard.metrics["loss"] == pytest.approx(told.metrics["loss"], rel=10 * EXACT)


class Waits(WholeModel):
    """A member that waits for the other one at its batch norms."""

    rank, size, waited = 0, 2, 0.0

    @property
    def pooled(self) -> Any:
        return SimpleNamespace(among=lambda _: None)

    def before_backward(self, *, last: bool) -> None:
        pass


def test_waiting_at_batch_norms_does_not_count_as_being_slow(tmp_path: Path) -> None:
    """Or all members would be measured as equally fast, and shares would never move."""
    told: list[float | None] = []

    def step(lr: float, **others: Any) -> Step:
        told.append(others["busy"])
        return Step(0.0, 0, 0)

    made, team, clock = job(tmp_path, lines(nn.BatchNorm1d(6)), how={"shares": "measured"}), Waits(), FakeClock()
    optimizer: Any = SimpleNamespace(step=step, dense_bytes=None)
    run = Run(made, optimizer, None, Tally(classes=True), {})
    both = Together(run, team, optimizer, clock)  # type: ignore[arg-type]
    both.begin()
    for _ in range(EVERY):
        began = clock.monotonic()
        both.batch(last=True)
        clock.advance(3.0)
        team.waited += 2.0
        both.step(0.1, 0.0, wish=0, since=began)
        team.waited += 5.0  # for a checkpoint, say
        clock.advance(5.0)
        run.progress.step += 1
    assert told == [None] * (EVERY - 1) + [1.0 * (EVERY - WARM)]


@pytest.mark.parametrize("link", LINKS)
def test_frozen_norms_stay_as_they_are(link: str, tmp_path: Path) -> None:
    def make() -> nn.Module:
        return seeded(nn.Linear(4, 6), nn.BatchNorm1d(6), nn.Tanh(), nn.Linear(6, 5), nn.BatchNorm1d(5), nn.Linear(5, CLASSES))

    one, _ = alone(tmp_path / "one", make, freeze=["1"])
    several, _ = together(link, tmp_path / "several", make, freeze=["1"])
    assert distance(one.model, several[1].model) < 10 * EXACT
    assert row_facts(job(tmp_path / "asked", make(), freeze=["1"])).channels == [5]


@pytest.mark.parametrize("link", LINKS)
def test_batch_norms_of_a_stored_graph_are_those_of_one_process(link: str, tmp_path: Path) -> None:
    """As of a layer that was pulled: its operators, without its author's code."""
    source = images(nn.BatchNorm2d(5))
    archives = export_forms(source, torch.randn(4, 2, 6, 6))
    assert archives.note == ""

    def make() -> nn.Module:
        tensors, aliases = state(source)
        return load_forms(archives.train, archives.eval, {name: tensor.clone() for name, tensor in tensors.items()}, aliases)

    options: dict[str, Any] = {"shape": (2, 6, 6), "samples": 25, "batch": 10}
    one, told = alone(tmp_path / "one", make, **options)
    several, heard = together(link, tmp_path / "several", make, 3, **options)
    assert row_facts(job(tmp_path / "asked", make(), **options)).channels == [5]
    assert distance(one.model, several[0].model) < 5 * EXACT
    assert heard.metrics["loss"] == pytest.approx(told.metrics["loss"], rel=5 * EXACT)
    by_worker, _ = together(link, tmp_path / "by-worker", make, 3, exact=False, **options)
    assert distance(one.model, by_worker[0].model) > 1000 * EXACT


@pytest.mark.parametrize("case", ["2d", "cumulative"])
def test_an_epoch_is_as_near_to_one_process_as_that_is_to_itself_with_rows_in_another_order(case: str, tmp_path: Path) -> None:
    """Rounding decides how far: so it is the mean of some runs, against the farthest of some orders."""
    make, options = CASES[case]
    bars: list[float] = []
    found: dict[str, list[float]] = {link: [] for link in LINKS}
    for seed in range(4):
        how = {"samples": 240, "batch": 20, "momentum": 0.9, "lr": 0.05, "seed": seed, **options}
        one = alone(tmp_path / f"one{seed}", make, **how)[0].model
        orders = [alone(tmp_path / f"order{seed}-{i}", make, rearrange=i, **how)[0].model for i in range(4)]
        bars.append(max(apart(one, other) for other in orders))
        for link in LINKS:
            several, _ = together(link, tmp_path / f"{link}{seed}", make, 3, **how)
            found[link].append(apart(one, several[0].model))
        assert apart(one, make()) > 1e-3
    for link in LINKS:
        assert 0 < sum(found[link]) <= sum(bars)
    by_worker, _ = together("memory", tmp_path / "by-worker", make, 3, exact=False, **how)
    assert apart(one, by_worker[0].model) > 1000 * max(bars)


@pytest.mark.parametrize("link", LINKS)
def test_the_same_bits_every_time(link: str, tmp_path: Path) -> None:
    make, options = CASES["2d"]
    runs = [together(link, tmp_path / str(i), make, 3, samples=50, **options)[0] for i in range(2)]
    assert distance(runs[0][0].model, runs[1][0].model) == distance(runs[0][0].model, runs[0][2].model) == 0


def test_moments_are_exact_far_from_zero() -> None:
    """Float32 sums of squares would have lost all of the variance."""
    x = torch.from_numpy(np.random.default_rng(0).normal(loc=1e4, scale=1e-1, size=(60, 2, 7)).astype(np.float32))
    found = combined([moments_of(part) for part in x.split([1, 40, 0, 19])])
    assert found.count == 60 * 7
    torch.testing.assert_close(found.variance, x.double().var((0, 2), correction=0), rtol=1e-9, atol=0)
    torch.testing.assert_close(found.mean, x.double().mean((0, 2)), rtol=1e-12, atol=0)
    large = torch.randn(3, 2, 1 << 17)
    torch.testing.assert_close(moments_of(large).variance, large.double().var((0, 2), correction=0))
    assert isinstance(found, Moments)


class Alone:
    """The statistics of a team of one."""

    constant = False

    def moments(self, x: Tensor) -> Moments:
        return moments_of(x)

    def add_up(self, own: Tensor) -> Tensor:
        return own


@pytest.mark.parametrize("affine", [True, False])
@pytest.mark.parametrize("half", [torch.float16, torch.bfloat16])
def test_a_half_under_autocast_is_normalised_as_by_torch(half: torch.dtype, affine: bool) -> None:
    """What convolutions give under autocast is a half; weights, running statistics, and what is calculated with, are float32."""
    samples = (torch.randn(64, 4, 3, 3, generator=torch.Generator().manual_seed(0)) + 20.0).to(half)

    def ran(mode: contextlib.AbstractContextManager[object]) -> list[Tensor]:
        x, norm = samples.clone().requires_grad_(), nn.BatchNorm2d(4, affine=affine)
        with mode:
            y = norm(x)
            (y.float() ** 3).sum().backward()
        grads = [parameter.grad for parameter in (x, *norm.parameters()) if parameter.grad is not None]
        assert norm.running_mean is not None
        assert norm.running_var is not None
        return [y.detach(), *grads, norm.running_mean, norm.running_var]

    expected, found = ran(contextlib.nullcontext()), ran(BatchNorms(Alone()))
    assert [one.dtype for one in found] == [one.dtype for one in expected]
    for one, other in zip(found, expected, strict=True):
        within = 1e-5 if one.dtype == torch.float32 else 2 * torch.finfo(half).eps  # two roundings
        assert float((one.double() - other.double()).abs().max()) <= within * float(other.double().abs().max())


def test_a_batch_of_one_row_is_refused_as_in_one_process(tmp_path: Path) -> None:
    """Whatever share of it a worker has: of the whole there are no statistics."""
    with pytest.raises(LaminarError) as caught:
        together("memory", tmp_path, lambda: lines(nn.BatchNorm1d(6)), 1, samples=1, batch=1, facts=RowFacts(channels=[6]))
    assert caught.value.code == "L606"
    assert "the batch has 1 row, of which there are no batch statistics" in caught.value.message


@pytest.mark.parametrize("link", LINKS)
def test_workers_that_go_different_ways_are_told(link: str, tmp_path: Path) -> None:
    class Sometimes(nn.Module):
        """Leaves its second norm out for some rows, which a probe of few samples need not see."""

        def __init__(self) -> None:
            super().__init__()
            self.first, self.second, self.head = nn.BatchNorm1d(4), nn.BatchNorm1d(4), nn.Linear(4, CLASSES)

        def forward(self, x: Tensor) -> Tensor:
            x = self.first(x)
            out: Tensor = self.head(self.second(x) if not self.training or bool(x.sum() > 0) else x)
            return out

    with pytest.raises(LaminarError) as caught:
        together(link, tmp_path, Sometimes, facts=RowFacts(channels=[4, 4]))
    assert caught.value.code == "L606" and "workers took different paths through the model" in caught.value.message


# Whatever else mixes rows


class Mixing(nn.Module):
    def __init__(self, what: str, norm: bool = False) -> None:
        super().__init__()
        self.body, self.head, self.what = nn.Linear(4, 6), nn.Linear(6, CLASSES), what
        self.norm = nn.BatchNorm1d(6) if norm else nn.Identity()
        self.gate = nn.Parameter(torch.zeros(()))
        self.register_buffer("seen", torch.zeros(6))
        self.calls = 0

    def forward(self, x: Tensor) -> Tensor:
        x = self.norm(self.body(x))
        if self.training and not self.calls and self.what == "the first batch":
            with torch.no_grad():
                self.body.bias.sub_(x.mean(0))
        self.calls += 1
        if self.training and self.what == "what it keeps":
            self.seen.lerp_(x.detach().mean(0), 0.1)
        match self.what:
            case "a mean":
                x = x - x.mean(0)
            case "hidden by a zero":
                x = x + self.gate * x.amax(0)
            case "softmax":
                x = x.softmax(0)
            case "similarity":
                x = x - (x @ x.t()).logsumexp(1, keepdim=True)
            case "mixup":
                x = (x + x[torch.randperm(len(x))]) / 2
            case "rows before":
                x = x.cumsum(0)
            case "rows behind":
                x = x.flip(0).cumsum(0).flip(0)
            case "how many":
                x = x / len(x)
            case "where":
                x = x + torch.arange(len(x)).unsqueeze(1)
            case "values":
                x = x * float(x.sum() > 0)
            case "backward":
                x = Clipped.apply(x)  # type: ignore[no-untyped-call]
            case "judged":
                x = x if self.training else x - x.mean(0)
        out: Tensor = self.head(x)
        return out


class Clipped(torch.autograd.Function):
    """Its gradient is shortened by that of all rows."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:  # noqa: ARG004
        return x.clone()

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:  # noqa: ARG004
        return grads[0] / (1 + grads[0].norm())


MIXING = [
    *("a mean", "hidden by a zero", "softmax", "similarity", "mixup", "rows before", "rows behind", "how many", "where", "backward"),
    *("what it keeps", "the first batch", "judged"),
]


@pytest.mark.parametrize("norm", [False, True])
@pytest.mark.parametrize("what", MIXING)
def test_what_else_mixes_rows_is_refused(what: str, norm: bool, tmp_path: Path) -> None:
    made = job(tmp_path, Mixing(what, norm))
    facts = row_facts(made)
    assert facts.mixes
    with pytest.raises(LaminarError) as caught:
        refuse_mixed(facts, Sync(workers=2))
    assert caught.value.code == "L012" and 'mixed_rows = "worker"' in (caught.value.hint or "")
    refuse_mixed(facts, Sync(workers=2, mixed_rows="worker"))


class Careless(nn.Module):
    """Looks at nobody else, in ways that could be taken for it."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.drop = nn.Linear(4, 8), nn.Dropout(0.3)
        self.attend = nn.MultiheadAttention(4, 2, dropout=0.2, batch_first=True)
        self.norms = nn.ModuleList([nn.LayerNorm(4), nn.GroupNorm(2, 2), nn.InstanceNorm1d(2), nn.BatchNorm1d(2)])
        self.head = nn.Linear(8, CLASSES)
        self.register_buffer("count", torch.zeros(()))

    def forward(self, x: Tensor) -> Tensor:
        if self.training:
            self.count += 1
        x = self.drop(self.embed(x)).reshape(len(x), 2, 4)
        x = x + self.attend(x, x, x)[0]
        for norm in self.norms:
            x = F.dropout(norm(x), 0.1, self.training)
        x = x[torch.arange(len(x)), :].flatten(1)
        return self.head(x)  # type: ignore[no-any-return]


def test_what_only_looks_like_mixing_is_not(tmp_path: Path) -> None:
    facts = row_facts(job(tmp_path, Careless()))
    assert facts == RowFacts(channels=[2], learned=[True], tracked=["norms.3.running_mean", "norms.3.running_var"])


@pytest.mark.parametrize(
    ("of", "said"),
    [
        (lambda: nn.Sequential(nn.Linear(4, 4), OwnNorm(), nn.Linear(4, CLASSES)), "'1' (OwnNorm) changes its outputs for other rows"),
        (lambda: Sized(), "the model does not accept a part of a batch (RuntimeError: shape '[8, 4]' is invalid"),
    ],
)
def test_where_rows_depend_on_each_other_is_said(of: Any, said: str, tmp_path: Path) -> None:
    assert row_facts(job(tmp_path, of())).mixes.startswith(said)


class OwnNorm(nn.Module):
    """A batch norm of one's own."""

    def forward(self, x: Tensor) -> Tensor:
        return (x - x.mean(0)) / (x.std(0) + 1)


class Sized(nn.Module):
    """Takes batches of one size only."""

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(4, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.head(x.view(8, 4) if self.training else x)
        return out


def test_a_probe_leaves_no_trace(tmp_path: Path) -> None:
    class Locked(Mixing):
        """Cannot be copied, so that it is looked at itself."""

        def __deepcopy__(self, _: Any) -> Any:
            raise TypeError("no copies")

    for kind in (Mixing, Locked):
        made = job(tmp_path, kind("a mean", True))
        before = {name: tensor.clone() for name, tensor in made.model.state_dict().items()}
        drawn = torch.get_rng_state()
        assert row_facts(made).mixes
        assert torch.equal(drawn, torch.get_rng_state())
        assert all(torch.equal(tensor, before[name]) for name, tensor in made.model.state_dict().items())
        assert all(p.grad is None for p in made.model.parameters()) and made.model.training


def test_the_number_of_workers_is_in_the_key_where_their_rows_are_by_themselves() -> None:
    assert Sync(workers=2).key_fields() is None
    assert Sync(workers=3, batch_norm="worker").key_fields() == {"kind": "sync", "workers": 3, "batch_norm": "worker"}
    assert Sync(workers=3, mixed_rows="worker", shares="measured").key_fields() == {
        "kind": "sync",
        "workers": 3,
        "mixed_rows": "worker",
        "shares": "measured",
    }
    assert Sync(workers=1, batch_norm="worker").key_fields() is None

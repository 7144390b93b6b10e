"""What servers and workers learn is what it is said to be: one process, the joined batch, the mean of the workers."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import msgspec
import pytest
import torch
from apart_team import Outcome, data, job, net, train_apart
from torch import Tensor, nn

from laminar.core.events import read
from laminar.data.batches import Batches
from laminar.parallel.apart.prepare import make_plan
from laminar.parallel.apart.shard import make_numbers
from laminar.parallel.outer import Nesterov
from laminar.train.compression import Dgc, Int8, PowerSgd, TopK
from laminar.train.job import Job
from laminar.train.loop import train
from laminar.train.recipe import Recipe
from laminar.train.schedules import learning_rate
from laminar.train.snapshot import trainable
from laminar.train.strategies import Averaging, Downpour, OuterNesterov, Quorum


def solo(folder: Path, **recipe: Any) -> tuple[dict[str, Tensor], list[float]]:
    made = job(folder, **recipe)
    train(made)
    losses = [event["loss"] for event in read(folder / "events.jsonl") if event["event"] == "step"]
    return {name: tensor.detach().clone() for name, tensor in made.model.state_dict().items()}, losses


def apart(folder: Path, **recipe: Any) -> Outcome:
    return train_apart(folder, lambda: job(folder, **recipe))


def furthest(a: dict[str, Tensor], b: dict[str, Tensor]) -> float:
    assert a.keys() == b.keys()
    return max(float((a[name] - b[name]).abs().max()) for name in a)


@pytest.mark.parametrize(
    ("recipe", "shards"),
    [
        ({}, 1),
        ({"momentum": 0.9, "nesterov": True, "weight_decay": 0.01, "schedule": "cosine", "warmup": 5}, 3),
        ({"optimizer": "adam", "lr": 0.01, "clip": 0.5}, 2),
    ],
)
@pytest.mark.parametrize("near", [True, False])
def test_one_downpour_worker_that_waits_for_every_step_is_one_process(
    tmp_path: Path, recipe: dict[str, Any], shards: int, near: bool
) -> None:
    how = Downpour(workers=1, shards=shards, n_push=1, n_fetch=1, overlap=False)
    weights, losses = solo(tmp_path / "solo", **recipe)
    found = train_apart(tmp_path / "apart", lambda: job(tmp_path / "apart", strategy=how, **recipe), near=near)
    assert len(found.losses) == len(losses) == 36
    assert max(abs(a - b) for a, b in zip(found.losses, losses, strict=True)) < 1e-6
    assert furthest(found.weights, weights) < 1e-6
    assert found.why == ["all epochs done"]


def test_downpour_with_pushes_far_apart_makes_the_steps_of_its_workers(tmp_path: Path) -> None:
    """A sum of gradients, applied by plain sgd, is where the worker went by itself."""
    weights, _ = solo(tmp_path / "solo")
    found = apart(tmp_path / "apart", strategy=Downpour(workers=1, n_push=4, n_fetch=4, overlap=False))
    assert furthest(found.weights, weights) < 1e-5


@pytest.mark.parametrize(
    "recipe",
    [
        {"momentum": 0.9, "nesterov": True, "weight_decay": 0.01, "schedule": "cosine", "warmup": 5},
        {"optimizer": "adam", "lr": 0.01, "clip": 0.5},
    ],
)
@pytest.mark.parametrize(
    ("n_push", "n_fetch", "overlap", "shards"), [(4, 4, True, 1), (3, 7, True, 2), (8, 2, True, 1), (1, 1, False, 2), (2, 6, False, 1)]
)
def test_one_worker_that_pushes_its_steps_is_one_process_however_rarely_it_does(
    tmp_path: Path, recipe: dict[str, Any], n_push: int, n_fetch: int, overlap: bool, shards: int
) -> None:
    weights, _ = solo(tmp_path / "solo", **recipe)
    how = Downpour(workers=1, push="steps", n_push=n_push, n_fetch=n_fetch, overlap=overlap, shards=shards)
    found = apart(tmp_path / "apart", strategy=how, **recipe)
    assert furthest(found.weights, weights) < 1e-5
    far = apart(tmp_path / "far", strategy=msgspec.structs.replace(how, push="gradients"), **recipe)
    assert n_push == 1 or furthest(far.weights, weights) > 1e-3  # an optimizer on the server makes other steps of a sum


def test_smoothing_changes_the_layer_and_not_what_its_workers_see(tmp_path: Path) -> None:
    how = Downpour(workers=1, push="steps", n_push=2, n_fetch=2, shards=2, smooth=10)
    smooth = apart(tmp_path / "smooth", strategy=how)
    last = apart(tmp_path / "last", strategy=msgspec.structs.replace(how, smooth=0))
    assert smooth.losses == pytest.approx(last.losses, abs=1e-5)
    assert furthest(smooth.weights, last.weights) > 1e-3


def test_a_smoothed_layer_is_the_mean_of_the_first_batches_and_then_exponential(tmp_path: Path) -> None:
    made = job(tmp_path, strategy=Downpour(workers=1, push="steps", smooth=8))
    plan = make_plan(made, made.recipe.strategy)  # type: ignore[arg-type]
    numbers = make_numbers(plan, 0)
    numbers.begin(trainable(made.model), plan.layout(0))
    assert torch.equal(numbers.layer, numbers.row) and bool(numbers.row.any())
    rows = []
    for step in range(8):
        numbers.row.fill_(float(step * step))
        rows.append(numbers.row.clone())
        numbers.stepped(2 * step, 2)
        if step < 4:
            assert torch.allclose(numbers.layer, torch.stack(rows).mean(0))
    share = 1 - math.exp(-2 / 8)
    expected = 14 / 4
    for step in range(4, 8):
        weight = max(share, 1 / (step + 1))
        expected += weight * (step * step - expected)
    assert torch.allclose(numbers.layer, torch.full_like(numbers.row, expected))
    again = make_numbers(plan, 0)
    again.load(numbers.state())
    assert torch.equal(again.layer, numbers.layer) and torch.equal(again.row, numbers.row)
    plain = Downpour(workers=1)
    without = make_numbers(make_plan(job(tmp_path, strategy=plain), plain), 0)
    assert without.layer is without.row and "mean" not in without.state()


class Turned(nn.Module):
    """Its batch statistics are trained, so workers tell each other all buffers; the others are tables."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(4)
        self.norm, self.head = nn.BatchNorm1d(6), nn.Linear(6, 3)
        self.register_buffer("turns", torch.polar(torch.ones(6), torch.arange(6.0)))
        self.register_buffer("large", torch.tensor(2**62 + 1))

    def forward(self, x: Tensor) -> Tensor:
        return self.head((self.norm(x) * self.turns).real * (self.large > 2**62))


@pytest.mark.parametrize(
    "how", [Quorum(workers=2), Averaging(workers=2, every=4), Downpour(workers=2, n_push=2, n_fetch=2)], ids=lambda how: type(how).__name__
)
def test_tables_come_back_as_they_were(tmp_path: Path, how: Any) -> None:
    found, before = train_apart(tmp_path, lambda: job(tmp_path, model=Turned, strategy=how)).weights, Turned().state_dict()
    assert not torch.equal(found["norm.running_mean"], before["norm.running_mean"])
    assert torch.equal(found["turns"], before["turns"]) and torch.equal(found["large"], before["large"])


@pytest.mark.parametrize("workers", [2, 3])
def test_a_quorum_of_all_is_one_process(tmp_path: Path, workers: int) -> None:
    recipe = {"optimizer": "adam", "lr": 0.01, "clip": 1.0, "batch": 9}  # the last batch is smaller
    weights, losses = solo(tmp_path / "solo", **recipe)
    found = apart(tmp_path / "apart", strategy=Quorum(workers=workers, quorum=1.0), **recipe)
    assert max(abs(a - b) for a, b in zip(found.losses, losses, strict=True)) < 1e-5
    assert furthest(found.weights, weights) < 1e-5


@pytest.mark.parametrize("crash_after", [(), (30,)])
def test_a_quorum_in_measured_shares_is_one_process(tmp_path: Path, crash_after: tuple[int, ...]) -> None:
    recipe: dict[str, Any] = {"optimizer": "adam", "lr": 0.01, "batch": 18, "epochs": 5}
    weights, losses = solo(tmp_path / "solo", **recipe)
    how, folder = Quorum(workers=2, quorum=1.0, shares="measured"), tmp_path / "apart"
    found = train_apart(
        folder,
        lambda: job(folder, strategy=how, **recipe),
        row_seconds=lambda name: 0.02 if name == "0" else 0.04,
        crash_after=crash_after,
    )
    if not crash_after:  # otherwise some are told twice
        assert max(abs(a - b) for a, b in zip(found.losses, losses, strict=True)) < 1e-5
    assert furthest(found.weights, weights) < 1e-5
    told = [one["team"]["shares"] for one in found.told if "epoch" in one]
    assert told[-1] == {"0": 0.6667, "1": 0.3333}


def test_averaging_gives_more_batches_to_the_faster(tmp_path: Path) -> None:
    how = Averaging(workers=2, every=3, shares="measured")
    found = train_apart(tmp_path, lambda: job(tmp_path, epochs=4, strategy=how), row_seconds=lambda name: 0.02 if name == "0" else 0.04)
    epochs = [one for one in found.told if "epoch" in one]
    assert epochs[-1]["team"]["shares"] == {"0": 0.6667, "1": 0.3333}
    assert [one["train"]["seen"] for one in epochs] == [96] * 4  # every sample of every epoch, by one or the other
    computing = epochs[-1]["team"]["computing"]
    assert computing["0"] / 0.02 + computing["1"] / 0.04 == pytest.approx(4 * 96, abs=1), "each row took its worker's time"
    assert found.metrics["accuracy"] > 0.6


def test_averaging_after_every_step_of_sgd_is_the_joined_batch(tmp_path: Path) -> None:
    weights, _ = solo(tmp_path / "solo", batch=16)
    found = apart(tmp_path / "apart", batch=8, strategy=Averaging(workers=2, every=1))
    assert furthest(found.weights, weights) < 1e-5


def trained_apart(start: nn.Module, batches: list[tuple[int, int]], rates: Callable[[int], float] = lambda _: 0.1) -> list[Tensor]:
    """What plain sgd makes of these (epoch, batch), one after the other; a rate for each of them."""
    split = data().train
    source = Batches(split.x, split.y, batch=8, seed=0, background=False)
    optimizer = torch.optim.SGD(start.parameters())
    for i, (epoch, number) in enumerate(batches):
        optimizer.param_groups[0]["lr"] = rates(i)
        (block,) = source.some(epoch, number, number + 1)
        optimizer.zero_grad()
        nn.functional.cross_entropy(start(torch.from_numpy(block.x[0])), torch.from_numpy(block.y)).backward()
        optimizer.step()
    return [parameter.detach().clone() for parameter in start.parameters()]


def test_averaging_at_the_end_is_the_mean_of_workers_that_never_met(tmp_path: Path) -> None:
    found = apart(tmp_path / "apart", strategy=Averaging(workers=2, every="end"))
    parts = [[(epoch, batch) for epoch in range(3) for batch in half] for half in (range(6), range(6, 12))]
    one, two = (trained_apart(net(), part) for part in parts)
    mean = [(a + b) / 2 for a, b in zip(one, two, strict=True)]
    assert max(float((a - b).abs().max()) for a, b in zip(found.weights.values(), mean, strict=True)) < 1e-6
    assert [told["epoch"] for told in found.told if "epoch" in told] == [2]


WARM = {"schedule": "cosine", "warmup": 10}


def rates_of(recipe: dict[str, Any]) -> Callable[[int], float]:
    made = Recipe(epochs=3, optimizer="sgd", lr=0.1, **recipe)
    return learning_rate(lr=0.1, schedule=made.plan, warmup=made.warmup, epochs=3, steps_per_epoch=12)


def test_workers_that_never_meet_warm_up_and_cool_down_together(tmp_path: Path) -> None:
    found = apart(tmp_path / "apart", strategy=Averaging(workers=2, every="end"), **WARM)
    rate, parts = rates_of(WARM), [[(epoch, batch) for epoch in range(3) for batch in half] for half in (range(6), range(6, 12))]
    one, two = (trained_apart(net(), part, lambda i: rate(2 * i)) for part in parts)
    mean = [(a + b) / 2 for a, b in zip(one, two, strict=True)]
    assert max(float((a - b).abs().max()) for a, b in zip(found.weights.values(), mean, strict=True)) < 1e-6


def test_a_schedule_goes_by_how_far_the_team_is(tmp_path: Path) -> None:
    found = apart(tmp_path / "apart", strategy=Averaging(workers=2, every=3), **WARM)
    rate, model = rates_of(WARM), net()
    for epoch, first in [(epoch, first) for epoch in range(3) for first in (0, 6)]:
        both = [copy.deepcopy(model) for _ in range(2)]
        begin = 12 * epoch + first
        one, two = (
            trained_apart(start, [(epoch, first + 3 * i + k) for k in range(3)], lambda k, begin=begin: rate(begin + 2 * k))  # type: ignore[misc]
            for i, start in enumerate(both)
        )
        with torch.no_grad():
            for parameter, a, b in zip(model.parameters(), one, two, strict=True):
                parameter.copy_((a + b) / 2)
    assert max(float((a - b).abs().max()) for a, b in zip(found.weights.values(), model.state_dict().values(), strict=True)) < 1e-6


@pytest.mark.parametrize("decay", [0.0, 0.1])
def test_local_clipping_is_that_of_the_whole_gradient_however_many_servers_there_are(tmp_path: Path, decay: float) -> None:
    recipe: dict[str, Any] = {"momentum": 0.9, "weight_decay": decay, "clip": 0.05}
    small = Dgc(sparsity=0.5, warmup_epochs=0, sample=1.0, values="float32")
    one, two = (
        apart(tmp_path / str(n), strategy=Downpour(workers=1, shards=n, n_push=2, n_fetch=2, overlap=False, compress=small), **recipe)
        for n in (1, 3)
    )
    assert furthest(one.weights, two.weights) < 1e-6
    free = Downpour(workers=1, n_push=2, n_fetch=2, overlap=False, compress=small)
    assert furthest(apart(tmp_path / "free", strategy=free, **{**recipe, "clip": None}).weights, one.weights) > 1e-2


def test_an_outer_step_is_nesterovs(tmp_path: Path) -> None:
    how = Averaging(workers=2, every=3, outer=OuterNesterov(lr=0.6, momentum=0.8))
    found = apart(tmp_path / "apart", epochs=1, strategy=how)
    now = [parameter.detach().clone() for parameter in net().parameters()]
    outers = [Nesterov(tensor, lr=0.6, momentum=0.8) for tensor in now]
    for first in (0, 6):
        ends = []
        for i in range(2):
            start = net()
            with torch.no_grad():
                for parameter, tensor in zip(start.parameters(), now, strict=True):
                    parameter.copy_(tensor)
            ends.append(trained_apart(start, [(0, first + 3 * i + k) for k in range(3)]))
        for outer, tensor, one, two in zip(outers, now, *ends, strict=True):
            outer.step(tensor, (one + two) / 2)
    assert max(float((a - b).abs().max()) for a, b in zip(found.weights.values(), now, strict=True)) < 1e-5


COMPRESSIONS = {
    "fp16": "fp16",
    "int8": Int8(),
    "topk": TopK(sparsity=0.8, sample=1.0),
    "dgc": Dgc(sparsity=0.8, warmup_epochs=1, sample=1.0),
    "powersgd": PowerSgd(rank=2),
}
STRATEGIES = {
    "downpour": Downpour(workers=2, n_push=2, n_fetch=2),
    "quorum": Quorum(workers=2, quorum=1.0),
    "averaging": Averaging(workers=2, every=2),
}


def with_compression(name: str, kind: str, **more: Any) -> Any:
    return msgspec.structs.replace(STRATEGIES[name], compress=COMPRESSIONS[kind], **more)


@pytest.mark.parametrize("name", STRATEGIES)
@pytest.mark.parametrize("kind", COMPRESSIONS)
def test_every_strategy_learns_with_every_compression(tmp_path: Path, name: str, kind: str) -> None:
    more = {"momentum": 0.9, "lr": 0.05, "weight_decay": 1e-3} if kind == "dgc" else {"lr": 0.2}
    found = apart(tmp_path / "apart", epochs=6, strategy=with_compression(name, kind), **more)
    assert found.metrics["accuracy"] > 0.75, found.metrics
    sent = [told["team"]["bytes_in"] for told in found.told if "epoch" in told]
    assert sent == sorted(sent) and sent[-1] > 0


@pytest.mark.parametrize(
    ("name", "kind", "more"),
    [
        ("quorum", "topk", {}),
        ("quorum", "dgc", {}),
        ("averaging", "topk", {}),
        ("averaging", "powersgd", {"every": "end"}),
        ("downpour", "topk", {"workers": 1, "overlap": False, "n_push": 1, "n_fetch": 1}),
        ("downpour", "dgc", {"workers": 1, "overlap": False, "n_push": 1, "n_fetch": 1, "shards": 2}),
    ],
)
def test_an_interrupted_training_goes_on_as_if_nothing_had_happened(tmp_path: Path, name: str, kind: str, more: dict[str, Any]) -> None:
    """Residuals, inner optimizers and the place within a task are kept."""
    recipe = {"optimizer": "sgd", "momentum": 0.9, "lr": 0.05, "strategy": with_compression(name, kind, **more)}
    whole = apart(tmp_path / "whole", **recipe)
    parted = [
        train_apart(tmp_path / "parted", lambda: job(tmp_path / "parted", **recipe), attempt=attempt, stop_after=stop)
        for attempt, stop in [(1, 11), (2, 9), (3, None)]
    ]
    assert set(parted[0].why + parted[1].why) <= {"interrupted", "it was told to leave"}
    assert set(parted[2].why) == {"all epochs done"}
    assert not list((tmp_path / "parted").glob("worker-*"))
    assert furthest(parted[2].weights, whole.weights) < 1e-6
    assert [told["epoch"] for one in parted for told in one.told if "epoch" in told and "at" in told][-1] == 2


@pytest.mark.parametrize("every", [4, "end"])
def test_batch_statistics_go_on_within_a_task_that_was_interrupted(tmp_path: Path, every: Any) -> None:
    recipe = {"model": Turned, "strategy": Averaging(workers=2, every=every)}
    whole = apart(tmp_path / "whole", **recipe)
    parted = [
        train_apart(tmp_path / "parted", lambda: job(tmp_path / "parted", **recipe), attempt=attempt, stop_after=stop)
        for attempt, stop in [(1, 11), (2, 9), (3, None)]
    ]
    assert furthest(parted[2].weights, whole.weights) < 1e-6
    assert whole.weights["norm.num_batches_tracked"] == 18  # of each worker; whoever leaves first does not take its own along


@pytest.mark.parametrize(
    ("how", "recipe"),
    [
        (Quorum(workers=2, quorum=1.0), {"optimizer": "adam", "lr": 0.01}),
        (Averaging(workers=2, every=2), {}),
        (Averaging(workers=2, every="end", compress=TopK(sparsity=0.8, sample=1.0)), {"momentum": 0.9}),
    ],
)
def test_servers_that_are_killed_repeat_rounds_and_nothing_else(tmp_path: Path, how: Any, recipe: dict[str, Any]) -> None:
    whole = apart(tmp_path / "whole", strategy=how, **recipe)
    killed = train_apart(tmp_path / "killed", lambda: job(tmp_path / "killed", strategy=how, **recipe), crash_after=(7, 20, 21, 33))
    assert set(killed.why) == {"all epochs done"}
    assert furthest(killed.weights, whole.weights) < 1e-6
    if isinstance(how, Averaging) and how.every == "end":
        assert killed.pushes == 2  # long work is not done again


@pytest.mark.parametrize("shards", [1, 2])
@pytest.mark.parametrize("overlap", [True, False])
@pytest.mark.parametrize("near", [True, False])
@pytest.mark.parametrize("push", ["gradients", "steps"])
def test_servers_that_are_killed_get_every_push_once(
    tmp_path: Path, shards: int, overlap: bool, near: bool, push: Literal["gradients", "steps"]
) -> None:
    how, lr = Downpour(workers=2, shards=shards, n_push=2, n_fetch=2, overlap=overlap, push=push), 0.1
    if push == "steps":
        how, lr = msgspec.structs.replace(how, smooth=4), 2 * lr
    killed = train_apart(tmp_path / "killed", lambda: job(tmp_path / "killed", strategy=how, lr=lr), crash_after=(7, 20, 21, 33), near=near)
    assert set(killed.why) == {"all epochs done"} and killed.pushes >= 18
    assert killed.applied == [killed.pushes] * shards
    assert killed.metrics["accuracy"] > 0.75
    assert [told["epoch"] for told in killed.told if "epoch" in told] == sorted(told["epoch"] for told in killed.told if "epoch" in told)


@pytest.mark.parametrize("near", [True, False])
def test_servers_that_are_killed_when_the_workers_have_left_lose_nothing(tmp_path: Path, near: bool) -> None:
    how = Downpour(workers=2, shards=3, n_push=2, n_fetch=2)
    killed = train_apart(tmp_path / "killed", lambda: job(tmp_path / "killed", strategy=how), near=near, crash_last=True)
    assert killed.applied == [killed.pushes] * 3


class Partly(nn.Module):
    """A parameter that no batch ever uses, and buffers of every kind."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(4)
        self.body, self.norm = nn.Linear(6, 3), nn.BatchNorm1d(3)
        self.unused = nn.Parameter(torch.ones(5))
        self.register_buffer("mask", torch.tensor([True, False]))
        self.register_buffer("large", torch.tensor(2**40 + 1))

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.norm(self.body(x))
        return out


@pytest.mark.parametrize("name", STRATEGIES)
def test_a_parameter_without_a_gradient_and_buffers_are_as_in_one_process(tmp_path: Path, name: str) -> None:
    recipe = {"optimizer": "adamw", "lr": 0.01, "weight_decay": 0.1, "model": Partly}
    weights, _ = solo(tmp_path / "solo", **recipe)
    found = apart(tmp_path / "apart", strategy=STRATEGIES[name], **recipe).weights
    assert torch.equal(weights["unused"], torch.ones(5)) and torch.equal(found["unused"], torch.ones(5))
    assert torch.equal(found["mask"], weights["mask"]) and torch.equal(found["large"], weights["large"])
    assert int(found["norm.num_batches_tracked"]) > 0
    assert float((found["norm.running_mean"] - weights["norm.running_mean"]).abs().max()) < 0.5
    assert float((found["body.weight"] - weights["body.weight"]).abs().max()) > 0


@pytest.mark.parametrize("near", [True, False])
def test_a_downpour_worker_that_comes_later_has_the_buffers_of_those_before(tmp_path: Path, near: bool) -> None:
    def make() -> Job:
        return job(tmp_path / "parted", model=Partly, strategy=Downpour(workers=1, n_push=1, n_fetch=1))

    train_apart(tmp_path / "parted", make, stop_after=15, near=near)
    found = train_apart(tmp_path / "parted", make, attempt=2, near=near).weights
    assert int(found["norm.num_batches_tracked"]) == 36

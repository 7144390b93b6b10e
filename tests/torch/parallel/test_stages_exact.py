"""However a model is cut into stages or branches: losses, weights and statistics are those of one process."""

from __future__ import annotations

import copy
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from laminar.core.errors import LaminarError
from laminar.data.dataset import Dataset, Split
from laminar.parallel.split.grid import Grid
from laminar.parallel.split.line import Line
from laminar.parallel.stages.flow import Flow
from laminar.parallel.stages.measure import Cost
from laminar.parallel.stages.member import make_team
from laminar.parallel.stages.posts import routes
from laminar.parallel.stages.prepare import Prepared, prepare
from laminar.parallel.stages.traffic import lane_traffic
from laminar.testing.thread_lines import ThreadPost, on_every_worker
from laminar.train.job import Job
from laminar.train.recipe import Recipe
from laminar.train.splitting import LANES, Branches, Pipeline
from laminar.train.tensor_file import Later
from tests.thinned import thinned
from tests.torch.parallel.split_models import Block, Chunked, Cnn, Permuted, Signal, Tied, Wide, Words, images, mlp, signals, words

STEPS, ROWS = 20, 12


def deep() -> nn.Module:
    return nn.Sequential(nn.Flatten(), *(part for _ in range(4) for part in (nn.LazyLinear(24), nn.ReLU())), nn.LazyLinear(10))


class Whole(nn.Module):
    """Of numbers that data has as floats."""

    def __init__(self, inside: nn.Module) -> None:
        super().__init__()
        self.inside = inside

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.inside(x.long())
        return out


class Plain(Cnn):
    """Without statistics of a batch."""

    def __init__(self) -> None:
        super().__init__()
        self.features[1] = nn.GroupNorm(2, 8)


@dataclass
class Joined:
    lines: dict[str, Line]
    posts: list[ThreadPost]

    def post(self, number: int) -> ThreadPost:
        return self.posts[number]


def a_job(model: nn.Module, x: Tensor, y: Tensor, folder: Path, **options: Any) -> Job:
    split = Split(x.numpy(), y.numpy())
    recipe = Recipe(**{"epochs": 1, "batch": len(x), "optimizer": "sgd", "momentum": 0.0, "lr": 0.05, "threads": 1, **options})
    return Job("layer", model, Dataset(split, split, tuple("abcdefghij")), recipe, None, folder, tensorboard=False)


def trained_alone(model: nn.Module, x: Tensor, y: Tensor, clip: float | None) -> list[float]:
    losses = []
    for _ in range(STEPS):
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        losses.append(loss.item())
        if clip is not None:
            nn.utils.clip_grad_norm_(model.parameters(), clip)
        with torch.no_grad():
            for p in model.parameters():
                if p.grad is not None:
                    p -= 0.05 * p.grad
                    p.grad = None
    return losses


class Losses:
    loss_of = staticmethod(F.cross_entropy)

    def learn(self, inputs: list[Tensor], targets: Tensor, share: float) -> tuple[Tensor, float]:
        raise AssertionError


def check(
    model: nn.Module, x: Tensor, how: Pipeline | Branches, folder: Path, *, frozen: tuple[str, ...] = (), clip: float | None = None
) -> Prepared:
    y = torch.randint(0, 10, (len(x),))
    for path in frozen:
        model.get_submodule(path).requires_grad_(False)
    prepared = prepare(a_job(model, x, y, folder, strategy=how), how)
    sent = json.loads(json.dumps(prepared.to_json()))
    grid = Grid(how.grid)
    posts = [ThreadPost() for _ in routes(prepared, grid)]
    axis = how.split.get("batch")
    alone = copy.deepcopy(model)

    def work(rank: int, lines: dict[str, Line]) -> tuple[list[float], dict[str, Tensor], Tensor]:
        job = a_job(copy.deepcopy(model), x, y, folder, strategy=how, clip=clip)
        team = make_team(job, how, grid, Prepared.from_json(sent), Joined(lines, posts), rank)
        optimizer = team.optimizer(job.recipe, {n: p for n, p in job.model.named_parameters() if p.requires_grad})
        place, parts = team.part
        mine = slice(len(x) * place // parts, len(x) * (place + 1) // parts)
        losses = []
        at = grid.at(rank)
        formula = lane_traffic(prepared, at.pop(LANES), at, len(x), parts, lambda name: name in optimizer.params).step
        told = 8 * (3 + (parts > 1) + (clip is not None))  # whether to go on, what was sent, the loss along lanes and rows, and the norm
        for _ in range(STEPS):
            team.expect(len(x))
            before = team.sent
            share = (mine.stop - mine.start) / len(x)
            outputs, loss = team.learn(Losses(), [x[mine]], y[mine], share)
            assert (outputs is not None) == team.counts
            losses.append(optimizer.step(0.05, loss=loss * share).loss)
            optimizer.zero_grad()
            assert team.sent - before == formula + told
        whole = {}
        for name, tensor in [*job.model.named_parameters(), *job.model.named_buffers()]:
            given = team.whole(name, tensor.detach())
            whole[name] = (given.get() if isinstance(given, Later) else given).clone()
        team.expect(len(x))
        assert job.test is not None
        with torch.no_grad():
            outputs = job.test.module.eval()(x[mine])
        return losses, whole, outputs

    found = on_every_worker(grid, work)
    assert found[0][0] == pytest.approx(trained_alone(alone, x, y, clip), abs=1e-5)
    for name, theirs in [*alone.named_parameters(), *alone.named_buffers()]:
        torch.testing.assert_close(found[0][1][name], theirs.detach(), atol=1e-5, rtol=1e-4, msg=lambda said, name=name: f"{name}: {said}")  # type: ignore[misc]
    with torch.no_grad():
        wanted = alone.eval()(x)
    lane = prepared.test.stages[prepared.test.last].lane
    size = grid.size // prepared.fit.lanes
    parts = how.mesh[axis] if axis else 1
    last = [found[lane * size + k][2] for k in range(size)]
    given = torch.cat(last[:: size // parts]) if parts > 1 else last[0]
    torch.testing.assert_close(given, wanted, atol=1e-4, rtol=1e-3)
    return prepared


@pytest.fixture(autouse=True)
def _seeded() -> None:
    torch.manual_seed(0)


def made(model: nn.Module, x: Tensor) -> tuple[nn.Module, Tensor]:
    with torch.no_grad():
        model(x)
    return model, x


@pytest.mark.parametrize("schedule", ["gpipe", "1f1b", "interleaved", "zero-bubble"])
@pytest.mark.parametrize(("stages", "microbatches"), thinned([(2, 4), (4, 5), (4, 4), (2, 1), (4, 12)], keep=2))
def test_mlp(tmp_path: Path, schedule: Any, stages: int, microbatches: int) -> None:
    model, x = made(deep(), images(ROWS))
    workers = 2 if schedule == "interleaved" else stages
    prepared = check(model, x, Pipeline(stages=stages, workers=workers, microbatches=microbatches, schedule=schedule), tmp_path, clip=0.5)
    assert len(prepared.fit.stages) == stages


@pytest.mark.parametrize("schedule", ["gpipe", "1f1b", "zero-bubble"])
@pytest.mark.parametrize("stages", thinned([4, 2]))
def test_cnn(tmp_path: Path, schedule: Any, stages: int) -> None:
    check(Plain(), images(ROWS), Pipeline(stages=stages, microbatches=3, schedule=schedule), tmp_path)


@pytest.mark.parametrize("block", thinned([Block, Permuted, Chunked]))
@pytest.mark.parametrize("schedule", ["1f1b", "zero-bubble"])
def test_transformer(tmp_path: Path, block: type[nn.Module], schedule: Any) -> None:
    check(Whole(Words(block())), words(ROWS).float(), Pipeline(stages=3, microbatches=4, schedule=schedule), tmp_path)


@pytest.mark.parametrize(("make", "x"), [(Wide, images), (Signal, signals)])
@pytest.mark.parametrize("stages", [2, 4])
def test_other_models(tmp_path: Path, make: Any, x: Any, stages: int) -> None:
    check(make(), x(ROWS), Pipeline(stages=stages, microbatches=3), tmp_path)


@pytest.mark.parametrize("stages", [2, 4])
def test_one_weight_in_two_places(tmp_path: Path, stages: int) -> None:
    prepared = check(Whole(Tied()), words(ROWS).float(), Pipeline(stages=stages, microbatches=3), tmp_path, clip=0.5)
    assert len(prepared.fit.holders()["inside.embed.weight"]) == 2


@pytest.mark.parametrize(
    ("mesh", "split"),
    thinned(
        [
            ({"rows": 2, "cols": 2}, {"batch": "rows", "hidden": "cols"}),
            ({"rows": 2}, {"batch": "rows"}),
            ({"cols": 2}, {"hidden": "cols"}),
        ]
    ),
)
@pytest.mark.parametrize(("rows", "schedule"), [(12, "1f1b"), (11, "zero-bubble"), (9, "interleaved")])
def test_a_pipeline_of_meshes(tmp_path: Path, mesh: dict[str, int], split: dict[str, str], rows: int, schedule: Any) -> None:
    stages = 4 if schedule == "interleaved" else 2
    model, x = made(deep(), images(rows))
    check(model, x, Pipeline(stages=stages, microbatches=3, schedule=schedule, mesh=mesh, split=split), tmp_path, clip=0.5)


def test_cuts_by_hand(tmp_path: Path) -> None:
    model, x = made(deep(), images(ROWS))
    prepared = check(model, x, Pipeline(cut=["3", "7"], microbatches=3), tmp_path)
    assert [stage.tensors for stage in prepared.fit.stages] == [
        ("1.weight", "1.bias"),
        ("3.weight", "3.bias", "5.weight", "5.bias"),
        ("7.weight", "7.bias", "9.weight", "9.bias"),
    ]


def test_a_frozen_stage_sends_nothing_back(tmp_path: Path) -> None:
    model, x = made(deep(), images(ROWS))
    prepared = check(model, x, Pipeline(cut=["5"], microbatches=3), tmp_path, frozen=("1", "3"))
    assert not prepared.fit.learns
    assert not [route for route in routes(prepared, Grid({"lanes": 2})) if route.back]


@pytest.mark.parametrize(
    ("lanes", "mesh", "split"), [(2, {}, {}), (4, {}, {}), (2, {"rows": 2}, {"batch": "rows"}), (2, {"cols": 2}, {"channels": "cols"})]
)
def test_branches(tmp_path: Path, lanes: int, mesh: dict[str, int], split: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("laminar.parallel.stages.prepare.measure", _all_alike)
    prepared = check(Wide(), images(ROWS), Branches(lanes=lanes, mesh=mesh, split=split), tmp_path, clip=0.5)
    assert len({stage.lane for stage in prepared.fit.stages}) == min(lanes, 3)  # two short branches take as long as one of the others


def test_branches_with_statistics_of_the_batch(tmp_path: Path) -> None:
    class Normed(Wide):
        def __init__(self) -> None:
            super().__init__()
            self.one = nn.Sequential(nn.Conv2d(8, 8, 1), nn.BatchNorm2d(8))  # type: ignore[assignment]
            self.three[1] = nn.BatchNorm2d(8)

    check(Normed(), images(ROWS), Branches(lanes=2), tmp_path)


def _all_alike(flow: Flow, *_: Any, **__: Any) -> list[Cost]:
    return [Cost(1.0, 1.0) for _ in flow.operations]


def test_blocks_in_a_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("laminar.parallel.stages.prepare.measure", _all_alike)

    class Two(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = (nn.ModuleList([nn.Conv2d(c, 4, 3, padding=1) for _ in range(3)]) for c in (1, 12))
            self.head = nn.Linear(12, 10)

        def forward(self, x: Tensor) -> Tensor:
            x = torch.relu(torch.cat([part(x) for part in self.first], 1))
            x = torch.cat([torch.relu(part(x)) for part in self.second], 1)
            out: Tensor = self.head(x.mean((2, 3)))
            return out

    prepared = check(Two(), images(ROWS), Branches(lanes=3), tmp_path)
    assert len({stage.lane for stage in prepared.fit.stages}) == 3


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.rnn, self.head = nn.GRU(28, 8, batch_first=True), nn.Linear(8, 10)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.head(self.rnn(x.flatten(1, 2))[0].mean(1))
        return out


@pytest.mark.slow
def test_rows_that_are_for_themselves_in_operators_without_a_rule(tmp_path: Path) -> None:
    check(Recurrent(), images(ROWS), Pipeline(stages=2, microbatches=3), tmp_path)


def _changed(change: Any) -> nn.Module:
    """A model that does something between its two products."""

    class Changed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner, self.head = nn.Linear(784, 16), nn.Linear(16, 10)
            self.register_buffer("seen", torch.zeros(()))

        def forward(self, x: Tensor) -> Tensor:
            out: Tensor = self.head(change(self, self.inner(x.flatten(1))))
            return out

    return Changed()


def _counted(self: Any, h: Tensor) -> Tensor:
    if self.training:
        self.seen.add_(1)
    return h


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda _, h: h - h.mean(0, keepdim=True), "mixes the rows of a batch"),
        (lambda _, h: (h @ h.t()).softmax(1) @ h, "mixes the rows of a batch"),
        (lambda _, h: h / h.norm(), "mixes the rows of a batch"),
        (lambda _, h: h * h.max(), "mixes the rows of a batch"),
        (lambda _, h: h * torch.arange(h.shape[0])[:, None], "mixes the rows of a batch"),
        (lambda _, h: h.flip(0), "mixes the rows of a batch"),
        (lambda _, h: h * 4 / h.shape[0], "mixes the rows of a batch"),
        (_counted, "writes into a buffer"),
    ],
)
def test_what_needs_whole_batches_is_refused(tmp_path: Path, change: Any, said: str) -> None:
    assert said in refused(_changed(change), images(ROWS), Pipeline(stages=2, microbatches=3), tmp_path)


def test_a_batch_norm_that_two_lanes_would_write_into(tmp_path: Path) -> None:
    class Twice(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm = nn.BatchNorm2d(1)
            self.one, self.two, self.head = nn.Conv2d(1, 4, 3), nn.Conv2d(1, 4, 3), nn.Linear(8, 10)

        def forward(self, x: Tensor) -> Tensor:
            both = [self.one(self.norm(torch.relu(x))), self.two(self.norm(torch.tanh(x)))]
            out: Tensor = self.head(torch.cat(both, 1).mean((2, 3)))
            return out

    assert "is written into in 2 places" in refused(Twice(), images(ROWS), Branches(lanes=2), tmp_path)


def test_a_random_value_is_drawn_once(tmp_path: Path) -> None:
    class Noise(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner, self.between, self.head = nn.Linear(784, 16), nn.ReLU(), nn.Linear(16, 10)

        def forward(self, x: Tensor) -> Tensor:
            noise = torch.rand(16)
            out: Tensor = self.head(self.between(self.inner(x.flatten(1)) + noise) - noise)
            return out

    how = Pipeline(cut=["between"], microbatches=3)
    y = torch.zeros(ROWS, dtype=torch.int64)
    prepared = prepare(a_job(Noise(), images(ROWS), y, tmp_path, strategy=how), how)
    operations = prepared.training.operations
    assert [sum("aten.rand" in operations[i].call.target for i in stage.operations) for stage in prepared.fit.stages] == [1, 0]
    assert any("rand" in value for value in prepared.fit.stages[1].takes)


@pytest.mark.parametrize(
    "settings",
    [
        {"schedule": "interleaved", "stages": 2},
        {"schedule": "interleaved", "stages": 5},
        {"stages": -1},
        {"workers": -2},
        {"microbatches": -1},
        {"mesh": {"lanes": 2}},
    ],
)
def test_settings_that_mean_nothing(settings: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="strategy"):
        Pipeline(**settings)
    if "workers" in settings:
        with pytest.raises(ValueError, match=r"strategy\.workers is -2"):
            Branches(**settings)


def test_sizes_of_micro_batches_are_in_the_key_with_their_statistics() -> None:
    one = Pipeline(microbatches=4, batch_norm="each")
    other = Pipeline(microbatches=4, batch_norm="each", mesh={"r": 3}, split={"batch": "r"})
    assert one.key_fields() != other.key_fields()
    assert Pipeline(microbatches=4).key_fields() is None


def refused(model: nn.Module, x: Tensor, how: Pipeline | Branches, folder: Path) -> str:
    with pytest.raises(LaminarError) as caught:
        prepare(a_job(model, x, torch.zeros(len(x), dtype=torch.int64), folder, strategy=how), how)
    assert caught.value.code == "L012"
    return f"{caught.value} {caught.value.hint}"


def test_what_cannot_be_cut(tmp_path: Path) -> None:
    x = images(ROWS)
    assert "takes its statistics from a batch" in refused(Cnn(), x, Pipeline(stages=2, microbatches=2), tmp_path)
    assert "stages = 6 or fewer" in refused(mlp(), x, Pipeline(stages=40), tmp_path)
    assert "did you mean '3'" in refused(mlp(), x, Pipeline(cut=["33"]), tmp_path)
    assert "does not come behind" in refused(mlp(), x, Pipeline(cut=["3", "1"]), tmp_path)
    assert "microbatches = 12 or fewer" in refused(mlp(), x, Pipeline(stages=2, microbatches=13), tmp_path)
    assert "no branches side by side" in refused(mlp(), x, Branches(lanes=2), tmp_path)
    assert "at most 4 branches" in refused(Wide(), x, Branches(lanes=5), tmp_path)


class OtherEnd(nn.Module):
    """In evaluation, what comes last in training is left out; or something more comes."""

    def __init__(self, *, longer: bool) -> None:
        super().__init__()
        self.inner, self.head, self.longer = nn.Linear(784, 24), nn.Linear(24, 10), longer
        self.scale = nn.Parameter(torch.ones(10))

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.head(torch.relu(self.inner(x.flatten(1))))
        if self.training == self.longer:
            return y
        return torch.tanh(torch.sigmoid(torch.tanh(y) * 2) * 3)


@pytest.mark.parametrize("cut", ["inner", "head"])
@pytest.mark.parametrize("longer", [True, False])
def test_outputs_are_made_in_the_same_lane_in_training_and_in_judging(tmp_path: Path, *, longer: bool, cut: str) -> None:
    model, x = OtherEnd(longer=longer), images(ROWS)
    job = a_job(model, x, torch.randint(0, 10, (ROWS,)), tmp_path)
    prepared = prepare(job, Pipeline(stages=3, microbatches=2)) if cut == "inner" else prepare(job, Pipeline(cut=["head"], microbatches=2))
    ends = [plan.stages[plan.last].lane for plan in (prepared.fit, prepared.test)]
    assert ends[0] == ends[1]
    check(model, x, Pipeline(stages=3, microbatches=2), tmp_path)


class Picked(nn.Module):
    """One number of each row, at a place that the row itself says; or a number for each row's place in the batch."""

    def __init__(self, *, numbered: bool) -> None:
        super().__init__()
        self.inner, self.head, self.numbered = nn.Linear(784, 24), nn.Linear(24, 10), numbered

    def forward(self, x: Tensor) -> Tensor:
        y = torch.relu(self.inner(x.flatten(1)))
        places = torch.arange(x.shape[0])
        y = y + (places[:, None] if self.numbered else y[places, y.argmax(1)][:, None]) * 1e-2
        out: Tensor = self.head(y)
        return out


def test_counting_the_rows_does_not_mix_them(tmp_path: Path) -> None:
    check(Picked(numbered=False), images(ROWS), Pipeline(stages=2, microbatches=3), tmp_path)


def test_a_number_for_the_place_in_the_batch_mixes_them(tmp_path: Path) -> None:
    with pytest.raises(LaminarError, match=r"mixes the rows of a batch \(aten.add.Tensor\)"):
        check(Picked(numbered=True), images(ROWS), Pipeline(stages=2, microbatches=3), tmp_path)
    check(Picked(numbered=True), images(ROWS), Pipeline(stages=2, microbatches=1), tmp_path)


class Constant(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.bias = nn.Parameter(torch.zeros(10))

    def forward(self, x: Tensor) -> Tensor:
        return self.bias.expand(x.shape[0], 10)


def test_an_output_that_does_not_depend_on_samples_is_refused(tmp_path: Path) -> None:
    with pytest.raises(LaminarError, match="does not depend on its samples") as raised:
        check(Constant(), images(ROWS), Pipeline(stages=2, microbatches=1), tmp_path)
    assert raised.value.code == "L012"

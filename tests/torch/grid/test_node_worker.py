"""What a node computes: the same as anybody would who has the graph, the numbers and the data; and what it keeps back."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import msgspec
import numpy as np
import pytest
import torch
from torch import nn

from laminar.core.errors import LaminarError
from laminar.data.open import open_data
from laminar.data.spec import DataSpec, SampleSpec
from laminar.grid.describe import Described, describe, load_version, rounds_for, version_of
from laminar.grid.node.data_process import Opener
from laminar.grid.node.home import Home
from laminar.grid.node.sources import data_of
from laminar.grid.node.worker import Worker
from laminar.grid.trust.admission import Wanted, admit
from laminar.grid.trust.robust import combine_buffers
from laminar.grid.wire import answer as answers
from laminar.grid.wire.messages import About, Task, Version
from laminar.model.freeze import freeze
from laminar.parallel.compress.layout import Layout
from laminar.parallel.compress.packet import Packet
from laminar.parallel.compress.values import read_values
from laminar.train.compression import TopK
from laminar.train.job import Job
from laminar.train.on_grid import Grid
from laminar.train.recipe import Recipe

SPEC = DataSpec(source="digits")


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.features = nn.Sequential(nn.Flatten(), nn.Linear(64, 16), nn.BatchNorm1d(16), nn.ReLU())
        self.head = nn.Linear(16, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.features(x))


class Words(nn.Module):
    def __init__(self, *, sparse: bool) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.table, self.bag = nn.Embedding(17, 4, sparse=sparse), nn.EmbeddingBag(17, 4, mode="sum", sparse=sparse)
        self.head = nn.Linear(4 * 65, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        at = (16 * x.flatten(1)).long()
        return self.head(torch.cat([self.table(at).flatten(1), self.bag(at)], 1))


def job(
    tmp: Path, grid: Grid, spec: DataSpec = SPEC, frozen: list[str] | None = None, model: nn.Module | None = None, **recipe: object
) -> tuple[Job, Described]:
    given = {"epochs": 2, "batch": 32, "optimizer": "sgd", "lr": 0.1, "strategy": grid} | recipe
    model = model or Net()
    made = Job("net", model, open_data(spec, tmp), Recipe(**given), freeze(model, frozen or []), tmp)  # type: ignore[arg-type]
    return made, describe(made, "run", spec, frozen or [])


def node(
    tmp: Path, described: Described, version: bytes, *, allow_private: bool = False, samples: Iterable[int | None] = (None,)
) -> tuple[Home, Worker]:
    """With the data of tasks of these samples."""
    home = Home(tmp / "home")
    assert home.key
    for sha256, data in described.files.items():
        home.keep_file(sha256, data)
    home.keep_version("run", 0, version)
    about = msgspec.json.decode(described.files[described.about_sha256], type=About)
    for sample in samples:
        Opener(home.root, None, allow_private=allow_private).open(data_of(about, sample))
    return home, Worker(home)


def task(described: Described, version: bytes, *, steps: int, result: int = 1, sample: int | None = None) -> Task:
    number = Version(number=0, sha256="0" * 64, size=len(version))
    return Task(
        result=result,
        task=1,
        run="run",
        about=described.about_sha256,
        version=number,
        sample=sample,
        epoch=0,
        first=0,
        steps=steps,
        seed=5,
        progress=0.0,
        lease=60.0,
    )


def change_in(home: Home, described: Described, result: int = 1) -> tuple[np.ndarray, answers.Answer]:
    found = answers.parse(home.answer_path(result).read_bytes())
    layout, how = Layout.of(described.settings.parameters), described.settings.grid.compression
    positions, values = read_values(Packet.parse(bytes(found.packet)), layout, how)
    whole = np.zeros(layout.numel, np.float32)
    whole[slice(None) if positions is None else positions] = values
    return whole, found


@pytest.mark.parametrize("frozen", [[], ["features"]])
def test_a_task_is_what_the_same_steps_are_anywhere(tmp_path: Path, frozen: list[str]) -> None:
    made, described = job(tmp_path, Grid(local_steps=3), frozen=frozen)
    version = version_of(made)
    home, worker = node(tmp_path, described, version)
    said = worker.do(task(described, version, steps=3))
    change, answer = change_in(home, described)
    assert said["samples"] == 96 and answer.head.steps == 3

    made.model.train()
    assert made.frozen is not None
    made.frozen.keep()
    trained = [p for p in made.model.parameters() if p.requires_grad]
    optimizer = torch.optim.SGD(trained, lr=0.1)
    from laminar.data.batches import Batches

    batches = Batches(made.data.train.x, made.data.train.y, batch=32, seed=0, background=False)
    for block in batches.some(0, 0, 3):
        for rows in block.slices:
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(made.model(torch.from_numpy(block.x[0])[rows]), torch.from_numpy(block.y)[rows])
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
    before, after = np.frombuffer(version, np.float32, described.settings.layout.numel), version_of(made)
    assert change == pytest.approx(before - np.frombuffer(after, np.float32, len(before)), abs=1e-6)
    assert answer.buffers == pytest.approx(np.frombuffer(after, np.float64, offset=4 * len(before)), abs=1e-6)


@pytest.mark.parametrize("recipe", [{"optimizer": "sgd", "clip": 0.5}, {"optimizer": "adam", "lr": 0.01}], ids=["sgd", "adam"])
def test_sparse_gradients_are_as_good_as_dense_ones(tmp_path: Path, recipe: dict[str, object]) -> None:
    found = []
    for sparse in (True, False):
        made, described = job(tmp_path, Grid(local_steps=3), model=Words(sparse=sparse), **recipe)
        version = version_of(made)
        home, worker = node(tmp_path / str(sparse), described, version)
        worker.do(task(described, version, steps=3))
        found.append(change_in(home, described)[0])
    assert found[0] == pytest.approx(found[1], abs=1e-5) and np.count_nonzero(found[0])


def test_two_nodes_do_a_task_alike_and_another_seed_otherwise(tmp_path: Path) -> None:
    spec = DataSpec(source="digits", sample=SampleSpec(per_class=20))
    made, described = job(tmp_path, Grid(local_steps=4), spec)
    version, found = version_of(made), []
    for i, sample in enumerate((7, 7, 8)):
        home, worker = node(tmp_path / str(i), described, version, samples=[sample])
        worker.do(task(described, version, steps=4, sample=sample))
        found.append(change_in(home, described)[0])
    assert (found[0] == found[1]).all() and not (found[0] == found[2]).all()


def test_what_is_kept_back_comes_later_and_what_was_not_used_is_put_back(tmp_path: Path) -> None:
    made, described = job(tmp_path, Grid(local_steps=2, compress=TopK(sparsity=0.9)))
    version = version_of(made)
    home, worker = node(tmp_path, described, version)
    worker.do(task(described, version, steps=2, result=1))
    first, one = change_in(home, described, 1)
    assert one.head.fresh and 0 < np.count_nonzero(first) < 0.2 * first.size
    kept = worker._compressors["run"].state()["v"].clone()
    worker.put_back("run", described.about_sha256, [1])
    assert worker._compressors["run"].state()["v"] == pytest.approx(kept.numpy() + first, abs=1e-5)
    worker.do(task(described, version, steps=2, result=2))
    assert not change_in(home, described, 2)[1].head.fresh
    again = Worker(home)  # after a reboot
    assert again.whole(task(described, version, steps=2, result=2))
    compressor, fresh = again._compressor("run", again._trainer(described.about_sha256))
    assert not fresh and torch.equal(compressor.state()["v"], worker._compressors["run"].state()["v"])
    again.forget("run", [2])
    assert not home.residual_path("run").exists()


def test_a_version_goes_there_and_back(tmp_path: Path) -> None:
    made, _ = job(tmp_path, Grid())
    version = version_of(made)
    with torch.no_grad():
        for tensor in [*made.model.parameters(), *made.model.buffers()]:
            tensor.add_(1)
    load_version(made, version)
    assert version_of(made) == version


class Tables(nn.Module):
    """Buffers of every kind: one that training changes, and tables that it leaves alone."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.head = nn.BatchNorm1d(64), nn.Linear(64, 10)
        self.register_buffer("turns", torch.polar(torch.ones(64), torch.arange(64.0)))
        self.register_buffer("mask", torch.full((10, 10), float("-inf")).triu(1))
        self.register_buffer("which", torch.tensor([True, False]))
        self.register_buffer("large", torch.tensor(2**62 + 1))
        self.register_buffer("apart", torch.tensor([0.5 + 0.25j]), persistent=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        turned = (self.norm(x.flatten(1)) * self.turns * self.apart).real * (self.large > 2**62)
        return torch.tril(self.head(turned)[:, None] + self.mask).amax(1)


def test_tables_arrive_and_come_back_bit_by_bit(tmp_path: Path) -> None:
    model = Tables()
    before = {name: buffer.clone() for name, buffer in model.named_buffers()}
    recipe = Recipe(epochs=1, batch=32, optimizer="sgd", lr=0.1, strategy=Grid(local_steps=2))  # type: ignore[arg-type]
    made = Job("net", model, open_data(SPEC, tmp_path), recipe, freeze(model, []), tmp_path)
    described = describe(made, "run", SPEC, [])
    version = version_of(made)
    home, worker = node(tmp_path, described, version)
    worker.do(task(described, version, steps=2))
    answer = answers.parse(home.answer_path(1).read_bytes())
    settings = described.settings
    how = settings.grid.compression
    wanted = Wanted(1, version=0, steps=2, batch=32, layout=settings.layout, buffers=settings.buffers, compress=how, usual=None)
    assert admit(home.answer_path(1).read_bytes(), wanted).norm > 0

    found = combine_buffers([answer.buffers] * 3, [0.1, 0.2, 0.3], "mean")
    load_version(made, version[: 4 * settings.layout.numel] + found.tobytes())
    for name, buffer in model.named_buffers():
        assert buffer.dtype == before[name].dtype
        assert torch.equal(buffer, before[name]) != name.startswith("norm."), name


def test_the_description_has_no_code_in_it(tmp_path: Path) -> None:
    _, described = job(tmp_path, Grid())
    about = msgspec.json.decode(described.about, type=About)
    assert set(about.graphs) == {"train", "eval"}
    assert not any(word in data for data in described.files.values() for word in (b"class Net", b"def forward"))


@pytest.mark.parametrize(
    ("spec", "said"), [(DataSpec(source="python:models:rows"), "runs code"), (DataSpec(source="folder:photos"), "a file of this machine")]
)
def test_what_strangers_cannot_open_is_refused_before_anything_is_sent(spec: DataSpec, said: str, tmp_path: Path) -> None:
    made, _ = job(tmp_path, Grid())
    with pytest.raises(LaminarError, match=said) as caught:
        describe(made, "run", spec, [])
    assert caught.value.code == "L504"


@pytest.mark.parametrize(
    ("grid", "epochs", "batches", "local", "rounds"),
    [
        (Grid(workers=4, local_steps=10), 1, 400, False, 10),
        (Grid(workers=4, local_steps=10), 1, 401, False, 11),
        (Grid(workers=4, local_steps=20), 50, 12, False, 13),  # 50 tasks of 12 steps each
        (Grid(workers=4, local_steps=20), 50, 12, True, 8),
        (Grid(mode="async", buffer=2, local_steps=5), 4, 25, False, 10),
    ],
)
def test_rounds_are_as_many_as_the_epochs_need(grid: Grid, epochs: int, batches: int, local: bool, rounds: int) -> None:
    assert rounds_for(grid, epochs, batches, local=local) == rounds

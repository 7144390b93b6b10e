"""What every team of sync does alike, in shared memory and over torch.distributed: members are threads of one process."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
import torch
from torch import nn

from laminar.core.errors import LaminarError
from laminar.data.dataset import Dataset, Split
from laminar.parallel.meeting import Broken
from laminar.parallel.segment import Segment
from laminar.parallel.sync.buckets import Buckets
from laminar.parallel.sync.group_team import GroupTeam
from laminar.parallel.sync.layout import Layout
from laminar.parallel.sync.links import layout_of
from laminar.parallel.sync.process_group import Group, serve_store
from laminar.parallel.sync.sent_bytes import of_step
from laminar.parallel.sync.shared_team import SharedTeam
from laminar.parallel.sync.small_gradients import rule_behind
from laminar.train.compression import AnyCompression
from laminar.train.job import Job
from laminar.train.loop import train
from laminar.train.optimizers import Optimizer, slots_of
from laminar.train.recipe import Recipe
from laminar.train.strategies import Sync
from laminar.train.team import NOTHING, STOP, Team, TeamOptimizer

LINKS = ["memory", "gloo"]
SHAPES = {"a": (12, 10), "b": (10,), "c": (), "d": (33,), "e": (20, 9)}
BUFFERS = 4 + 1 + 2 * 2 + 1 + 2  # "mean", "count", "turns", "table", "fine"
Work = Callable[[Team], Any]


def together(link: str, size: int, recipe: Recipe, work: Work) -> list[Any]:
    """What `work` gives for each rank, all at once; the first error of any."""
    found: list[Any] = [None] * size
    errors: list[BaseException] = []
    layout = Layout.of(size, SHAPES, BUFFERS, [slot for slot in slots_of(rule_behind(recipe)) if slot != "count"])
    segment = Segment.create(layout.total)
    store = serve_store("127.0.0.1", None)

    def one(rank: int) -> None:
        try:
            if link == "memory":
                found[rank] = work(SharedTeam(segment, layout, rank))
            else:
                found[rank] = work(GroupTeam(Group("127.0.0.1", store.port, rank, size, bind="127.0.0.1", timeout=20)))
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=one, args=(rank,)) for rank in range(size)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    segment.close()
    if errors:
        raise errors[0]
    return found


def parameters() -> dict[str, nn.Parameter]:
    generator = torch.Generator().manual_seed(1)  # the global one belongs to all threads
    return {name: nn.Parameter(torch.randn(shape, generator=generator)) for name, shape in SHAPES.items()}


def gradients(step: int, rank: int, share: float) -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(100 * step + rank)
    return {name: torch.randn(shape, generator=generator) * share for name, shape in SHAPES.items()}


def shares(size: int) -> list[float]:
    """Of members whose rows are not equally many."""
    return [(rank + 1) / sum(range(1, size + 1)) for rank in range(size)]


def recipe(compress: Any = "none", **settings: Any) -> Recipe:
    return Recipe(**{"epochs": 1, "lr": 0.1, "strategy": Sync(workers=2, compress=compress)} | settings)


def some_steps(optimizer: TeamOptimizer, rank: int, share: float, steps: Sequence[int], epoch: float = 9.0) -> list[Any]:
    made = []
    for step in steps:
        for name, grad in gradients(step, rank, share).items():
            optimizer.params[name].grad = grad
        made.append(optimizer.step(0.1, loss=share, epoch=epoch))
        optimizer.zero_grad()
    return made


def alone(how: Recipe, size: int, steps: int) -> tuple[dict[str, nn.Parameter], dict[str, torch.Tensor]]:
    """The same by one process that has all gradients."""
    own = parameters()
    optimizer = Optimizer(how, own)
    for step in range(steps):
        for rank, share in enumerate(shares(size)):
            for name, grad in gradients(step, rank, share).items():
                before = own[name].grad
                own[name].grad = grad if before is None else before + grad
        if how.clip is not None:
            nn.utils.clip_grad_norm_(own.values(), how.clip)
        optimizer.step(0.1)
        optimizer.zero_grad()
    return own, optimizer.tensors()


@pytest.mark.parametrize("size", [1, 3])
@pytest.mark.parametrize("settings", [{"optimizer": "adamw", "clip": 0.5}, {"optimizer": "sgd", "momentum": 0.9}], ids=["adamw", "sgd"])
@pytest.mark.parametrize(
    "compress",
    [
        "none",
        {"kind": "topk", "sparsity": 0.0, "values": "float32"},  # everything is sent: nothing is lost
        {"kind": "powersgd", "rank": 4096, "min_rate": 0.0},  # full rank
    ],
    ids=["none", "topk", "powersgd"],
)
@pytest.mark.parametrize("link", LINKS)
def test_a_step_is_that_of_the_summed_gradient(link: str, compress: Any, settings: dict[str, Any], size: int) -> None:
    how = recipe(_spec(compress), **settings)
    whole, state = alone(how, size, 4)

    def member(team: Team) -> tuple[dict[str, torch.Tensor], dict[str, torch.Tensor], list[Any], int | None]:
        own = parameters()
        optimizer = team.optimizer(how, own)
        made = some_steps(optimizer, team.rank, shares(size)[team.rank], range(2))
        team.gather(b"anything" * 1000)  # as for a checkpoint: it leaves no trace
        made += some_steps(optimizer, team.rank, shares(size)[team.rank], range(2, 4))
        kept = {name: tensor.clone() for name, tensor in optimizer.tensors().items()}
        return {name: p.detach().clone() for name, p in own.items()}, kept, made, optimizer.dense_bytes

    numbers = sum(p.numel() for p in whole.values())
    if link == "memory":
        dense = None if compress == "none" else size * 4 * numbers
    else:
        dense = of_step(size, told=2 + size + len(whole), sums=[4 * numbers])
    found = together(link, size, how, member)
    for tensors, kept, made, counted in found:
        assert [step.loss for step in made] == pytest.approx([1.0] * 4)
        assert counted == dense
        assert all(torch.equal(tensors[name], found[0][0][name]) for name in tensors)  # nobody drifts
        for name, parameter in whole.items():
            torch.testing.assert_close(tensors[name], parameter.detach(), rtol=1e-4, atol=1e-5)
        for name, tensor in state.items():
            torch.testing.assert_close(kept[name], tensor, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("link", LINKS)
def test_dgc_with_nothing_left_out_is_momentum_sgd_with_decay(link: str) -> None:
    """Momentum and decay are in the packets, and counted once. (Clipping is each member's own there: another rule than the team's.)"""
    spec = {"kind": "dgc", "sparsity": 0.0, "warmup_epochs": 0, "masking": False, "values": "float32"}
    how = recipe(_spec(spec), optimizer="sgd", momentum=0.9, weight_decay=0.01)
    whole, _ = alone(how, 2, 1)

    def member(team: Team) -> dict[str, nn.Parameter]:
        optimizer = team.optimizer(how, parameters())
        assert optimizer.tensors() == {}
        some_steps(optimizer, team.rank, shares(2)[team.rank], range(1))
        return optimizer.params

    for own in together(link, 2, how, member):
        for name, parameter in whole.items():
            torch.testing.assert_close(own[name].detach(), parameter.detach(), rtol=1e-5, atol=1e-6)


COMPRESS = ["fp16", "int8", {"kind": "topk", "sparsity": 0.9}, {"kind": "dgc", "sparsity": 0.9}, "powersgd"]


@pytest.mark.parametrize("compress", COMPRESS, ids=lambda c: c if isinstance(c, str) else c["kind"])
def test_both_links_learn_the_same_and_a_resumed_team_goes_on_bit_by_bit(compress: Any) -> None:
    how = recipe(_spec(compress), optimizer="sgd", momentum=0.9, weight_decay=0.01)
    size = 3

    def whole(team: Team) -> tuple[dict[str, torch.Tensor], list[Any]]:
        optimizer = team.optimizer(how, parameters())
        made = some_steps(optimizer, team.rank, 1 / size, range(6))
        return copied(optimizer.params), made

    def begun(team: Team) -> tuple[dict[str, torch.Tensor], dict[str, torch.Tensor], dict[str, torch.Tensor]]:
        optimizer = team.optimizer(how, parameters())
        some_steps(optimizer, team.rank, 1 / size, range(3))
        return copied(optimizer.params), copied(optimizer.tensors()), copied(optimizer.residual())

    found = {link: together(link, size, how, whole) for link in LINKS}
    for (one, made), (other, made_there) in zip(found["memory"], found["gloo"], strict=True):
        for name in one:
            torch.testing.assert_close(one[name], other[name], rtol=1e-4, atol=1e-5)
        # Of shared memory packets are counted, once each; of the network all that goes over it (test_sync_bytes.py).
        packets = [[step.sent // size] if compress == "powersgd" else step.sent // size for step in made]
        least = [of_step(size, told=2 + size + len(one), **{"sums" if compress == "powersgd" else "packet": some}) for some in packets]
        exactly = compress in ("fp16", "int8")  # others have packets of unequal sizes, or two sums
        assert all(there.sent == some if exactly else there.sent >= some for there, some in zip(made_there, least, strict=True))
        assert 0 < made[-1].sent < size * 4 * sum(tensor.numel() for tensor in one.values())
    for link in LINKS:
        saved = together(link, size, how, begun)

        def resumed(team: Team, saved: list[Any] = saved) -> dict[str, torch.Tensor]:
            optimizer = team.optimizer(how, {name: nn.Parameter(tensor.clone()) for name, tensor in saved[0][0].items()})
            optimizer.load(saved[0][1])
            optimizer.load_residual([residual for _, _, residual in saved])
            some_steps(optimizer, team.rank, 1 / size, range(3, 6))
            return copied(optimizer.params)

        for own, (wanted, _) in zip(together(link, size, how, resumed), found[link], strict=True):
            assert all(torch.equal(own[name], wanted[name]) for name in wanted)


def test_what_was_kept_back_is_not_lost_when_the_team_becomes_smaller() -> None:
    how = recipe(_spec({"kind": "topk", "sparsity": 0.95, "values": "float32"}), optimizer="sgd")

    def begun(team: Team) -> dict[str, torch.Tensor]:
        optimizer = team.optimizer(how, parameters())
        some_steps(optimizer, team.rank, 1 / team.size, range(3))
        return copied(optimizer.residual())

    saved = together("memory", 3, how, begun)

    def smaller(team: Team) -> dict[str, torch.Tensor]:
        optimizer = team.optimizer(how, parameters())
        optimizer.load_residual(saved)
        return copied(optimizer.residual())

    mean = torch.stack([own["v"] for own in saved]).mean(0)
    for size in (1, 2, 4):
        assert all(torch.equal(own["v"], mean) for own in together("memory", size, how, smaller))


@pytest.mark.parametrize("compress", ["none", "int8"])
@pytest.mark.parametrize("link", LINKS)
def test_a_parameter_that_nobody_has_a_gradient_of_is_left_alone(link: str, compress: str) -> None:
    how = recipe(compress, optimizer="adamw", weight_decay=0.1)

    def member(team: Team) -> tuple[dict[str, torch.Tensor], dict[str, torch.Tensor]]:
        optimizer = team.optimizer(how, parameters())
        for step in range(2):
            for name, grad in gradients(step, team.rank, 0.5).items():
                # "a" is never used, "d" by one of the two only
                optimizer.params[name].grad = None if name == "a" or (name == "d" and team.rank == step) else grad
            optimizer.step(0.1)
            optimizer.zero_grad()
        return copied(optimizer.params), copied(optimizer.tensors())

    before = parameters()
    for own, state in together(link, 2, how, member):
        assert torch.equal(own["a"], before["a"].detach())
        assert not any(torch.equal(own[name], before[name].detach()) for name in ("b", "c", "d", "e"))
        assert [float(state[f"count/{name}"]) for name in ("a", "d")] == [0, 2]


@pytest.mark.parametrize("link", LINKS)
def test_sums_wishes_buffers_and_bytes_are_those_of_the_whole_team(link: str) -> None:
    how = recipe(optimizer="sgd")
    given = [b"short", bytes(range(256)) * 1000, b""]

    def member(team: Team) -> tuple[Any, ...]:
        optimizer = team.optimizer(how, parameters())
        for name, grad in gradients(0, team.rank, 1.0).items():
            optimizer.params[name].grad = grad
        wishes = [optimizer.step(0.1, wish=wish if not team.rank else STOP).wish for wish in (NOTHING, STOP, NOTHING)]
        optimizer.zero_grad()
        buffers = {"mean": torch.full((4,), float(team.rank)), "count": torch.tensor(10 + team.rank)}
        buffers |= {"turns": torch.tensor([0.955 + 0.296j, 1j * team.rank]), "table": torch.tensor(2**62 + 1)}
        buffers["fine"] = torch.tensor([0.1, float("-inf")], dtype=torch.float64)
        team.share_buffers(buffers)
        found = {name: tensor.tolist() for name, tensor in buffers.items()}
        return wishes, team.sum([team.rank, 0.5]), found, team.gather(given[team.rank])

    for rank, (wishes, sums, found, bytes_) in enumerate(together(link, 3, how, member)):
        assert wishes == [NOTHING, STOP, NOTHING]
        assert sums == [3.0, 1.5]
        assert found["mean"] == [1.0] * 4
        assert found["count"] == 10  # member 0's
        assert found["turns"] == torch.tensor([0.955 + 0.296j, 1j]).tolist()
        assert found["table"] == 2**62 + 1
        assert found["fine"] == [0.1, float("-inf")]
        assert bytes_ == ([] if rank else given)


def test_gradients_are_on_their_way_before_the_backward_pass_ends_and_in_the_same_order_everywhere() -> None:
    """A model of three layers, the middle one unused in the first step; accumulated over two passes."""
    sent: list[int] = []

    class Done:
        def wait(self) -> None: ...

    def start(flat: torch.Tensor) -> Any:
        sent.append(flat.numel())
        return Done()

    layers = nn.ModuleList([nn.Linear(3, 3, bias=False), nn.Linear(3, 5, bias=False), nn.Linear(3, 2, bias=False)])
    buckets = Buckets(dict(layers.named_parameters()), start, first=4, later=4)  # bytes: each parameter for itself
    x = torch.ones(1, 3)
    buckets.begin(complete=False)
    layers[2](layers[0](x)).sum().backward()
    assert sent == []  # another pass follows
    buckets.begin(complete=True)
    layers[2](layers[0](x)).sum().backward()
    assert sent == [6]  # the next has no gradient yet, and those behind it wait for their turn
    buckets.flush()
    assert sent == [6, 15, 9]
    assert not buckets.views[1].any()
    torch.testing.assert_close(buckets.views[2], layers[2].weight.grad)
    buckets.reset()
    sent.clear()
    layers.zero_grad()
    buckets.begin(complete=True)
    (layers[2](layers[0](x)).sum() + layers[1](x).sum()).backward()
    assert sent == [6, 15, 9]  # before anybody asked


def test_a_team_over_the_network_that_lost_a_member_is_broken_and_does_not_hang() -> None:
    def member(team: Team) -> None:
        if not team.rank:
            team.sum([1.0])

    with pytest.raises(Broken):
        together("gloo", 2, recipe(), member)


def test_a_team_that_breaks_in_the_middle_of_a_test_is_no_failure_of_the_model(tmp_path: Path) -> None:
    """Whoever dies while the others test the model: they leave, and are not taken for the culprits."""
    x, y = np.zeros((8, 3), dtype=np.float32), np.arange(8) % 2
    model = nn.Sequential(nn.Linear(3, 2))
    job = Job("layer", model, Dataset(Split(x, y), Split(x, y), ("a", "b")), recipe(batch=4), None, tmp_path, tensorboard=False)
    layout = layout_of(job, 1)
    segment = Segment.create(layout.total)
    job.team = team = SharedTeam(segment, layout, 0)
    model.register_forward_hook(lambda module, *_: None if module.training else team.meeting.call_off())
    with pytest.raises(Broken):
        train(job)
    segment.close()


@pytest.mark.parametrize("link", LINKS)
def test_whose_gradient_is_not_finite_is_known_to_all(link: str) -> None:
    """Its loss may be a number all the same, and after the step every member's is none."""

    def member(team: Team) -> tuple[list[int], list[int]]:
        optimizer = team.optimizer(recipe(optimizer="sgd"), parameters())
        some_steps(optimizer, team.rank, 0.5, [0])
        before = optimizer.astray()
        team.sum([0.0])  # nobody goes on while others look
        for name, grad in gradients(1, team.rank, 0.5).items():
            optimizer.params[name].grad = grad * float("nan") if team.rank == 1 and name == "d" else grad
        optimizer.step(0.1, loss=0.5, epoch=9.0)
        optimizer.zero_grad()
        found = optimizer.astray()
        team.sum([0.0])
        return before, found

    assert together(link, 3, recipe(optimizer="sgd"), member) == [([], [1])] * 3


@pytest.mark.parametrize("link", LINKS)
def test_a_norm_that_is_not_finite_names_whose_gradient_it_was(link: str) -> None:
    def member(team: Team) -> str:
        optimizer = team.optimizer(recipe(clip=1.0), parameters())
        for name, grad in gradients(0, team.rank, 0.5).items():
            optimizer.params[name].grad = grad * float("inf") if team.rank == 1 else grad
        with pytest.raises(LaminarError) as caught:
            optimizer.step(0.1, loss=0.5, epoch=9.0)
        team.sum([0.0])
        return caught.value.message

    for said in together(link, 2, recipe(clip=1.0), member):
        assert said.endswith("(worker 1 gave a gradient that is not finite)")


def test_a_loss_that_is_not_finite_names_whose_gradient_made_it_so(tmp_path: Path) -> None:
    x, y = np.ones((8, 3), dtype=np.float32), np.arange(8) % 2
    model = nn.Sequential(nn.Linear(3, 2))
    how = recipe(batch=4, optimizer="sgd")
    job = Job("layer", model, Dataset(Split(x, y), Split(x, y), ("a", "b")), how, None, tmp_path, tensorboard=False)
    layout = layout_of(job, 1)
    segment = Segment.create(layout.total)
    job.team = SharedTeam(segment, layout, 0)
    next(model.parameters()).register_hook(lambda grad: grad * float("nan"))
    with pytest.raises(LaminarError) as caught:
        train(job)
    assert caught.value.message.startswith("the loss is nan (worker 0 gave a gradient that is not finite) at step 1 of epoch 0")
    segment.close()


def test_a_model_with_batch_statistics_gets_through_a_short_last_batch(tmp_path: Path) -> None:
    """Of three rows two members would have one and two, and statistics of one row do not exist."""
    x, y = np.random.default_rng(0).normal(size=(11, 3)).astype(np.float32), np.arange(11) % 2
    jobs = []
    for rank in range(2):
        model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 2))
        data = Dataset(Split(x, y), Split(x, y), ("a", "b"))
        jobs.append(Job("layer", model, data, recipe(batch=4, optimizer="sgd"), None, tmp_path / str(rank), tensorboard=False))
        jobs[-1].folder.mkdir()
    layout = layout_of(jobs[0], 2)
    segment = Segment.create(layout.total)
    taken: list[list[int]] = [[], []]
    for rank, job in enumerate(jobs):
        job.team = SharedTeam(segment, layout, rank)
        seen = taken[rank]
        job.model.register_forward_pre_hook(lambda module, inputs, seen=seen: seen.append(len(inputs[0])) if module.training else None)
    errors: list[BaseException] = []

    def one(job: Job) -> None:
        try:
            train(job)
        except BaseException as error:
            errors.append(error)
            assert isinstance(job.team, SharedTeam)
            job.team.meeting.call_off()

    threads = [threading.Thread(target=one, args=(job,)) for job in jobs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    segment.close()
    assert not errors, errors
    assert taken == [[2, 2, 3], [2, 2]]


def test_a_port_in_use_is_told() -> None:
    store = serve_store("127.0.0.1", None)
    with pytest.raises(LaminarError) as caught:
        serve_store("127.0.0.1", store.port)
    assert caught.value.code == "L405" and caught.value.exit_code == 4


def _spec(compress: Any) -> Any:
    return compress if isinstance(compress, str) else msgspec.convert(compress, AnyCompression)


def copied(tensors: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    return {name: tensor.detach().clone() for name, tensor in tensors.items()}

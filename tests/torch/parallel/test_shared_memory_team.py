"""Teams in shared memory: members in threads of one process, so that every step of a meeting can be seen."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

from laminar.core.errors import LaminarError
from laminar.parallel.meeting import Broken, Meeting, words_for
from laminar.parallel.segment import Segment
from laminar.parallel.sync.layout import Layout
from laminar.parallel.sync.shared_team import SharedTeam
from laminar.train.optimizers import Optimizer, slots_of
from laminar.train.recipe import Recipe
from laminar.train.team import NOTHING, SAVE, STOP, own_rows, rows_of_short

SHAPES = {"a": (5, 7), "b": (7,), "c": (), "d": (33,)}


def together(size: int, work: Callable[[int], Any]) -> list[Any]:
    """What `work` gives for each rank, all at once; the first error of any."""
    found: list[Any] = [None] * size
    errors: list[BaseException] = []

    def one(rank: int) -> None:
        try:
            found[rank] = work(rank)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=one, args=(rank,)) for rank in range(size)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    if errors:
        raise errors[0]
    return found


def parameters() -> dict[str, nn.Parameter]:
    generator = torch.Generator().manual_seed(1)  # the global one belongs to all threads
    return {name: nn.Parameter(torch.randn(shape, generator=generator)) for name, shape in SHAPES.items()}


def gradients(step: int, rank: int, size: int) -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(100 * step + rank)
    return {name: torch.randn(shape, generator=generator) / size for name, shape in SHAPES.items()}


@pytest.mark.parametrize("size", [1, 2, 3])
@pytest.mark.parametrize(
    "settings",
    [
        {"optimizer": "adam"},
        {"optimizer": "adamw", "clip": 0.5},
        {"optimizer": "sgd", "momentum": 0.9, "nesterov": True},
        {"optimizer": "sgd"},
        {"optimizer": "adagrad"},
        {"optimizer": "lars"},
        {"optimizer": "lamb", "clip": 1.0},
    ],
    ids=lambda s: "-".join(map(str, s.values())),
)
def test_a_shared_step_is_the_step_of_the_summed_gradient(size: int, settings: dict[str, Any]) -> None:
    recipe = Recipe(epochs=1, lr=0.1, **settings)
    alone = parameters()
    optimizer = Optimizer(recipe, alone)
    for step in range(6):
        for rank in range(size):
            for name, grad in gradients(step, rank, size).items():
                alone[name].grad = grad if alone[name].grad is None else alone[name].grad + grad
        if recipe.clip is not None:
            nn.utils.clip_grad_norm_(alone.values(), recipe.clip)
        optimizer.step(0.1)
        optimizer.zero_grad()

    layout = Layout.of(size, SHAPES, 0, [slot for slot in slots_of(recipe) if slot != "count"])
    segment = Segment.create(layout.total)

    def member(rank: int) -> tuple[dict[str, torch.Tensor], dict[str, torch.Tensor], float]:
        own = parameters()
        team = SharedTeam(segment, layout, rank)
        shared = team.optimizer(recipe, own)
        for step in range(6):
            for name, grad in gradients(step, rank, size).items():
                own[name].grad = grad
            made = shared.step(0.1, loss=float(rank + 1))
            shared.zero_grad()
        return {name: p.detach().clone() for name, p in own.items()}, shared.tensors(), made.loss

    found = together(size, member)
    for tensors, state, loss in found:
        assert loss == sum(range(1, size + 1))
        for name, parameter in alone.items():
            torch.testing.assert_close(tensors[name], parameter.detach(), rtol=1e-5, atol=1e-6)
        for name, tensor in optimizer.tensors().items():
            torch.testing.assert_close(state[name], tensor, rtol=1e-4, atol=1e-6)
    segment.close()


def test_sums_and_buffers_are_those_of_the_whole_team() -> None:
    layout = Layout.of(3, {"a": (2,)}, 4 + 1, [])
    segment = Segment.create(layout.total)

    def member(rank: int) -> tuple[list[list[float]], list[float], int]:
        team = SharedTeam(segment, layout, rank)
        sums = [team.sum([rank, k]) for k in range(50)]
        buffers = {"mean": torch.full((4,), float(rank)), "count": torch.tensor(10 + rank)}
        team.share_buffers(buffers)
        return sums, buffers["mean"].tolist(), int(buffers["count"])

    for sums, mean, count in together(3, member):
        assert sums == [[3.0, 3.0 * k] for k in range(50)]
        assert mean == [1.0] * 4
        assert count == 10  # member 0's
    segment.close()


def test_what_member_0_wishes_is_known_to_all_after_that_step() -> None:
    layout = Layout.of(2, SHAPES, 0, [])
    segment = Segment.create(layout.total)

    def member(rank: int) -> list[int]:
        shared = SharedTeam(segment, layout, rank).optimizer(Recipe(epochs=1, optimizer="sgd"), own := parameters())
        wishes = []
        for step in range(4):
            for name, grad in gradients(step, rank, 2).items():
                own[name].grad = grad
            wishes.append(shared.step(0.1, wish=(STOP if step == 2 else NOTHING) if not rank else SAVE).wish)
        return wishes

    assert together(2, member) == [[NOTHING, NOTHING, STOP, NOTHING]] * 2
    segment.close()


def test_member_0_gathers_what_each_has() -> None:
    layout = Layout.of(3, {"a": (2,)}, 0, [])
    segment = Segment.create(layout.total)
    given = [b"short", bytes(range(256)) * 1000, b""]  # one is longer than what goes at a time
    assert len(given[1]) > layout.grad_room
    found = together(3, lambda rank: SharedTeam(segment, layout, rank).gather(given[rank]))
    assert found == [given, [], []]
    segment.close()


@pytest.mark.parametrize(
    "settings", [{"optimizer": "adamw", "weight_decay": 0.1, "clip": 0.5}, {"optimizer": "lamb"}, {"optimizer": "sgd"}]
)
def test_a_parameter_without_a_gradient_is_left_alone_as_one_process_leaves_it(settings: dict[str, Any]) -> None:
    recipe = Recipe(epochs=1, lr=0.1, **settings)

    def has(name: str, step: int, rank: int) -> bool:
        # "a" is never used, "b" by none in step 1, "d" by one of the two only
        return not (name == "a" or (name == "b" and step == 1) or (name == "d" and rank == 1))

    alone = parameters()
    optimizer = Optimizer(recipe, alone)
    for step in range(4):
        for rank in range(2):
            for name, grad in gradients(step, rank, 2).items():
                if has(name, step, rank):
                    alone[name].grad = grad if alone[name].grad is None else alone[name].grad + grad
        if recipe.clip is not None:
            nn.utils.clip_grad_norm_(alone.values(), recipe.clip)
        optimizer.step(0.1)
        optimizer.zero_grad()
    layout = Layout.of(2, SHAPES, 0, [slot for slot in slots_of(recipe) if slot != "count"])
    segments = [Segment.create(layout.total) for _ in range(2)]

    def member(rank: int) -> tuple[dict[str, torch.Tensor], dict[str, torch.Tensor]]:
        own = parameters()
        shared = SharedTeam(segments[0], layout, rank).optimizer(recipe, own)
        for step in range(4):
            if step == 3:  # a resumed one goes on the same way
                again = SharedTeam(segments[1], layout, rank).optimizer(recipe, own)
                again.load(shared.tensors())
                shared = again
            for name, grad in gradients(step, rank, 2).items():
                own[name].grad = grad if has(name, step, rank) else None
            shared.step(0.1)
            shared.zero_grad()
        return {name: p.detach().clone() for name, p in own.items()}, shared.tensors()

    for tensors, state in together(2, member):
        assert torch.equal(tensors["a"], parameters()["a"].detach())
        for name, parameter in alone.items():
            torch.testing.assert_close(tensors[name], parameter.detach(), rtol=1e-5, atol=1e-6)
        for name, tensor in optimizer.tensors().items():
            torch.testing.assert_close(state[name], tensor, rtol=1e-4, atol=1e-6)
    for segment in segments:
        segment.close()


def test_who_has_met_the_others_after_gathering_leaves_its_gradients_alone() -> None:
    """Somebody who stands in for it may be writing there by then."""
    layout = Layout.of(2, SHAPES, 0, ())
    segment = Segment.create(layout.total)
    teams = [SharedTeam(segment, layout, rank) for rank in range(2)]
    gradient = segment.bytes(layout.grad_bytes(1), 200)
    written = threading.Event()
    meet, met = teams[1].meeting.meet, 0

    def then_lose_the_core() -> None:
        nonlocal met
        meet()
        met += 1
        assert met < 3 or written.wait(60)

    teams[1].meeting.meet = then_lose_the_core  # type: ignore[method-assign]

    def work(rank: int) -> tuple[list[bytes], bytes]:
        found, before = teams[rank].gather(bytes([rank + 1]) * 100), bytes(gradient)
        if not rank:
            gradient[:] = b"\x07" * 200
            written.set()
        return found, before

    assert together(2, work)[0] == ([b"\x01" * 100, b"\x02" * 100], bytes(200))  # gaps between tensors count as gradients
    assert met == 3
    assert bytes(gradient) == b"\x07" * 200
    gradient.release()
    segment.close()


def test_nobody_waits_longer_than_the_timeout() -> None:
    segment = Segment.create(8 * words_for(2))
    with pytest.raises(Broken):
        Meeting(segment.words(0, words_for(2)), 0, 2, timeout=0.01).meet()
    segment.close()


def test_nobody_waits_for_a_team_that_was_called_off() -> None:
    segment = Segment.create(8 * words_for(2))
    words = segment.words(0, words_for(2))
    waiting, other = Meeting(words, 0, 2), Meeting(words, 1, 2)
    started = threading.Event()

    def wait() -> None:
        started.set()
        waiting.meet()

    with pytest.raises(Broken):
        together(2, lambda rank: wait() if rank == 0 else (started.wait(), other.call_off()))
    segment.close()


@pytest.mark.parametrize("size", [1, 2, 3, 7])
@pytest.mark.parametrize("rows", [0, 1, 5, 64])
def test_every_row_is_taken_once(rows: int, size: int) -> None:
    taken = [i for rank in range(size) for i in range(rows)[own_rows(rows, rank, size)]]
    assert taken == list(range(rows))


@pytest.mark.parametrize("size", [1, 2, 3, 7])
@pytest.mark.parametrize("rows", [1, 2, 3, 5, 7, 20])
def test_of_a_short_batch_nobody_takes_a_single_row(rows: int, size: int) -> None:
    parts = [range(rows)[rows_of_short(rows, rank, size)] for rank in range(size)]
    assert [i for part in parts for i in part] == list(range(rows))
    assert rows == 1 or all(len(part) != 1 for part in parts)


def test_too_little_memory_is_told() -> None:
    with pytest.raises(LaminarError) as caught:
        Segment.create(1 << 60)
    assert caught.value.code == "L607"


def test_what_a_container_may_not_have_is_told_before_it_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pages would be taken until the system killed the process."""
    monkeypatch.setattr("laminar.parallel.segment.available", lambda: 1 << 20)
    with pytest.raises(LaminarError, match="1,048,576 are free") as caught:
        Segment.create((1 << 20) + 1)
    assert caught.value.code == "L607" and caught.value.exit_code == 2
    Segment.create(1 << 20).close()

"""What workers hand to each other: along lines, by posts, and in a shared step of sync; with the parts that training has for it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import torch

from laminar.parallel.meeting import Meeting, words_for
from laminar.parallel.split.gloo_line import GlooLine
from laminar.parallel.split.line import Line
from laminar.parallel.split.shared_line import line_bytes
from laminar.parallel.stages.gloo_post import GlooPost
from laminar.parallel.stages.post import Post
from laminar.parallel.stages.shared_post import SharedPost, post_bytes
from laminar.parallel.sync.layout import Layout
from laminar.parallel.sync.shared_optimizer import SharedOptimizer
from laminar.plan.profile.in_step import TIMEOUT, Curve, InStep
from laminar.train.optimizers import update_rule
from laminar.train.recipe import Recipe

PLAIN: Final = Recipe(epochs=1, optimizer="sgd")
ROOMS: Final = 2  # messages of a post
PIECES: Final = 8  # tensors of a model whose shared step is measured


def segment_sizes(members: int, largest: int) -> list[int]:
    """Bytes of shared memory: for a line and two posts, and for a shared step."""
    return [line_bytes(members) + 2 * post_bytes(largest, ROOMS), _layout(members, largest).total]


def _layout(members: int, size: int) -> Layout:
    return Layout.of(members, {str(i): (max(1, size // 4 // PIECES),) for i in range(PIECES)}, 0, ())


def lines(team: InStep) -> dict[str, dict[str, Curve]]:
    found: dict[str, Line] = {"memory": team.line, "gloo": GlooLine(team.group("line"))}
    kinds = ("sum", "gather", "swap")
    return {
        name: {
            kind: [[size, team.timed(_exchange(team, line, kind, size), uneven=name == "gloo")] for size in team.sizes] for kind in kinds
        }
        for name, line in found.items()
    }


def _exchange(team: InStep, line: Line, kind: str, size: int) -> Callable[[], Any]:
    """`size`: bytes that a member hands over."""
    own = torch.ones(size // 4)
    if kind == "sum":
        return lambda: line.sum(own)
    if kind == "gather":
        return lambda: line.gather(own, [own.numel()] * team.size)
    near = sorted({(team.rank - 1) % team.size, (team.rank + 1) % team.size})  # as rows of neighbours
    part = own[: own.numel() // len(near)]
    return lambda: line.swap(dict.fromkeys(near, part), dict.fromkeys(near, part.numel()), part.numel(), part.dtype)


def posts(team: InStep) -> dict[str, Curve]:
    """From one worker to another: half of the way there and back."""
    return {name: [[size, _round_trip(team, name, size) / 2] for size in team.sizes] for name in ("memory", "gloo")}


def _round_trip(team: InStep, name: str, size: int) -> float:
    there, back = (_post(team, name, number) for number in (0, 1))
    tensor = torch.ones(size // 4)

    def receive(post: Post) -> None:
        post.expect(tensor.shape, tensor.dtype)
        post.receive()
        post.release()

    def first() -> None:
        there.send(tensor)
        receive(back)

    def second() -> None:
        receive(there)
        back.send(tensor)

    found = team.played(first, second)
    team.meet()  # what was sent must be there before the post that it leaves from is gone
    return found


def _post(team: InStep, name: str, number: int) -> Post:
    if name == "gloo":
        return GlooPost(team.group("post"), 1 - min(team.rank, 1), number, ROOMS)
    room = team.sizes[-1]
    place = line_bytes(team.size) + number * post_bytes(room, ROOMS)
    team.meet()
    if not team.rank:  # nothing was sent yet
        words = team.segment.words(place, post_bytes(0, 0) // 8)
        for i in range(len(words)):
            words[i] = 0
    team.meet()
    return SharedPost(team.segment, place, room, ROOMS, timeout=TIMEOUT)


def shared_step(team: InStep) -> Curve:
    """A step of sync by plain sgd, without what that would take by itself on the own part of the parameters."""
    return [[size, max(0.0, _whole_step(team, size) - _own_step(team, size // team.size))] for size in team.sizes]


def _whole_step(team: InStep, size: int) -> float:
    layout = _layout(team.size, size)
    team.meet()
    if not team.rank:
        team.step_segment.floats(0, layout.total // 4).zero_()
    team.meet()
    params = {piece.name: torch.nn.Parameter(torch.ones(piece.shape)) for piece in layout.params}
    meeting = Meeting(team.step_segment.words(layout.words, words_for(team.size)), team.rank, team.size, timeout=TIMEOUT)
    optimizer = SharedOptimizer(PLAIN, params, layout, team.step_segment, meeting, first=True)
    team.meet()
    for one in params.values():
        one.grad = torch.zeros(one.shape)
    return team.timed(lambda: optimizer.step(1e-3))


def _own_step(team: InStep, size: int) -> float:
    own, grad = [torch.ones(max(1, size // 4))], [torch.zeros(max(1, size // 4))]
    update = update_rule(PLAIN, own)
    with torch.no_grad():
        return team.timed(lambda: update(own, grad, [], 1e-3))

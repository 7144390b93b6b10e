"""Schedules: in which order each lane of a pipeline computes what, for any number of stages, workers and micro-batches.

    gpipe         all forward, then all backward (Huang et al., arXiv 1811.06965)
    1f1b          backward as soon as it can be, so that few micro-batches are held (Narayanan et al., arXiv 2006.09503)
    interleaved   the same with several stages for each worker, which makes the idle time shorter (Narayanan et al., arXiv 2104.04473)
    zero-bubble   gradients of weights wait until there is nothing else to do (Qi et al., arXiv 2401.10241)

Stage s is that of lane s % lanes: a lane is a worker along the pipeline, or a mesh of them. `play` follows such orders on a clock: it tells
how long they take, and that they end. No torch here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple

from laminar.train.splitting import Schedule

Kind = Literal["forward", "backward", "inputs", "weights"]  # backward: both of the last two
Cost = Mapping[tuple[Kind, int], float]  # of an action of a stage

USUAL: Final = {"forward": 1.0, "backward": 2.0, "inputs": 1.0, "weights": 1.0}


class Action(NamedTuple):
    kind: Kind
    stage: int
    batch: int  # micro-batch


@dataclass(frozen=True)
class Played:
    action: Action
    lane: int
    begin: float
    end: float


class Stuck(ValueError):
    """Orders that cannot be followed: all wait for each other."""


def orders(name: Schedule, stages: int, lanes: int, batches: int) -> list[list[Action]]:
    """What each lane does, one after the other."""
    own = [[stage for stage in range(stages) if stage % lanes == lane] for lane in range(lanes)]
    if name == "gpipe":
        return [
            [Action("forward", s, b) for s in some for b in range(batches)]
            + [Action("backward", s, b) for s in reversed(some) for b in range(batches)]
            for some in own
        ]
    if name == "zero-bubble":
        return _zero_bubble(stages, batches)
    # Interleaving wants a multiple of the lanes. Orders can be followed without some micro-batch as well as with it: they need nothing
    # of each other.
    padded = -(-batches // lanes) * lanes if stages > lanes else batches
    found = [_one_forward_one_backward(lane, own[lane], lanes, padded) for lane in range(lanes)]
    return [[action for action in order if action.batch < batches] for order in found]


def forwards(given: Sequence[Sequence[Action]]) -> list[list[Action]]:
    """What is left of orders where nothing is learned."""
    return [[action for action in order if action.kind == "forward"] for order in given]


def one_after_the_other(lanes_of: Sequence[int], lanes: int, batches: int) -> list[list[Action]]:
    """One batch after the other through stages that are in an order in which they can be run, and back. Other lanes wait for gradients of
    inputs, so those come first; those of weights are left for the end."""
    found: list[list[Action]] = [[] for _ in range(lanes)]
    for batch in range(batches):
        for stage, lane in enumerate(lanes_of):
            found[lane].append(Action("forward", stage, batch))
        for stage, lane in reversed(list(enumerate(lanes_of))):
            found[lane].append(Action("inputs", stage, batch))
        for stage, lane in reversed(list(enumerate(lanes_of))):
            found[lane].append(Action("weights", stage, batch))
    return found


def _one_forward_one_backward(lane: int, own: Sequence[int], lanes: int, batches: int) -> list[Action]:
    """Interleaved where a lane has several stages: as many micro-batches as there are lanes go through one, then through the next."""
    group, chunks = lanes * len(own), len(own)

    def number(k: int) -> tuple[int, int]:
        return (k % group) // lanes, k // group * lanes + k % lanes

    count = batches * chunks
    forward = [Action("forward", own[chunk], batch) for chunk, batch in map(number, range(count))]
    backward = [Action("backward", own[chunks - 1 - chunk], batch) for chunk, batch in map(number, range(count))]
    first = lanes - lane - 1 if chunks == 1 else 2 * (lanes - lane - 1) + (chunks - 1) * lanes
    first = min(first, count)
    found = forward[:first]
    for f, b in zip(forward[first:], backward, strict=False):
        found += [f, b]
    return found + backward[count - first :]


def _zero_bubble(stages: int, batches: int) -> list[list[Action]]:
    """Forward and inputs as in 1f1b; a lane that would have to wait, or holds a micro-batch for each stage, takes weights instead. The idle
    time is that of the paper's ZB-H1, (stages - 1)(F + B - W), and so is the memory."""
    ahead = [[_of_inputs(action) for action in _one_forward_one_backward(lane, [lane], stages, batches)] for lane in range(stages)]
    done: dict[Action, float] = {}
    free, found = [0.0] * stages, [list[Action]() for _ in range(stages)]
    late = [list[Action]() for _ in range(stages)]  # weights that can be taken
    held = [0] * stages
    while any(ahead) or any(late):
        begin, _, lane, action = min(_could_begin(ahead, late, held, free, done))
        done[action] = free[lane] = begin + USUAL[action.kind]
        found[lane].append(action)
        if action.kind == "weights":
            late[lane].pop(0)
            held[lane] -= 1
            continue
        ahead[lane].pop(0)
        if action.kind == "forward":
            held[lane] += 1
        else:
            late[lane].append(Action("weights", action.stage, action.batch))
    return found


def _of_inputs(action: Action) -> Action:
    return action if action.kind == "forward" else Action("inputs", action.stage, action.batch)


def _could_begin(
    ahead: Sequence[Sequence[Action]],
    late: Sequence[Sequence[Action]],
    held: Sequence[int],
    free: Sequence[float],
    done: Mapping[Action, float],
) -> Iterator[tuple[float, bool, int, Action]]:
    """When, whether it is only to fill time, by whom, what."""
    stages = len(ahead)
    for lane in range(stages):
        if ahead[lane] and not (ahead[lane][0].kind == "forward" and held[lane] >= stages):
            begin = ready(ahead[lane][0], done, stages)
            if begin is not None:
                yield max(begin, free[lane]), False, lane, ahead[lane][0]
        if late[lane]:
            yield free[lane], True, lane, late[lane][0]


Needs = Mapping[int, Sequence[int]]  # by stage: those whose values it takes


def ready(action: Action, done: Mapping[Action, float], stages: int, needs: Needs | None = None) -> float | None:
    """When everything that it needs is done; None: not yet. `needs`: None where each takes those of the one before it."""
    kind, stage, batch = action
    before = ([stage - 1] if stage else []) if needs is None else needs[stage]
    behind = ([stage + 1] if stage + 1 < stages else []) if needs is None else [other for other, some in needs.items() if stage in some]
    if kind == "forward":
        wanted = [Action("forward", other, batch) for other in before]
    elif kind == "weights":
        wanted = [Action("inputs", stage, batch)]
    else:
        wanted = [Action("forward", stage, batch), *(Action(kind, other, batch) for other in behind)]
    times = [done[need] for need in wanted if need in done]
    return max(times, default=0.0) if len(times) == len(wanted) else None


def play(given: Sequence[Sequence[Action]], stages: int, cost: Cost | None = None, needs: Needs | None = None) -> list[Played]:
    """When each action begins and ends. Stuck if they cannot be followed."""
    done: dict[Action, float] = {}
    free, at = [0.0] * len(given), [0] * len(given)
    found: list[Played] = []
    while any(place < len(order) for place, order in zip(at, given, strict=True)):
        moved = False
        for lane, order in enumerate(given):
            while at[lane] < len(order) and (begin := ready(order[at[lane]], done, stages, needs)) is not None:
                action = order[at[lane]]
                begin = max(begin, free[lane])
                done[action] = free[lane] = begin + (cost or {}).get((action.kind, action.stage), USUAL[action.kind])
                found.append(Played(action, lane, begin, done[action]))
                at[lane] += 1
                moved = True
        if not moved:
            raise Stuck(f"all wait, at {[order[place] for place, order in zip(at, given, strict=True) if place < len(order)]}")
    return sorted(found, key=lambda one: (one.begin, one.lane))

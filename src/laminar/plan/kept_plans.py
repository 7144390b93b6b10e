"""Kept plans: the planner's last answer for each layer, in the store, to be looked at later. No torch here.

    .laminar/plans/STACK/LAYER.json

It is for people: nothing is built by it, and a lost file is made again by `laminar plan LAYER`.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Literal

import msgspec

from laminar.core.errors import LaminarError
from laminar.plan.memory import curve
from laminar.plan.plan import Plan
from laminar.plan.simulate import Timeline
from laminar.plan.timeline_svg import rows_of
from laminar.store import records
from laminar.store.layout import quoted
from laminar.store.store import Store

FORMAT: Final = 1
MOST: Final = 20  # plans that are kept
POINTS: Final = 240  # of a worker's memory
FINEST: Final = 1 / 2000  # of a step: shorter pieces of work are kept as one

By = Literal["plan", "auto"]


class KeptBar(msgspec.Struct, frozen=True, array_like=True):
    """A piece of work on the clock; several that are too short to be seen are one, without a name."""

    kind: str
    name: str
    begin: float
    end: float
    tasks: int = 1


class KeptRow(msgspec.Struct, frozen=True, kw_only=True):
    """What one worker, or a link, does in a step."""

    name: str
    bars: tuple[KeptBar, ...]


class KeptMemory(msgspec.Struct, frozen=True, kw_only=True):
    """(seconds, bytes from then on) of a worker."""

    worker: int
    points: tuple[tuple[float, int], ...]


class KeptPlan(msgspec.Struct, frozen=True, kw_only=True):
    """As `laminar plan --json` has it, with its name as the command line takes it.

    `timeline` is empty where workers make no steps at once.
    """

    name: str
    strategy: dict[str, Any]
    workers: int
    batch: int
    threads: int = 1  # of each worker
    step_seconds: float
    seconds_to_target: float
    steps: float
    start_seconds: float = 0.0
    test_seconds: float = 0.0
    memory_bytes: int
    node_memory_bytes: int = 0
    bytes_per_step: int
    staleness: float
    idle: float
    same_result: bool
    spent: dict[str, float]
    why: str
    measured_seconds: float | None = None
    timeline: tuple[KeptRow, ...] = ()
    memory: tuple[KeptMemory, ...] = ()


class KeptAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """`chosen`: which of the plans is the answer, from 0."""

    format: int = FORMAT
    stack: str
    layer: str
    by: By
    when: float  # seconds since 1970
    machine: str
    conclusion: str
    to_target: str  # what the number of steps stands on
    left_out: int
    notes: tuple[str, ...]
    turns: tuple[str, ...]
    chosen: int
    plans: tuple[KeptPlan, ...]


def kept_plan(plan: Plan, measured: float | None = None) -> KeptPlan:
    told = plan.to_json()
    return KeptPlan(
        name=plan.name,
        **told,
        measured_seconds=measured,
        timeline=tuple(_rows(plan)),
        memory=tuple(_memory(plan)),
    )


def _rows(plan: Plan) -> Iterator[KeptRow]:
    if not plan.ran:
        return
    thin = FINEST * max(one.end for one in plan.ran)
    for name, bars in rows_of(plan.ran, plan.resources, thin):
        yield KeptRow(name=name, bars=tuple(KeptBar(bar.kind, bar.name, bar.begin, bar.end, bar.tasks) for bar in bars))


def _memory(plan: Plan) -> Iterator[KeptMemory]:
    if not plan.ran:
        return
    ran = plan.ran
    timeline = Timeline([one.task for one in ran], [one.ready for one in ran], [one.begin for one in ran], [one.end for one in ran])
    for worker, standing in sorted(plan.standing.items()):
        yield KeptMemory(worker=worker, points=tuple(thinned(curve(timeline, worker, standing), timeline.seconds)))


def thinned(points: Sequence[tuple[float, int]], seconds: float, most: int = POINTS) -> list[tuple[float, int]]:
    """The most and the last of each of `most` / 2 equal times: so no peak is lost."""
    if len(points) <= most or not seconds:
        return list(points)
    bins: dict[int, list[tuple[float, int]]] = {}
    for point in points:
        bins.setdefault(int(point[0] / seconds * (most // 2)), []).append(point)
    found = []
    for _, some in sorted(bins.items()):
        top = max(some, key=lambda point: point[1])
        found += [top] if top == some[-1] else [top, some[-1]]
    return found


def answer(
    stack: str,
    layer: str,
    by: By,
    plans: Sequence[Plan],
    *,
    machine: str,
    conclusion: str,
    to_target: str,
    left_out: int = 0,
    notes: Sequence[str] = (),
    turns: Sequence[str] = (),
    chosen: int = 0,
    measured: Mapping[int, float] | None = None,
    when: float | None = None,
) -> KeptAnswer:
    """`measured`: seconds of a step, by number of the plan. The chosen one is kept wherever it stands in the list."""
    numbers = list(range(min(MOST, len(plans))))
    if chosen not in numbers:
        numbers.append(chosen)
    return KeptAnswer(
        stack=stack,
        layer=layer,
        by=by,
        when=time.time() if when is None else when,
        machine=machine,
        conclusion=conclusion,
        to_target=to_target,
        left_out=left_out,
        notes=tuple(notes),
        turns=tuple(turns),
        chosen=numbers.index(chosen),
        plans=tuple(kept_plan(plans[number], (measured or {}).get(number)) for number in numbers),
    )


def place(store: Store, stack: str, layer: str) -> Path:
    return store.layout.plans / quoted(stack) / f"{quoted(layer)}.json"


def keep(store: Store, told: KeptAnswer) -> str:
    """Empty, or why it could not be kept: an answer is worth telling all the same."""
    path = place(store, told.stack, told.layer)
    try:
        records.write(path, msgspec.to_builtins(told), tmp=store.layout.tmp)
    except LaminarError as error:
        return f"this answer is not kept for the dashboard: {error.message}"
    return ""


def kept(store: Store, stack: str, layer: str) -> KeptAnswer | None:
    """None: there is none. L303 where it is damaged, or another version of Laminar has written it."""
    path = place(store, stack, layer)
    body = records.read_body(path)
    if body is None:
        return None
    try:
        found = msgspec.json.decode(body, type=KeptAnswer)
    except msgspec.DecodeError as error:
        raise _unusable(path, layer, str(error)) from None
    if found.format != FORMAT or not 0 <= found.chosen < len(found.plans):
        raise _unusable(path, layer, f"its format is {found.format}, and this Laminar reads {FORMAT}")
    return found


def _unusable(path: Path, layer: str, why: str) -> LaminarError:
    return LaminarError("L303", f"{path} cannot be used: {why}", hint=f"laminar plan {layer}")

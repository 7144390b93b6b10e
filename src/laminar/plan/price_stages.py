"""What a step takes in a pipeline or with branches: the actions of each lane in its order, and what goes from lane to lane. No torch here.

In shared memory a stage writes what it gives where the next one reads it, so handing over is work of the one that gives. Over gloo it is
on its way while both go on.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final, final

from laminar.parallel.stages.schedules import Action, one_after_the_other, orders
from laminar.plan.facts import Exchange, StageCost, StagesCost, Taken
from laminar.plan.grid_lines import ALL, GridLines
from laminar.plan.known import Known
from laminar.plan.places import Places
from laminar.plan.step import Step
from laminar.plan.tasks import Key, Kind, Task
from laminar.plan.team_memory import FLOAT, opened
from laminar.train.splitting import Branches, Pipeline

KINDS: Final[dict[str, int]] = {"forward": 0, "backward": 1, "inputs": 1, "weights": 2}
SENT, ADDED, STEP = range(3, 6)  # what other tasks there are


def stages_step(known: Known, places: Places, how: Pipeline | Branches, batch: int, threads: int) -> Step:
    return _Maker(known, places, how, known.stages(how, batch, threads), batch).step()


def stages_bytes(cost: StagesCost, each: int) -> int:
    """That all workers hand over in a step. `each`: workers of a lane. What one stage has from another of its own lane is not sent."""
    if cost.sent is not None:
        return cost.sent
    lane = [stage.lane for stage in cost.stages]
    between = sum(one.bytes * (1 + one.learns) for stage in cost.stages for one in stage.takes if lane[one.source] != stage.lane)
    inside = sum(one.bytes for stage in cost.stages for one in (*stage.there, *stage.back))
    once = sum(one.bytes for stage in cost.stages for one in stage.gradients)
    return each * ((between + inside) * cost.batches + once + cost.shared_by_all)


@final
class _Maker:
    def __init__(self, known: Known, places: Places, how: Pipeline | Branches, cost: StagesCost, batch: int) -> None:
        self._known, self._places, self._how, self._cost, self._batch = known, places, how, cost, batch
        self._inside = GridLines(how.mesh) if how.mesh else None
        self._each = self._inside.size if self._inside is not None else 1  # workers of a lane
        self._in_memory = how.link == "memory" and places.one_node
        self._takers: list[list[tuple[int, int, Taken]]] = [[] for _ in cost.stages]  # the stage, and the place of the value there
        for number, stage in enumerate(cost.stages):
            for place, one in enumerate(stage.takes):
                self._takers[one.source].append((number, place, one))

    def _orders(self) -> list[list[Action]]:
        cost = self._cost
        if isinstance(self._how, Pipeline):
            return orders(self._how.schedule, len(cost.stages), cost.lanes, cost.batches)
        return one_after_the_other([stage.lane for stage in cost.stages], cost.lanes, cost.batches)

    def step(self) -> Step:
        cost, tasks = self._cost, list[Task]()
        ends: list[Key] = []
        for lane, order in enumerate(self._orders()):
            before: Key | None = None
            for action in order:
                before = self._act(tasks, lane, action, before)
            assert before is not None
            ends.append(before)
        tasks += self._end(ends)
        return Step(tasks, self._standing(), stages_bytes(cost, self._each), names=self._places.names())

    def _cores(self, lane: int) -> tuple[int, ...]:
        return tuple(sorted({self._places.core(lane * self._each + k) for k in range(self._each)}))

    def _slow(self, lane: int) -> float:
        """Lanes wait for each other at every micro-batch."""
        return max(self._places.slow(lane * self._each + k) for k in range(self._each)) * self._places.last_of(self._places.workers)

    def _act(self, tasks: list[Task], lane: int, action: Action, before: Key | None) -> Key:
        stage = self._cost.stages[action.stage]
        key: Key = (action.stage, action.batch, KINDS[action.kind])
        after = [before] if before is not None else []
        seconds = self._seconds(stage, action)
        if action.kind == "forward":
            after += [self._arrival(one.source, action.stage, place, action.batch, back=False) for place, one in enumerate(stage.takes)]
            seconds += self._hand_over(lane, [(taker, one.bytes) for taker, _, one in self._takers[action.stage]])
        elif action.kind != "weights":
            after.append((action.stage, action.batch, KINDS["forward"]))
            after += [
                self._arrival(taker, action.stage, place, action.batch, back=True)
                for taker, place, one in self._takers[action.stage]
                if one.learns
            ]
            seconds += self._hand_over(lane, [(one.source, one.bytes) for one in stage.takes if one.learns])
        kind: Kind = "forward" if action.kind == "forward" else action.kind
        held = tuple((lane * self._each + k, stage.kept) for k in range(self._each)) if stage.kept else ()
        done = action.kind in ("backward", "weights")
        tasks.append(
            Task(
                key,
                seconds,
                self._cores(lane),
                tuple(dict.fromkeys(after)),
                kind,
                f"{action.kind} {stage.modules} {action.batch}",
                held if action.kind == "forward" else (),
                held if done else (),
            )
        )
        self._post(tasks, lane, action, stage)
        return key

    def _seconds(self, stage: StageCost, action: Action) -> float:
        worked = {
            "forward": stage.forward,
            "backward": stage.inputs + stage.weights,
            "inputs": stage.inputs,
            "weights": stage.weights,
        }[action.kind]
        inside = stage.there if action.kind == "forward" else stage.back if action.kind != "weights" else ()
        return worked * self._slow(stage.lane) + sum(self._meet(stage.lane, one) for one in inside)

    def _meet(self, lane: int, one: Exchange) -> float:
        if self._inside is None:
            return 0.0
        members = [lane * self._each + rank for rank in self._inside.lines(one.axis)[0]]
        return self._places.exchange(one, members, self._how.link)

    # From lane to lane

    def _hand_over(self, lane: int, takers: Sequence[tuple[int, int]]) -> float:
        """What it takes to write it where others read it."""
        if not self._in_memory:
            return 0.0
        away = [(self._cost.stages[number].lane, size) for number, size in takers]
        return sum(self._places.post(lane * self._each, other * self._each, size, "memory") for other, size in away if other != lane)

    def _arrival(self, source: int, taker: int, place: int, batch: int, *, back: bool) -> Key:
        """After which what `source` gives is there for `taker`; `place`: of the value, of which there may be several between the two."""
        if self._in_memory or self._cost.stages[source].lane == self._cost.stages[taker].lane:
            return (source, batch, KINDS["inputs" if back else "forward"])
        return (source, batch, SENT, taker, int(back), place)

    def _post(self, tasks: list[Task], lane: int, action: Action, stage: StageCost) -> None:
        if self._in_memory or action.kind == "weights":
            return
        back = action.kind != "forward"
        takers = [(one.source, place, one) for place, one in enumerate(stage.takes) if one.learns] if back else self._takers[action.stage]
        for number, place, one in takers:
            other = self._cost.stages[number].lane
            if other == lane:
                continue
            source, taker = lane * self._each, other * self._each
            nodes = self._places.node[source], self._places.node[taker]
            ways = (self._places.way_out(nodes[0]), self._places.way_in(nodes[1])) if nodes[0] != nodes[1] else ()
            seconds = self._places.post(source, taker, one.bytes, self._how.link)
            key = (action.stage, action.batch, SENT, number, int(back), place)
            tasks.append(Task(key, seconds, ways, ((action.stage, action.batch, KINDS[action.kind]),), "transfer", f"send {stage.modules}"))

    # The end of a step

    def _end(self, ends: Sequence[Key]) -> list[Task]:
        job, cost, found = self._known.job(), self._cost, list[Task]()
        number = len(cost.stages)
        ready: list[Key] = list(ends)
        workers = range(cost.lanes * self._each)
        if cost.shared:
            seconds = self._places.exchange(Exchange("gather", ALL, cost.shared), workers, self._how.link)
            found.append(Task((number, 0, ADDED), seconds, self._places.resources(workers), tuple(ends), "exchange", "shared gradients"))
            ready = [(number, 0, ADDED)] * cost.lanes
        for lane in range(cost.lanes):
            own = [stage for stage in cost.stages if stage.lane == lane]
            seconds = sum(self._meet(lane, one) for stage in own for one in stage.gradients)
            trained = sum(stage.trained for stage in own)
            rows = math.ceil(self._batch / self._how.parts) if any(not stage.takes for stage in own) else 0
            seconds += (job.step(trained) + rows * job.gather + job.loop) * self._slow(lane)
            found.append(Task((number, lane, STEP), seconds, self._cores(lane), (ready[lane],), "optimizer", "optimizer"))
        return found

    def _standing(self) -> dict[int, int]:
        job, found = self._known.job(), dict[int, int]()
        for lane in range(self._cost.lanes):
            own = [stage for stage in self._cost.stages if stage.lane == lane]
            size = FLOAT * job.parameters  # as every worker opens the model, before it takes its stages
            size += sum(stage.untrained + (2 + job.slots) * stage.trained for stage in own)
            found |= dict.fromkeys(
                range(lane * self._each, (lane + 1) * self._each), opened(job, self._places.facts) - job.untrained + size
            )
        return found

"""Price: what a strategy takes on a grid of desktops, played with some seeds. What is asked of it: plan/desktops.py. No torch here."""

from __future__ import annotations

import dataclasses
import math
import statistics
from collections.abc import Sequence
from functools import cache
from typing import Final

import msgspec
import numpy as np

from laminar.core.errors import LaminarError
from laminar.core.figures import more_than
from laminar.core.seeds import derive
from laminar.grid.pricing.play import Play
from laminar.grid.pricing.scene import Desk, Pace, Scene
from laminar.grid.wire import model_bytes
from laminar.grid.wire.sketch import SPARSE, sums_of
from laminar.plan.desktops import Desktops
from laminar.plan.known import Known
from laminar.plan.machine import Machine, Node
from laminar.plan.price_apart import Paced
from laminar.plan.team_memory import FLOAT
from laminar.train.on_grid import Grid

SEEDS: Final = (1, 2)
VERSIONS: Final = 24  # of a seed: after some ten comparisons a node is believed, and the rest goes on as the last of them
ANSWERS: Final = 120  # of a seed, or
ROUNDS: Final = 5  # so many rounds, where a round has many tasks
MOST: Final = 48  # desktops that are played; more are stood for by so many of them
HEAD: Final = 400  # bytes of an answer beside its values
# Seconds of processors for a task, of which benchmarks/grid_rounds.py is made: requests of HTTP, and what each byte costs to pack, hash,
# check and keep.
KEEPER, KEEPER_BYTE = 0.006, 15e-9
ASKED, ANSWERED, SERVER_BYTE = 0.002, 0.003, 25e-9
MOVED: Final = 0.01  # how far a step moves a weight, as a share of it: what a version's difference is packed from


def grid_price(known: Known, machine: Machine, how: Grid, batch: int) -> Paced:
    assert machine.grid is not None
    memory = memory_of(known, batch)
    grid = _with_room(machine.grid, memory)
    some = grid.nodes[:: math.ceil(len(grid.nodes) / MOST)]
    times = len(grid.nodes) / len(some)
    scene, played = scene_of(known, dataclasses.replace(grid, nodes=some), how, batch, times), _fewer(how, times)
    job = known.job()
    wanted = max(1.0, job.epochs * job.samples / batch) / times
    answers = max(ANSWERS, ROUNDS * played.workers)
    paces = []
    for seed in SEEDS:
        play = Play(scene, played, derive(seed, "price"), versions=VERSIONS, answers=answers)
        paces.append((play.run(), play.marks))
        if not paces[-1][0].batches:
            raise LaminarError(
                "L008",
                f"no version would ever be made: a task of {how.local_steps} steps takes too long for these desktops",
                hint="fewer local_steps, or a longer deadline and lease",
            )
    each = statistics.median(to_the_end(marks, wanted) for _, marks in paces) / times
    total = _sum([pace for pace, _ in paces])
    computing = min(each, total.computing / total.batches / max(1.0, total.present / total.seconds) / times)
    return Paced(
        seconds=each,
        memory=(memory,),
        bytes=round(total.bytes / total.batches),
        staleness=total.ages / total.parts,
        together=times * total.parts / total.versions,
        idle=max(0.0, 1.0 - total.computing / total.present) if total.present else 0.0,
        spent={"computing": computing, "waiting": each - computing},
    )


def memory_of(known: Known, batch: int) -> int:
    """Of a node: the model, where it began, a gradient, the optimizer's numbers, and an answer."""
    job = known.job()
    size = FLOAT * job.parameters
    return known.machine(1).process_bytes + job.untrained + (4 + job.slots) * size + job.kept_per_row * batch


def scene_of(known: Known, grid: Desktops, how: Grid, batch: int, times: float = 1.0) -> Scene:
    """`times`: desktops that each of these stands for, who share the server."""
    job, facts = known.job(), known.machine(1)
    size = FLOAT * job.parameters
    packing = known.packing(how.compression)
    down = math.ceil(size * down_share())
    up = HEAD + packing.bytes + (FLOAT * sums_of(job.parameters) if how.compression.kind in SPARSE else 0)

    def step(node: Node) -> float:
        whole = known.whole(batch, "module", max(1, min(node.cores, facts.cores)))
        return (whole.seconds + batch * job.gather + job.loop + job.step(size)) / node.speed

    spread = np.random.Generator(np.random.PCG64(derive(0, "speeds")))
    desks = tuple(
        Desk(
            step(node) / math.exp(grid.churn.spread * float(spread.standard_normal())),
            (KEEPER + KEEPER_BYTE * (down + size + up) + packing.encode) / node.speed,
            (grid.streaks or {}).get(node.name, 0),
            max(1, min(node.cores, facts.cores)),
        )
        for node in grid.nodes
    )
    return Scene(
        desks=desks,
        link=grid.link,
        server=grid.server / times,
        asked=ASKED * times,
        answered=(ANSWERED + SERVER_BYTE * up + SERVER_BYTE / 5 * size) * times,
        down=down,
        up=up,
        batch=batch,
        batches=max(1, job.samples // batch),
        churn=grid.churn,
        spread=facts.spread,
        cores=grid.cores,
    )


@cache
def down_share() -> float:
    """Of the bytes of a version: the difference to the one before, packed as it goes down."""
    dice = np.random.Generator(np.random.PCG64(1))
    old = (0.05 * dice.standard_normal(1 << 14)).astype("<f4")
    new = (old * (1 + MOVED * dice.standard_normal(1 << 14))).astype("<f4")
    return len(model_bytes.pack(new.tobytes(), old.tobytes())) / old.nbytes


def to_the_end(marks: Sequence[tuple[float, float]], wanted: float) -> float:
    """Seconds of a batch in a run of `wanted` batches. `marks`: seconds and batches at each version, from the beginning, where all are
    newcomers and much is done twice. What comes after the last goes on as the second half of them."""
    reached = next((mark for mark in marks if mark[1] >= wanted), None)
    if reached is not None:
        return reached[0] / reached[1]
    (seconds, batches), (before, done) = marks[-1], marks[(len(marks) - 1) // 2]
    later = (seconds - before) / (batches - done) if batches > done else seconds / batches
    return (seconds + (wanted - batches) * later) / wanted


def _with_room(grid: Desktops, memory: int) -> Desktops:
    """Nodes that have too little of it give such tasks back, and get none."""
    nodes = tuple(node for node in grid.nodes if node.memory >= memory)
    if not nodes:
        most = max((node.memory for node in grid.nodes), default=0)
        needed, room = more_than(memory, most)
        raise LaminarError(
            "L014",
            f"{needed} of memory on every node that takes part, and the largest has {room}",
            hint="a smaller batch or smaller modules",
        )
    return dataclasses.replace(grid, nodes=nodes)


def _fewer(how: Grid, times: float) -> Grid:
    """The same for fewer desktops."""
    if times == 1.0:
        return how
    workers, buffer = (max(1, round(number / times)) for number in (how.workers, how.buffer))
    return msgspec.structs.replace(how, workers=workers, buffer=buffer, minimum=min(how.minimum, workers))


def _sum(paces: Sequence[Pace]) -> Pace:
    found = Pace()
    for pace in paces:
        for field in dataclasses.fields(Pace):
            setattr(found, field.name, getattr(found, field.name) + getattr(pace, field.name))
    return found

"""Runs that need kernels: tasks go to nodes that have announced them, and to no others."""

from __future__ import annotations

from typing import Literal

from laminar.grid.db import nodes
from laminar.grid.server import overview
from laminar.grid.wire.messages import Ask, Facts
from laminar.train.on_grid import Grid
from tests.torch.grid.crowd import Crowd

LEAKY, CONV = "ab" * 32, "cd" * 32


def crowd(replicate: Literal["adaptive", "never"] = "never") -> Crowd:
    return Crowd(["honest"] * 3, Grid(rounds=2, workers=2, local_steps=2, replicate=replicate), kernels={LEAKY: "leaky", CONV: "conv"})


def announce(made: Crowd, number: int, *kernels: str) -> None:
    facts = Facts(name=f"n{number}", cores=1, memory=1 << 30, platform="p", laminar="0", kernels=list(kernels))
    made.hall.ask(made.ids[number], Ask(want=0, facts=facts))


def test_only_nodes_with_all_kernels_are_given_tasks() -> None:
    made = crowd()
    announce(made, 1, LEAKY)
    announce(made, 2, "ef" * 32, CONV, LEAKY)
    refused = [made.hall.ask(made.ids[number]) for number in (0, 1)]
    assert all(not one.tasks and one.wait > 0 for one in refused)
    assert refused[0].why.startswith(
        "what is to do needs the kernel leaky.c (sha256 abababababab…) and 1 more: laminar grid join --kernels"
    )
    assert refused[1].why.startswith("what is to do needs the kernel conv.c (sha256 cdcdcdcdcdcd…): laminar")
    assert len(refused[0].why) <= 200  # Work.why
    assert made.take(2) is not None
    run = made.hall.run(made.run)
    counted = made.hall.desk.do(lambda tx: overview.company(tx, run, made.hall.now))
    assert counted["near"] == 3 and counted["able"] == 1
    announce(made, 2)  # the owner has taken them away
    assert made.take(2) is None
    announce(made, 0, CONV, LEAKY)
    assert made.take(0) is not None


def test_a_run_with_kernels_ends_by_those_who_have_them() -> None:
    made = crowd()
    for number in (0, 2):
        announce(made, number, LEAKY, CONV)
    assert made.play() > 0.2
    done = {row["name"]: row["valid"] for row in made.known()}
    assert done["honest 1"] == 0 and done["n0"] > 0 and done["n2"] > 0


def test_nobody_waits_for_a_check_that_only_others_could_do() -> None:
    """Two of three nodes lack the kernel: there is nobody to compare with."""
    made = crowd("adaptive")
    announce(made, 1, LEAKY, CONV)
    assert made.hall.desk.do(lambda tx: nodes.active(tx, made.hall.now)) == 3
    assert made.hall.desk.do(lambda tx: nodes.active(tx, made.hall.now, kernels=[LEAKY, CONV])) == 1
    made.play()
    assert made.counts["unchecked"] > 0 and made.counts.get("checks", 0) == 0

"""Liars among the nodes, up to a fifth of them: the layer is within two points of the honest one, and the report says who was caught."""

from __future__ import annotations

from functools import cache

import pytest

from laminar.grid.population.behaviour import KINDS
from laminar.grid.server import overview
from laminar.train.on_grid import Grid
from tests.torch.grid.crowd import Crowd

NODES = 20
GRID = Grid(workers=10, rounds=30, local_steps=5, quorum=0.8, deadline=600.0, lease=600.0)
BY_ADMISSION = {"nan": "not finite", "scaled": "norm", "replaying": "other result"}


@cache
def honest() -> float:
    return Crowd(["honest"] * NODES, GRID).play()


def test_honest_nodes_are_never_refused_and_earn_their_trust() -> None:
    crowd = Crowd(["honest"] * NODES, GRID)
    accuracy = crowd.play()
    assert accuracy > 0.85 and accuracy == honest()  # the same to the last bit
    assert crowd.banned() == [] and not any(what.startswith("refused") for what in crowd.counts)
    assert all(row["streak"] >= 10 for row in crowd.known())
    assert crowd.counts["checks"] < crowd.counts["tasks"]  # checks became rarer
    assert sum(row["credit"] for row in crowd.known()) == (crowd.counts["valid"]) * 5 * 32


@pytest.mark.parametrize("kind", KINDS[1:])
def test_a_fifth_of_liars_does_no_harm_and_is_caught(kind: str) -> None:
    liars = NODES // 5
    owners = dict.fromkeys(range(liars), "one person") if kind == "sybil" else {}
    crowd = Crowd([kind] * liars + ["honest"] * (NODES - liars), GRID, owners=owners)
    assert crowd.play() >= honest() - 0.02
    caught = crowd.banned()
    assert all(name.startswith(kind) for name in caught), "an honest node was banned"
    if kind not in ("colluding", "sleeper"):  # two of them may agree with each other, now and then; sleepers wake up late
        assert len(caught) == liars
    reason = BY_ADMISSION.get(kind, "disagrees")
    assert crowd.counts.get(f"refused {reason}", 0) > 0
    run = crowd.hall.run(crowd.run)
    told = crowd.hall.desk.do(lambda tx: overview.caught(tx, run))  # in the report of a training: who, and how
    assert [who.partition(" (no ")[0] for who in told] == caught and all("(the last: " in why for why in told.values())


def test_without_replication_and_clipping_a_liar_would_win() -> None:
    """What the defences are for: the same crowd, with all of them off."""
    naive = Grid(workers=10, rounds=30, local_steps=5, deadline=600.0, lease=600.0, replicate="never", robust="mean")
    assert Crowd(["overturning"] * 4 + ["honest"] * 16, naive).play() < honest() - 0.2


def test_a_trusted_node_settles_what_colluders_agree_on() -> None:
    always = Grid(workers=10, rounds=30, local_steps=5, deadline=600.0, lease=600.0, replicate="always")
    crowd = Crowd(["colluding"] * 4 + ["honest"] * 16, always, trusted=frozenset({19}))
    assert crowd.play() >= honest() - 0.02
    assert not any(name.startswith("honest") for name in crowd.banned())


def test_nodes_of_one_owner_do_not_check_each_other() -> None:
    """All of a Sybil's nodes lie alike: were they asked about each other, they would agree."""
    always = Grid(workers=4, rounds=12, local_steps=2, deadline=600.0, lease=600.0, replicate="always")
    crowd = Crowd(["colluding"] * 6 + ["honest"] * 4, always, owners=dict.fromkeys(range(6), "sybil"))
    crowd.play()
    assert len(crowd.banned()) >= 3 and all(name.startswith("colluding") for name in crowd.banned())
    assert crowd.accuracy > 0.8


@pytest.mark.parametrize("robust", ["clip", "trimmed", "median"])
def test_robust_sums_hold_even_without_replication(robust: str) -> None:
    grid = Grid(workers=10, rounds=30, local_steps=5, deadline=600.0, lease=600.0, replicate="never", robust=robust)  # type: ignore[arg-type]
    assert Crowd(["flipped"] * 2 + ["honest"] * 18, grid).play() >= honest() - 0.03

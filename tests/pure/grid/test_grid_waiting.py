"""What a run waits for, in words, with a command that helps."""

from __future__ import annotations

from typing import Any

import pytest

from laminar.grid.waiting import waits_for


def run(**more: Any) -> dict[str, Any]:
    told = {"name": "net-1", "state": "open", "why": "", "results": {}, "refused": {}, "applied": 0, "failed": 0, "kernels": {}}
    return {**told, **more}


def nodes(known: int = 3, banned: int = 0, near: int = 3, spent: int = 0, able: int = 3) -> dict[str, int]:
    return {"known": known, "banned": banned, "near": near, "spent": spent, "able": able}


@pytest.mark.parametrize(
    ("told", "there", "kind", "why", "command"),
    [
        (run(state="paused"), nodes(), "paused", "the run is paused", "laminar grid resume net-1"),
        (run(state="paused", why="ValueError: x"), nodes(), "paused", "paused: ValueError: x", "laminar grid resume net-1"),
        (run(state="paused"), nodes(0, 0, 0), "paused", "paused", "resume"),  # the first thing first
        (run(), nodes(0, 0, 0), "nobody", "no node has joined", "laminar grid join"),
        (run(), nodes(2, 2, 0), "banned", "all 2 nodes", "--undo"),
        (run(), nodes(1, 1, 0), "banned", "its only node", "--undo"),
        (run(), nodes(3, 1, 0), "away", "of 2 nodes none is here", "laminar grid nodes"),
        (run(), nodes(3, 0, 2, 2), "spent", "all 2 nodes", "laminar grid nodes"),
        (
            run(kernels={"ab" * 32: "leaky"}),
            nodes(able=0),
            "kernel",
            "of 3 nodes here none has the kernel leaky.c (sha256 abab",
            "--kernels DIR",
        ),
        (run(kernels={"ab" * 32: "leaky", "cd" * 32: "conv"}), nodes(1, 0, 1, able=0), "kernel", "conv.c", "leaky.c and conv.c of this"),
        (run(refused={"norm": 2, "schema": 1}), nodes(), "refused", "norm 2, schema 1", "laminar grid tasks"),
        (run(failed=3), nodes(), "failed", "no node has been able", "laminar grid tasks"),
    ],
)
def test_what_is_waited_for_is_named(told: dict[str, Any], there: dict[str, int], kind: str, why: str, command: str) -> None:
    found = waits_for(told, there)
    assert found is not None and found.kind == kind and why in found.why and command in found.help


@pytest.mark.parametrize(
    ("told", "there"),
    [
        (run(), nodes()),
        (run(results={"in progress": 1}), nodes(3, 0, 0)),  # somebody is at it, and does not ask meanwhile
        (run(results={"in progress": 1}), nodes(3, 0, 2, 2)),
        (run(), nodes(3, 0, 3, 2)),
        (run(refused={"norm": 9}, applied=1), nodes()),
        (run(kernels={"ab" * 32: "leaky"}), nodes(able=1)),
        (run(refused={"norm": 2}), nodes()),
        (run(state="done"), nodes(0, 0, 0)),
        (run(state="stopped"), nodes(2, 2, 0)),
    ],
)
def test_what_goes_on_waits_for_nothing(told: dict[str, Any], there: dict[str, int]) -> None:
    assert waits_for(told, there) is None

"""What workers and servers of one machine hand to each other: messages, whose bytes lie in a room, and gradients that become steps."""

from __future__ import annotations

from typing import Final

import torch
from torch import Tensor

from laminar.parallel.aggregate.messages import Part
from laminar.parallel.apart.numbers import Numbers, OptimizerStep
from laminar.parallel.compress.dense import Dense
from laminar.parallel.compress.layout import Layout
from laminar.parallel.compress.packet import Coding
from laminar.parallel.wire.hub import Hub
from laminar.parallel.wire.link import Link
from laminar.plan.profile.in_step import TIMEOUT, Curve, InStep
from laminar.plan.profile.link_exchanges import PLAIN

TOKEN: Final = "links"


def wire(team: InStep) -> Curve:
    """From a worker to a server: packed, sent, heard, and a word back."""
    address = f"unix:{team.socket}"
    largest = 2 * team.sizes[-1]
    hub = Hub(address, TOKEN, payload_limit=largest) if not team.rank else None
    team.meet()
    link = Link(address, TOKEN, timeout=TIMEOUT, room=(largest, 0)) if team.rank == 1 else None

    def serve() -> None:
        assert hub is not None
        while True:
            for heard in hub.turn(TIMEOUT):
                hub.send(heard.caller, {"say": "taken"})
                return

    found = []
    for size in team.sizes:
        dense, grad = _dense(size), torch.ones(size // 4)

        def ask(dense: Dense = dense, grad: Tensor = grad) -> None:
            assert link is not None
            link.ask({"say": "push"}, dense.encode(grad, epoch_progress=0.0).data)

        found.append([size, team.played(serve, ask)])
    if link is not None:
        link.close()
    if hub is not None:
        hub.close()
    return found


def apply(team: InStep) -> Curve:
    """By a server alone: a packet looked at, unpacked and made a step of, by plain sgd."""
    found = []
    for size in team.sizes:
        dense = _dense(size)

        def make_step(row: Tensor, layout: Layout = dense.layout) -> OptimizerStep:
            return OptimizerStep(PLAIN, row, layout, clip=None)

        numbers = Numbers(dense.layout, dense, make_step, lambda _: 1e-3, 0)
        packet = dense.encode(torch.zeros(size // 4), epoch_progress=0.0).data

        def once(numbers: Numbers = numbers, packet: memoryview = packet) -> None:
            numbers.check("one", packet)
            numbers.apply([Part("one", "0", 1.0, 0)], ("one", packet), 0)

        found.append([size, team.played(once)])
    return found


def _dense(size: int) -> Dense:
    return Dense(Layout.of({"flat": (size // 4,)}), Coding.FLOAT32)

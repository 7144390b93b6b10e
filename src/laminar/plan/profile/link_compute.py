"""Computing beside others: how much longer everything takes, by how much it varies, and what of an exchange costs no time."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any, Final

import torch
import torch.nn.functional as F

from laminar.plan.profile.in_step import SAMPLES, InStep

EXCHANGED: Final = 8 << 20  # bytes that travel beside computing
ROUNDS: Final = 15
AWAKE: Final = 7  # the tag of a message that ends a rest


def mixed(team: InStep) -> dict[str, Any]:
    """How much longer it takes when so many compute at once; and the deviation of the logarithm of its time when all do."""
    work, clock = _some_work(), time.perf_counter
    counts = [count for count in range(1, team.size + 1) if count == team.size or not count & (count - 1)]
    times: dict[int, list[float]] = {count: [] for count in counts}
    for _ in range(2):  # in turns, so that nothing is compared with a time when the machine was another
        for count in counts:
            team.meet()
            if team.rank < count:
                work()
                until = clock() + team.steps
                while clock() < until or len(times[count]) < SAMPLES:
                    begin = clock()
                    work()
                    times[count].append(clock() - begin)
            _rest(team, count)
    alone = team.agreed(statistics.median(times[1]) if times[1] else 0.0)
    crowd = {}
    for count in counts[1:]:
        own = statistics.median(times[count]) if times[count] else 0.0
        crowd[str(count)] = max(1.0, team.added(own) / count / alone)
    logs = torch.tensor(times[team.size], dtype=torch.float64).log()
    return {"crowd": crowd, "spread": team.added(float(logs.std(unbiased=False))) / team.size}


def _rest(team: InStep, count: int) -> None:
    """Those who did not compute have been asleep until now: looking for others again and again would be computing."""
    if team.size == 1:
        return
    group, room = team.group("rest"), torch.zeros(1)
    if not team.rank:
        for other in range(count, team.size):
            group.start_send(room, other, AWAKE).wait()
    elif team.rank >= count:
        group.start_receive(room, 0, AWAKE).wait()


def hidden(team: InStep) -> float:
    """The share of the smaller of two, a sum over gloo and a product that takes as long, that costs no time when both are under way."""
    group, tensor = team.group("line"), torch.zeros(EXCHANGED // 4)
    a, b, clock = torch.randn(192, 192), torch.randn(192, 192), time.perf_counter

    def send() -> None:
        group.start_sum(tensor).wait()

    def compute() -> None:
        for _ in range(times):
            torch.mm(a, b)

    times = 1
    times = int(team.agreed(max(1.0, team.timed(send, uneven=True) / team.timed(compute))))

    def both() -> None:
        sending = group.start_sum(tensor)
        compute()
        sending.wait()

    took = [0.0, 0.0, 0.0]
    for _ in range(ROUNDS):  # in turns, so that nothing is compared with a time when the machine was another
        for i, function in enumerate((send, compute, both)):
            team.meet()
            begin = clock()
            function()
            took[i] += clock() - begin
    return min(1.0, max(0.0, (took[0] + took[1] - took[2]) / min(took[0], took[1])))


def _some_work() -> Callable[[], Any]:
    """There and back through a product and a small convolution, as training is."""
    x, w = torch.randn(256, 784), torch.randn(128, 784, requires_grad=True)
    image, kernel = torch.randn(16, 8, 14, 14), torch.randn(16, 8, 3, 3, requires_grad=True)

    def work() -> None:
        loss = F.relu(F.linear(x, w)).sum() + F.conv2d(image, kernel, padding=1).relu().sum()
        torch.autograd.grad(loss, [w, kernel])

    return work

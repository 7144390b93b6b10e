"""Bytes of sync over torch.distributed: what is told of a step is what the members' sockets have received, to the byte."""

from __future__ import annotations

import contextlib
import os
import socket
import struct
import sys
import threading
from typing import Any

import msgspec
import pytest
import torch
from torch import nn

from laminar.parallel.sync.group_team import GroupTeam
from laminar.parallel.sync.process_group import Group, serve_store
from laminar.parallel.sync.row_facts import RowFacts
from laminar.train.compression import AnyCompression
from laminar.train.recipe import Recipe
from laminar.train.strategies import Sync
from tests.pure.plan.made_up import MadeUp
from tests.pure.plan.test_price import far, priced

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="Linux says what a socket has received")

SMALL = {"a": (12, 10), "b": (10,), "c": (), "d": (33,)}  # what is told beside gradients is more than these
LARGE = {"a": (1100, 1000), "b": (33,), "c": (600, 500), "d": (10,)}  # two buckets, one of which goes in more parts than there are members
COMPRESS: list[Any] = ["none", "fp16", "int8", {"kind": "topk", "sparsity": 0.9}, {"kind": "dgc", "warmup_epochs": 0}, "powersgd"]
RECEIVED = 128  # where in the system's struct tcp_info the bytes are that came, headers not counted


def received() -> dict[str, int]:
    """By each TCP connection of this process."""
    found: dict[str, int] = {}
    for number in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):  # closed meanwhile
            if not (name := os.readlink(f"/proc/self/fd/{number}")).startswith("socket:"):
                continue
            with socket.socket(fileno=os.dup(int(number))) as one:
                if one.family in (socket.AF_INET, socket.AF_INET6) and one.type == socket.SOCK_STREAM:
                    found[name] = struct.unpack_from("<Q", one.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 256), RECEIVED)[0]
    return found


def steps(size: int, how: Recipe, shapes: dict[str, tuple[int, ...]], busy: list[float | None]) -> list[tuple[int, int, int]]:
    """Of each step: bytes told, told of one without compression, and received, by members that are threads of this process."""
    store, barrier = serve_store("127.0.0.1", None), threading.Barrier(size, timeout=60)
    found: list[tuple[int, int, int]] = []
    errors: list[BaseException] = []

    def member(rank: int) -> None:
        team = GroupTeam(Group("127.0.0.1", store.port, rank, size, bind="127.0.0.1", timeout=20))
        generator = torch.Generator().manual_seed(rank)
        params = {name: nn.Parameter(torch.zeros(shape)) for name, shape in shapes.items()}
        optimizer = team.optimizer(how, params)
        for seconds in busy:
            for parameter in params.values():
                parameter.grad = torch.randn(parameter.shape, generator=generator) / size
            barrier.wait()
            before = received() if not rank else {}
            barrier.wait()
            made = optimizer.step(0.1, epoch=9.0, busy=seconds)
            barrier.wait()
            if not rank:
                assert optimizer.dense_bytes is not None
                after = received()  # those of a team before this one may have been closed meanwhile
                found.append((made.sent, optimizer.dense_bytes, sum(after[name] - before[name] for name in before if name in after)))
            barrier.wait()  # nobody leaves while member 0 counts
            optimizer.zero_grad()

    def one(rank: int) -> None:
        try:
            member(rank)
        except BaseException as error:
            errors.append(error)
            barrier.abort()

    threads = [threading.Thread(target=one, args=(rank,)) for rank in range(size)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    if errors:
        raise errors[0]
    return found


@pytest.mark.parametrize("compress", COMPRESS, ids=lambda c: c if isinstance(c, str) else c["kind"])
@pytest.mark.parametrize("size", [1, 2, 3, 4])
@pytest.mark.parametrize("shapes", [SMALL, LARGE], ids=["small", "large"])
def test_what_is_told_is_what_went_over_the_wire(shapes: dict[str, tuple[int, ...]], size: int, compress: Any) -> None:
    how = recipe(compress)
    made = steps(size, how, shapes, [None, 1.0])
    assert [told for told, _, _ in made] == [real for _, _, real in made]
    dense = made if compress == "none" else steps(size, recipe("none"), shapes, [None, 1.0])
    assert [without for _, without, _ in made] == [real for _, _, real in dense]  # what it is held against was counted, too
    assert all(bool(told) == (size > 1) for told, _, _ in made)


def recipe(compress: Any) -> Recipe:
    how: Any = compress if isinstance(compress, str) else msgspec.convert(compress, AnyCompression)
    return Recipe(epochs=1, lr=0.1, optimizer="sgd", strategy=Sync(workers=2, link="gloo", compress=how))


@pytest.mark.parametrize("size", [2, 3])
@pytest.mark.parametrize("batch_norm", ["exact", "worker"])
def test_statistics_are_in_the_bytes_that_are_told_and_predicted(size: int, batch_norm: Any) -> None:
    """Of a training step there and back: what the sockets received, what the step tells, and what a planner says beforehand."""
    how = Sync(workers=size, link="gloo", batch_norm=batch_norm)
    facts = RowFacts(channels=[4, 6], learned=[False, True], tracked=["0.running_mean", "0.running_var", "2.running_mean", "2.running_var"])
    store, barrier = serve_store("127.0.0.1", None), threading.Barrier(size, timeout=60)
    found: list[tuple[int, int]] = []
    told: list[int] = []
    errors: list[BaseException] = []

    def member(rank: int) -> None:
        torch.manual_seed(0)
        model = nn.Sequential(nn.BatchNorm1d(4), nn.Linear(4, 6), nn.BatchNorm1d(6), nn.Linear(6, 1))
        group = Group("127.0.0.1", store.port, rank, size, bind="127.0.0.1", timeout=20)
        team = GroupTeam(group, facts if batch_norm == "exact" else None)
        optimizer = team.optimizer(recipe("none"), dict(model.named_parameters()))
        for _ in range(2):
            barrier.wait()
            before = received() if not rank else {}
            barrier.wait()
            team.before_backward(last=True)
            if team.pooled is not None:
                team.pooled.among(range(size))
            with contextlib.nullcontext() if team.pooled is None else team.pooled.together():
                model(torch.randn(5 + rank, 4)).sum().backward()
            made = optimizer.step(0.1)
            barrier.wait()
            if not rank:
                assert optimizer.dense_bytes == made.sent
                after = received()
                found.append((made.sent, sum(after[name] - before[name] for name in before if name in after)))
                told[:] = [p.nbytes for p in model.parameters()]
            barrier.wait()
            optimizer.zero_grad()

    def one(rank: int) -> None:
        try:
            member(rank)
        except BaseException as error:
            errors.append(error)
            barrier.abort()

    threads = [threading.Thread(target=one, args=(rank,)) for rank in range(size)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    if errors:
        raise errors[0]
    known = MadeUp(job_facts={"tensors": tuple(told), "rows": facts})
    predicted = priced(how, known, far(size)).bytes_per_step
    assert found == [(predicted, predicted)] * 2

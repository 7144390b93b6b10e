"""PowerSGD: as an all-reduce of several workers, and alone."""

from __future__ import annotations

from collections.abc import Generator

import pytest
import torch
from torch import Tensor

from laminar.parallel.compress.layout import Layout
from laminar.parallel.compress.packet import HEADER_BYTES, BadPacket, Packet
from laminar.parallel.compress.powersgd import LowRank
from laminar.train.compression import PowerSgd

LAYOUT = Layout.of({"conv": (8, 4, 3, 3), "bias": (8,), "head": (30, 50), "small": (2, 3)})


def gradients(seed: int, workers: int) -> list[Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(LAYOUT.numel, generator=generator) for _ in range(workers)]


def alone_in_it(tensor: Tensor) -> None:
    """The mean of one worker."""


def reduce(workers: list[LowRank], grads: list[Tensor]) -> int:
    """All workers in step, as an all-reduce would have it; how many exchanges there were."""
    running: list[Generator[Tensor, None, None]] = [w.exchange(g) for w, g in zip(workers, grads, strict=True)]
    count = 0
    for tensors in zip(*running, strict=True):
        count += 1
        mean = torch.stack(tensors).mean(0)
        for tensor in tensors:
            tensor.copy_(mean)
    return count


@pytest.mark.parametrize("rank", [50, 30])
def test_full_rank_is_the_mean(rank: int) -> None:
    workers = [LowRank(PowerSgd(rank=rank, min_rate=0), LAYOUT) for _ in range(3)]
    for step in range(3):
        grads = gradients(step, 3)
        mean = torch.stack(grads).mean(0)
        assert reduce(workers, grads) == 2
        for grad in grads:
            assert torch.allclose(grad, mean, atol=1e-5)
    assert float(sum(worker.state()["error"] for worker in workers).norm()) < 1e-4  # type: ignore[union-attr]


def test_low_rank_is_the_best_there_is() -> None:
    """With the same gradient again and again the warm start finds the leading singular vectors, without error feedback in the way."""
    matrix = torch.randn(30, 50, generator=torch.Generator().manual_seed(0))
    u, s, v = torch.linalg.svd(matrix, full_matrices=False)
    s[:2] += 20
    matrix = u @ torch.diag(s) @ v
    layout = Layout.of({"w": (30, 50)})
    worker = LowRank(PowerSgd(rank=2), layout)
    for _ in range(8):
        worker.state().get("error", torch.zeros(1)).zero_()
        grad = matrix.reshape(-1).clone()
        worker.all_reduce(grad, alone_in_it)
    best = u[:, :2] @ torch.diag(s[:2]) @ v[:2]
    assert torch.allclose(grad.view(30, 50), best, atol=1e-3)


def test_workers_get_the_same_and_nothing_is_lost() -> None:
    workers = [LowRank(PowerSgd(rank=2), LAYOUT, seed=7) for _ in range(4)]
    came = arrived = torch.zeros(LAYOUT.numel)
    for step in range(10):
        grads = gradients(step, 4)
        came = came + torch.stack(grads).mean(0)
        reduce(workers, grads)
        assert all(torch.equal(grad, grads[0]) for grad in grads)
        arrived = arrived + grads[0]
        kept = torch.stack([worker.state()["error"] for worker in workers]).mean(0)
        assert torch.allclose(arrived + kept, came, atol=1e-4)
    vectors = LAYOUT.parts[1]
    assert torch.allclose(vectors.of(arrived), vectors.of(came), atol=1e-5)


def test_only_what_gains_is_compressed() -> None:
    worker = LowRank(PowerSgd(rank=2), LAYOUT)
    given = worker.all_reduce(gradients(0, 1)[0], alone_in_it)
    # head: (30 + 50) * 2; conv, 8 x 36: 2 * (8 + 36) * 2 < 288 too; bias and small as they are
    assert given == 4 * (80 * 2 + 44 * 2 + 8 + 6)
    assert worker.max_nbytes == HEADER_BYTES + given
    assert worker.state().keys() == {"error", "q/conv", "q/head"}


def test_vectors_alone_need_one_exchange() -> None:
    layout = Layout.of({"bias": (8,), "scale": ()})
    grad = torch.arange(9.0)
    assert len(list(LowRank(PowerSgd(), layout).exchange(grad))) == 1
    assert torch.equal(grad, torch.arange(9.0))


def test_a_lost_worker_leaves_the_state() -> None:
    worker, twin = (LowRank(PowerSgd(rank=1), LAYOUT) for _ in range(2))
    for one in (worker, twin):
        one.all_reduce(gradients(0, 1)[0], alone_in_it)

    def lost(tensor: Tensor) -> None:
        raise ConnectionError

    with pytest.raises(ConnectionError):
        worker.all_reduce(gradients(1, 1)[0], lost)
    running = worker.exchange(gradients(1, 1)[0])
    next(running), next(running)
    running.close()
    assert all(torch.equal(worker.state()[name], tensor) for name, tensor in twin.state().items())


def test_a_packet_is_what_one_worker_alone_would_get() -> None:
    sender, alone = (LowRank(PowerSgd(rank=2), LAYOUT) for _ in range(2))
    for step in range(3):
        grad = gradients(step, 1)[0]
        out = torch.zeros(LAYOUT.numel)
        sender.decode(sender.encode(grad.clone(), epoch_progress=0), out)
        alone.all_reduce(grad, alone_in_it)
        assert torch.allclose(out, grad, atol=1e-5)


def test_a_tensor_without_gradient_does_not_get_stuck() -> None:
    """Q of a gradient of nothing is nothing; the next gradient must get through all the same."""
    worker = LowRank(PowerSgd(rank=1), LAYOUT)
    worker.all_reduce(torch.zeros(LAYOUT.numel), alone_in_it)
    grad = gradients(0, 1)[0]
    worker.all_reduce(grad, alone_in_it)
    assert float(LAYOUT.parts[2].of(grad).norm()) > 1


def test_matrices_that_multiply_to_infinity_are_refused() -> None:
    """Every number of it is finite."""
    layout = Layout.of({"w": (30, 50)})
    worker = LowRank(PowerSgd(rank=2), layout)
    sent = worker.encode(torch.ones(layout.numel), epoch_progress=0)
    huge = torch.full(((sent.nbytes - HEADER_BYTES) // 4,), 1e30)
    with pytest.raises(BadPacket, match=r"multiply to more than float32 holds: 1e\+30 x 1e\+30"):
        worker.decode(Packet.parse(bytes(sent.data[:HEADER_BYTES]) + huge.numpy().tobytes()), torch.zeros(layout.numel))


def test_a_packet_of_another_rank_is_refused() -> None:
    """Also where both are as long: vectors alone have no rank."""
    layout = Layout.of({"bias": (8,)})
    packet = LowRank(PowerSgd(rank=1), layout).encode(torch.ones(8), epoch_progress=0)
    with pytest.raises(BadPacket, match="the rank is 1, but 2 was expected"):
        LowRank(PowerSgd(rank=2), layout).decode(packet, torch.zeros(8))

"""Deep Gradient Compression against its formulas, and against SGD where the two must agree."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor

from laminar.parallel.compress.layout import Layout
from laminar.parallel.compress.make import make_compressor
from laminar.parallel.compress.protocol import Compressor
from laminar.train.compression import Dgc

LAYOUT = Layout.of({"a": (40, 30), "b": (30,), "c": (2, 20)})
LATE = 100.0


def dgc(spec: Dgc, layout: Layout = LAYOUT, **settings: Any) -> Compressor:
    return make_compressor(spec, layout, **{"workers": 1, **settings})


def gradients(count: int, layout: Layout = LAYOUT) -> list[Tensor]:
    generator = torch.Generator().manual_seed(5)
    return [torch.randn(layout.numel, generator=generator) for _ in range(count)]


def sends(compressor: Compressor, grad: Tensor, weights: Tensor | None = None, epoch: float = LATE) -> Tensor:
    out = torch.zeros_like(grad)
    compressor.decode(compressor.encode(grad.clone(), epoch_progress=epoch, weights=weights), out)
    return out


@pytest.mark.parametrize("values", ["float16", "float32"])
def test_without_momentum_sent_and_kept_are_what_came_in(values: Any) -> None:
    compressor = dgc(Dgc(sparsity=0.95, values=values))
    sent = came = torch.zeros(LAYOUT.numel, dtype=torch.float64)
    for grad in gradients(20):
        came = came + grad
        sent = sent + sends(compressor, grad)
        assert torch.allclose(sent + compressor.state()["v"], came, atol=1e-5)
    assert float(compressor.state()["v"].norm()) > 1  # something was kept at all


def test_nothing_left_out_is_sgd_without_momentum() -> None:
    """The mask clears the momentum of all that was sent, and that is everything."""
    compressor = dgc(Dgc(sparsity=0, values="float32"), momentum=0.9)
    for grad in gradients(5):
        assert torch.equal(sends(compressor, grad), grad)
    assert not compressor.state()["u"].any()


@pytest.mark.parametrize("nesterov", [False, True])
def test_nothing_left_out_and_no_masking_is_sgd_with_momentum(nesterov: bool) -> None:
    compressor = dgc(Dgc(sparsity=0, values="float32", masking=False), momentum=0.9, nesterov=nesterov, weight_decay=0.01)
    peer = torch.nn.Parameter(gradients(1)[0].clone())
    optimizer = torch.optim.SGD([peer], lr=0.1, momentum=0.9, nesterov=nesterov, weight_decay=0.01)
    weights = peer.detach().clone()
    for grad in gradients(6):
        peer.grad = grad.clone()
        optimizer.step()
        weights -= 0.1 * sends(compressor, grad, weights)
        assert torch.allclose(weights, peer, atol=1e-5)


def test_every_step_follows_the_formulas() -> None:
    """Against a plain reading of the paper; the sample is the whole tensor, so that the threshold is exact."""
    workers, clip, mu, decay, ratio = 4, 3.0, 0.9, 0.01, 0.05
    compressor = dgc(Dgc(sparsity=1 - ratio, values="float32", sample=1.0), workers=workers, momentum=mu, clip=clip, weight_decay=decay)
    weights = gradients(1)[0] / 10
    u, v = torch.zeros(LAYOUT.numel), torch.zeros(LAYOUT.numel)
    clipped = 0
    for grad in gradients(8):
        g = grad / workers + (decay / workers) * weights
        limit = clip / math.sqrt(workers)
        clipped += bool(g.norm() > limit)
        g = g * min(1.0, limit / float(g.norm()))
        u = mu * u + g
        v = v + u
        expected = torch.zeros(LAYOUT.numel)
        for part in LAYOUT.parts:
            at = v[part.offset : part.end].abs().topk(max(1, round(ratio * part.numel))).indices + part.offset
            expected[at] = v[at]
            v[at] = 0
            u[at] = 0
        assert torch.allclose(sends(compressor, grad, weights) / workers, expected, atol=1e-5)
        assert torch.allclose(compressor.state()["v"] / workers, v, atol=1e-5)
        assert torch.allclose(compressor.state()["u"] / workers, u, atol=1e-5)
    assert clipped == 8


def test_decay_needs_the_weights() -> None:
    with pytest.raises(ValueError, match=r"weight_decay is 0\.1, so encode needs weights"):
        dgc(Dgc(), weight_decay=0.1).encode(gradients(1)[0], epoch_progress=0)


def test_warm_up_is_the_papers() -> None:
    levels = [1 - Dgc().ratio(epoch + 0.5) for epoch in range(6)]
    assert levels == pytest.approx([0.75, 0.9375, 0.984375, 0.99609375, 0.999, 0.999])
    assert Dgc(warmup_epochs=0).ratio(0) == pytest.approx(0.001)
    assert [Dgc(warmup_epochs=2).ratio(epoch) for epoch in range(3)] == pytest.approx([0.1, 0.01, 0.001])
    assert Dgc(sparsity=0).ratio(0) == 1
    assert [Dgc(sparsity=0.75, warmup_epochs=4).ratio(epoch) for epoch in range(5)] == pytest.approx(
        [0.758, 0.574, 0.435, 0.330, 0.25], abs=1e-3
    )
    with pytest.raises(ValueError, match="epoch_progress"):
        Dgc().ratio(-1)


def test_warm_up_sends_more() -> None:
    layout = Layout.of({"w": (200, 500)})
    compressor = dgc(Dgc(), layout)
    sent = [int((sends(compressor, grad, epoch=epoch) != 0).sum()) for epoch, grad in enumerate(gradients(5, layout))]
    for count, ratio in zip(sent, (0.25, 0.0625, 0.015625, 0.00390625, 0.001), strict=True):
        assert 0.8 * ratio * layout.numel <= count <= 1.3 * ratio * layout.numel


def test_bytes_of_a_small_network() -> None:
    """Two convolutions and a head: header and positions must not eat what sparsity saves."""
    shapes = {"c1": (16, 1, 3, 3), "b1": (16,), "c2": (32, 16, 3, 3), "b2": (32,), "w": (10, 1568), "b": (10,)}
    layout = Layout.of(shapes)
    compressor = dgc(Dgc(), layout, momentum=0.9)
    for grad in gradients(3, layout):
        packet = compressor.encode(grad, epoch_progress=LATE)
        assert packet.nbytes * 200 <= 4 * layout.numel


def test_memory_of_momentum_only_where_there_is_some() -> None:
    without, with_ = dgc(Dgc()), dgc(Dgc(), momentum=0.9)
    for compressor in (without, with_):
        compressor.encode(gradients(1)[0], epoch_progress=0)
    assert without.state().keys() == {"v", "turn"}
    assert with_.state().keys() == {"u", "v", "turn"}
    assert with_.takes_momentum


def test_the_sample_moves_from_step_to_step() -> None:
    """And its place is part of the state, or a resumed run would send something else."""
    compressor = dgc(Dgc())
    for grad in gradients(3):
        compressor.encode(grad, epoch_progress=LATE)
    assert int(compressor.state()["turn"]) == 3

"""Four workers, one logistic regression: compressed gradients must lead where dense ones lead."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from laminar.parallel.compress.layout import Layout
from laminar.parallel.compress.make import make_compressor
from laminar.parallel.compress.packet import Packet
from laminar.parallel.compress.powersgd import LowRank
from laminar.train.compression import Dgc, PowerSgd, TopK

WORKERS, INPUTS, CLASSES, SAMPLES, EPOCHS, BATCH = 4, 40, 10, 1024, 30, 32
LAYOUT = Layout.of({"w": (CLASSES, INPUTS), "b": (CLASSES,)})
LR, MOMENTUM = 0.05, 0.9
SLACK = 0.018  # a fiftieth of the way from log(10) = 2.303, where all begin, to 1.397, where dense gradients lead


@pytest.fixture(scope="module")
def data() -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(SAMPLES, INPUTS, generator=generator)
    logits = x @ torch.randn(INPUTS, CLASSES, generator=generator)
    # noise, so that there is a best loss to arrive at: without it the loss would fall for ever, and the fastest would look the best
    return x, (logits + 6 * torch.randn(SAMPLES, CLASSES, generator=generator)).argmax(1)


def loss_of(weights: Tensor, x: Tensor, y: Tensor) -> Tensor:
    return cross_entropy(x @ LAYOUT.parts[0].of(weights).T + LAYOUT.parts[1].of(weights), y)


def train(spec: Any, data: tuple[Tensor, Tensor], *, all_reduce: bool = False) -> tuple[float, int]:
    """The loss on all samples at the end, and the bytes that one worker sent."""
    x, y = data
    workers = [make_compressor(spec, LAYOUT, workers=WORKERS, momentum=MOMENTUM) for _ in range(WORKERS)]
    weights, momentum, sent = torch.zeros(LAYOUT.numel, requires_grad=True), torch.zeros(LAYOUT.numel), 0
    for epoch in range(EPOCHS):
        order = torch.randperm(SAMPLES, generator=torch.Generator().manual_seed(epoch)).view(-1, WORKERS, BATCH)
        for step, parts in enumerate(order):
            grads = [torch.autograd.grad(loss_of(weights, x[part], y[part]), weights)[0] for part in parts]
            mean = torch.zeros(LAYOUT.numel)
            if all_reduce:
                running = [worker.exchange(grad) for worker, grad in zip(workers, grads, strict=True) if isinstance(worker, LowRank)]
                for tensors in zip(*running, strict=True):
                    average = torch.stack(tensors).mean(0)
                    for tensor in tensors:
                        tensor.copy_(average)
                mean = grads[0]
            else:
                for worker, grad in zip(workers, grads, strict=True):
                    packet = worker.encode(grad, epoch_progress=epoch + step / len(order), weights=weights)
                    workers[0].decode(Packet.parse(bytes(packet.data)), mean, 1 / WORKERS)
                sent += packet.nbytes
            with torch.no_grad():
                momentum = mean if workers[0].takes_momentum else MOMENTUM * momentum + mean
                weights -= LR * momentum
    return float(loss_of(weights.detach(), x, y)), sent


@pytest.fixture(scope="module")
def dense(data: tuple[Tensor, Tensor]) -> tuple[float, int]:
    return train("none", data)


@pytest.mark.parametrize(
    ("spec", "smaller"),
    [
        ("fp16", 1.8),
        ("int8", 3.2),
        (TopK(sparsity=0.9), 8),
        (Dgc(sparsity=0.99, warmup_epochs=4), 20),
        (PowerSgd(rank=2, min_rate=0), 3),
    ],
    ids=lambda value: value if isinstance(value, str) else getattr(value, "kind", str(value)),
)
def test_compressed_training_ends_where_dense_training_does(spec: Any, smaller: float, data: Any, dense: tuple[float, int]) -> None:
    loss, sent = train(spec, data)
    assert dense[0] < 1.4
    assert loss < dense[0] + SLACK
    assert sent * smaller < dense[1]


def test_powersgd_by_all_reduce_does_too(data: Any, dense: tuple[float, int]) -> None:
    loss, _ = train(PowerSgd(rank=2, min_rate=0), data, all_reduce=True)
    assert loss < dense[0] + SLACK


def test_error_feedback_is_what_does_it(data: Any, dense: tuple[float, int], monkeypatch: pytest.MonkeyPatch) -> None:
    """The same without the residual must be worse, or the test above shows nothing."""
    from laminar.parallel.compress.topk import LargestValues

    encode = LargestValues.encode

    def forgetful(self: LargestValues, grad: Tensor, **rest: Any) -> Packet:
        packet = encode(self, grad, **rest)
        self.state()["v"].zero_()
        return packet

    monkeypatch.setattr(LargestValues, "encode", forgetful)
    loss, _ = train(TopK(sparsity=0.9), data)
    assert loss > dense[0] + SLACK

"""Evaluation: figures against numpy, modes as they were, any batch size."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import torch
from torch import nn
from train_jobs import images, line, net, numbers

from laminar.core.errors import LaminarError
from laminar.train.evaluate import evaluate, predict


def test_classification_figures() -> None:
    data, model = images(), net()
    outputs = predict(model, [data.test.x])
    logs = outputs.astype(np.float64) - np.log(np.exp(outputs.astype(np.float64)).sum(1, keepdims=True))
    found = evaluate(model, [data.test.x], data.test.y, task="classification")
    assert found["loss"] == pytest.approx(-logs[np.arange(40), data.test.y].mean())
    assert found["accuracy"] == (outputs.argmax(1) == data.test.y).mean()


def test_regression_figures() -> None:
    data, model = numbers(), line()
    error = predict(model, [data.test.x]) - data.test.y
    found = evaluate(model, [data.test.x], data.test.y, task="regression")
    assert found["loss"] == pytest.approx((error**2).mean())
    assert found["mae"] == pytest.approx(np.abs(error).mean())
    assert found["r2"] == pytest.approx(1 - (error**2).sum() / ((data.test.y - data.test.y.mean(0)) ** 2).sum())
    l1 = evaluate(model, [data.test.x], data.test.y, task="regression", loss="l1")
    assert l1["loss"] == pytest.approx(l1["mae"])


def test_targets_that_do_not_vary() -> None:
    x = np.zeros((4, 5), dtype=np.float32)
    model = line()
    y = predict(model, [x])
    assert evaluate(model, [x], y, task="regression")["r2"] == 1
    assert evaluate(model, [x], y + 1, task="regression")["r2"] == 0


def test_no_samples_at_all() -> None:
    with pytest.raises(LaminarError) as caught:
        evaluate(line(), [np.zeros((0, 5), dtype=np.float32)], np.zeros((0, 2), dtype=np.float32), task="regression")
    assert caught.value.code == "L103"


def test_the_size_of_batches_does_not_matter() -> None:
    data, model = images(), net()
    some = [evaluate(model, [data.test.x], data.test.y, task="classification", batch=batch) for batch in (1, 7, 40, 1024)]
    for found in some:
        assert found["accuracy"] == some[0]["accuracy"]
        assert found["loss"] == pytest.approx(some[0]["loss"], rel=1e-6)


def test_modes_and_tensors_are_left_alone() -> None:
    data, model = images(), net()
    model.train()
    model.features.eval()
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    modes = [part.training for part in model.modules()]
    evaluate(model, [data.test.x], data.test.y, task="classification")
    assert [part.training for part in model.modules()] == modes
    assert all(torch.equal(tensor, model.state_dict()[name]) for name, tensor in before.items())


def test_read_only_inputs_and_several_of_them() -> None:
    class Sum(nn.Module):
        def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
            assert not torch.is_grad_enabled()
            return a + b

    a, b = np.ones((6, 2), dtype=np.float32), np.full((6, 2), 255, dtype=np.uint8)
    a.flags.writeable = b.flags.writeable = False
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert (predict(Sum(), [a, b], batch=4) == 2).all()
        assert predict(Sum(), [a, b], dtype="float64").dtype == np.float64


def test_a_model_that_answers_with_other_rows_is_refused() -> None:
    """Its first rows would be held against the targets, and the others forgotten."""
    x, y = np.zeros((7, 5), dtype=np.float32), np.zeros((7, 2), dtype=np.float32)

    class Fewer(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x[:4, :2]

    with pytest.raises(LaminarError, match="answers 7 samples with 4 rows"):
        evaluate(Fewer(), [x], y, task="regression")
    with pytest.raises(LaminarError, match="answers 7 samples with 4 rows"):
        predict(Fewer(), [x])

"""What runs inside Flower for grid_rounds.py: the same model and step as ours, for its deployment runtime and for its old gRPC path.

Run by a Python that has flwr, and by nothing of ours. A round is written down (when, and how many answers went into the mean) by the
hook that both of Flower's FedAvg call once the mean is taken.
"""

from __future__ import annotations

import json
import time
from pathlib import Path

import numpy as np
from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg

Arrays = list[np.ndarray]
BATCH, PIXELS, HIDDEN, CLASSES, RATE = 32, 64, 1350, 10, 0.05
SAMPLES = np.random.default_rng(1).random((BATCH, PIXELS), dtype=np.float32)
LABELS = np.arange(BATCH) % CLASSES


def first_weights() -> Arrays:
    random = np.random.default_rng(0)
    shapes = [(PIXELS, HIDDEN), (HIDDEN,), (HIDDEN, CLASSES), (CLASSES,)]
    weights = [0.1 * random.standard_normal(shape, dtype=np.float32) for shape in shapes]
    assert sum(one.size for one in weights) == 101_260
    return weights


def step(weights: Arrays) -> Arrays:
    """One step of SGD on 32 samples, by hand: a Flower client need not have torch, so neither its start nor its memory is counted."""
    assert all(weight.dtype == np.float32 for weight in weights)
    one, bias_one, two, bias_two = weights
    hidden = np.maximum(SAMPLES @ one + bias_one, 0)
    scores = hidden @ two + bias_two
    shares = np.exp(scores - scores.max(axis=1, keepdims=True))
    shares /= shares.sum(axis=1, keepdims=True)
    shares[np.arange(BATCH), LABELS] -= 1
    shares /= BATCH
    back = (shares @ two.T) * (hidden > 0)
    gradients = [SAMPLES.T @ back, back.sum(axis=0), hidden.T @ shares, shares.sum(axis=0)]
    return [weight - np.float32(RATE) * gradient for weight, gradient in zip(weights, gradients, strict=True)]


def closed(into: Path, answers: int) -> None:
    with into.open("a") as file:
        file.write(json.dumps({"closed": time.time(), "answers": answers}) + "\n")


client_app = ClientApp()
server_app = ServerApp()


@client_app.train()
def train(message: Message, context: Context) -> Message:  # noqa: ARG001
    weights = step(message.content["arrays"].to_numpy_ndarrays())
    answer = {"arrays": ArrayRecord(weights), "metrics": MetricRecord({"num-examples": BATCH})}
    return Message(content=RecordDict(answer), reply_to=message)


@server_app.main()
def main(grid: Grid, context: Context) -> None:
    nodes, rounds, into = int(context.run_config["nodes"]), int(context.run_config["rounds"]), Path(str(context.run_config["into"]))

    def metrics(answers: list[RecordDict], weighted_by: str) -> MetricRecord:  # noqa: ARG001
        closed(into, len(answers))
        return MetricRecord()

    strategy = FedAvg(fraction_evaluate=0.0, min_train_nodes=nodes, min_available_nodes=nodes, train_metrics_aggr_fn=metrics)
    strategy.start(grid=grid, initial_arrays=ArrayRecord(first_weights()), num_rounds=rounds)

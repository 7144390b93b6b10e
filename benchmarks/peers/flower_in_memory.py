"""Flower's old gRPC path, deprecated since 1.13, for grid_rounds.py: `start_server` and `start_client`. Run by a Python that has flwr.

python flower_in_memory.py server ADDRESS NODES ROUNDS FILE
python flower_in_memory.py client ADDRESS THREADS
"""

from __future__ import annotations

import sys
import threading
from pathlib import Path

import numpy as np
from flower_app import BATCH, closed, first_weights, step
from flwr.client import NumPyClient, start_client
from flwr.common import Metrics, Scalar, ndarrays_to_parameters
from flwr.server import ServerConfig, start_server
from flwr.server.strategy import FedAvg


class Client(NumPyClient):
    def fit(self, parameters: list[np.ndarray], config: dict[str, Scalar]) -> tuple[list[np.ndarray], int, dict[str, Scalar]]:  # noqa: ARG002
        return step(parameters), BATCH, {}


def serve(address: str, nodes: int, rounds: int, into: Path) -> None:
    def metrics(answers: list[tuple[int, Metrics]]) -> Metrics:
        closed(into, len(answers))
        return {}

    strategy = FedAvg(
        fraction_evaluate=0.0,
        min_fit_clients=nodes,
        min_available_clients=nodes,
        initial_parameters=ndarrays_to_parameters(first_weights()),
        fit_metrics_aggregation_fn=metrics,
    )
    start_server(server_address=address, config=ServerConfig(num_rounds=rounds), strategy=strategy)


def work(address: str) -> None:
    start_client(server_address=address, client=Client().to_client(), insecure=True)


if __name__ == "__main__":
    role, where, *rest = sys.argv[1:]
    if role == "server":
        serve(where, int(rest[0]), int(rest[1]), Path(rest[2]))
    else:
        threads = [threading.Thread(target=work, args=[where]) for _ in range(int(rest[0]))]
        for one in threads:
            one.start()
        for one in threads:
            one.join()

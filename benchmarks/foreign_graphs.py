"""What it costs to run a foreign graph in a child process: until the first answer, and samples a second, against the same graph here.

    python benchmarks/foreign_graphs.py [--rounds 7]

Both ways answer the same batches of 256 in turns; the median of the ratios counts. The child starts cold, as for `laminar evaluate`.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from pathlib import Path

import numpy as np
import torch
from torch import nn

from laminar.model.graph import load_forms
from laminar.model.portable import export_file, import_file
from laminar.stack.foreign import ForeignModel
from laminar.train.evaluate import predict

MODELS: dict[str, tuple[nn.Module, tuple[int, ...], int]] = {
    "MLP, 784 numbers": (nn.Sequential(nn.Flatten(), nn.Linear(784, 128), nn.ReLU(), nn.Linear(128, 10)), (1, 28, 28), 16_384),
    "CNN, 1x28x28": (
        nn.Sequential(nn.Conv2d(1, 16, 3), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(16 * 169, 10)),
        (1, 28, 28),
        4096,
    ),
    "CNN, 3x96x96": (
        nn.Sequential(
            nn.Conv2d(3, 16, 3, 2), nn.ReLU(), nn.Conv2d(16, 32, 3, 2), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(32, 10)
        ),
        (3, 96, 96),
        1024,
    ),
}


def measure(name: str, rounds: int) -> None:
    model, shape, samples = MODELS[name]
    x = np.random.default_rng(0).random((samples, *shape), dtype=np.float32)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "model.pt2")
        export_file(model.eval(), path, example=torch.zeros(2, *shape))
        found = import_file(path)
        assert found.forms is not None
        here = load_forms(found.forms.train, found.forms.eval, found.tensors, found.aliases).eval()
        starts, ratios, speeds = [], [], []
        for _ in range(rounds):
            began = time.perf_counter()
            child = ForeignModel(name, {"file": str(path), "root": folder})
            starts.append(time.perf_counter() - began)
            try:
                predict(child, [x[:256]]), predict(here, [x[:256]])
                began = time.perf_counter()
                there_answers = predict(child, [x])
                there = time.perf_counter() - began
                began = time.perf_counter()
                answers = predict(here, [x])
                alone = time.perf_counter() - began
            finally:
                child.close()
            assert np.array_equal(there_answers, answers)
            ratios.append(alone / there)
            speeds.append(samples / there)
    print(
        f"{name}: ready after {statistics.median(starts) * 1e3:,.0f} ms; {statistics.median(speeds):,.0f} samples/s, "
        f"{statistics.median(ratios):.2f} of what they are here ({min(ratios):.2f} to {max(ratios):.2f} in {rounds} rounds); "
        f"confined: {', '.join(sorted(child.held))}",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=7)
    rounds = parser.parse_args().rounds
    for name in MODELS:
        measure(name, rounds)


if __name__ == "__main__":
    main()

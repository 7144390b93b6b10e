"""One slow worker of four: rounds per second of quorum against sync.

    LAMINAR_DATA=… python benchmarks/quorum.py [--step 0.05] [--rounds 3]

A model whose forward pass waits: `--step` seconds in three workers, four times as long in the fourth. So it is the waiting of workers for
each other that is measured, and not how two cores are shared by four processes. Rounds per second are those of the training epochs but the
first. Wanted: quorum 0.75 >= 2.5 times sync.
"""

from __future__ import annotations

import argparse
import statistics

from one_build import build

CODE = """
import os, time
from pathlib import Path
from torch import Tensor, nn

FOLDER = Path(__file__).parent
SLOW: float | None = None


class Net(nn.Module):
    def __init__(self, step: float) -> None:
        super().__init__()
        self.step = step
        self.layers = nn.Sequential(nn.Flatten(), nn.Linear(784, 32), nn.ReLU(), nn.Linear(32, 10))

    def forward(self, x: Tensor) -> Tensor:
        global SLOW
        if self.training:
            if SLOW is None:  # the first of the workers to come here is the slow one
                try:
                    os.close(os.open(FOLDER / "slow", os.O_CREAT | os.O_EXCL))
                    SLOW = 4.0
                except FileExistsError:
                    SLOW = 1.0
            time.sleep(self.step * SLOW)
        return self.layers(x)


def net(step: float) -> nn.Module:
    return Net(step)
"""


def rate(step: float, strategy: str) -> float:
    train = f"epochs = 3, batch = 2048, seed = 0, threads = 1, lr = 0.001, strategy = {{ {strategy}, workers = 4 }}"
    return build("models:net", train, code=CODE, args=f"{{ step = {step} }}").samples_per_second / 2048


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--step", type=float, default=0.05)
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    pairs = [(rate(args.step, 'kind = "sync"'), rate(args.step, 'kind = "quorum", quorum = 0.75')) for _ in range(args.rounds)]
    ratios = sorted(quorum / sync for sync, quorum in pairs)
    sync, quorum = (statistics.median(side) for side in zip(*pairs, strict=True))
    spread = f"{statistics.median(ratios):.2f}x ({ratios[0]:.2f} to {ratios[-1]:.2f})"
    print(f"sync {sync:.2f} rounds/s, quorum 0.75 {quorum:.2f} rounds/s: {spread}")


if __name__ == "__main__":
    main()

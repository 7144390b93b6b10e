"""Bytes: what comes up to the server in a hundred rounds of five nodes, as it is and by Deep Gradient Compression, and what that costs."""

from __future__ import annotations

from typing import Final

from laminar.experiments.ready.form import Choice, Ready
from laminar.experiments.ready.judged import above, below
from laminar.experiments.ready.studies import GRID

STACK: Final = """\
[stack]
name = "bytes"

[data.samples]
source = "fashion-mnist"

[[layer]]
name = "net"
model = "laminar:mlp"
args = { hidden = [256] }
data = "samples"
train = { epochs = 11, batch = 64, optimizer = "sgd", momentum = 0.9, schedule = "cosine", lr = 0.05, seed = 0, threads = 1 }
"""
STRATEGY: Final = {"kind": "grid", "workers": 5, "rounds": 100, "local_steps": 20}
DENSE, SPARSE = "dense", "DGC at 99.2 %"


def ready() -> Ready:
    sparse = {**STRATEGY, "compress": {"kind": "dgc", "sparsity": 0.992, "warmup_epochs": 0}}
    return Ready(
        name="grid-bytes",
        title="Bytes of a hundred rounds",
        question="How many fewer bytes do nodes send with Deep Gradient Compression, and what does it cost?",
        choices=(Choice(label=DENSE, settings={"strategy": STRATEGY}), Choice(label=SPARSE, settings={"strategy": sparse})),
        measures=("bytes", "accuracy", "seconds"),
        statements=(
            below("DGC at 99.2 % sends a hundredth of the bytes, heads and sketches included.", "bytes", SPARSE, DENSE, 1.0),
            above("It costs one point of accuracy at most.", "accuracy", SPARSE, DENSE, 99.0),
        ),
        study=GRID,
        repeats=1,
        timed=False,
        stack=STACK,
        notes=("Its sparsity was chosen by 10,000 images of the training part.",),
    )

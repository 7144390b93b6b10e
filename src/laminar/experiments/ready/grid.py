"""The grid: the published set-ups of a desktop grid, synchronous and asynchronous, SGD and Deep Gradient Compression.

Server and nodes are processes of their own, started as anybody would (grid_run.py). In `sync` each task has a random local sample of 6,000
for training, balanced over the classes, and the layer is tested on 2,700; `async` has all of the data, as the paper has all of CIFAR; each
answer is a step, divided by its age. Tasks are compared by adaptive replication, as by default.

SGD and DGC have the same network, rate, steps and schedule, which were chosen for SGD by 10,000 images of the training part; so was DGC's
sparsity. benchmarks/grid_founding.py has the same on textures, whose fragments nodes cut from images of a mirror, and long runs.
"""

from __future__ import annotations

from typing import Any, Final

from laminar.core.errors import LaminarError
from laminar.core.nearest import did_you_mean
from laminar.data.fragments.grid import per_image
from laminar.data.spec import FragmentSpec
from laminar.experiments.ready import tables
from laminar.experiments.ready.form import Ask, Choice, Ready
from laminar.experiments.ready.judged import above, at_least
from laminar.experiments.ready.studies import GRID

STACK: Final = """\
[stack]
name = "grid"

[data.samples]
source = "{source}"

[[layer]]
name = "net"
model = "laminar:mlp"
args = {{ hidden = [256] }}
data = "samples"
train = {{ epochs = 6, batch = 64, optimizer = "sgd", momentum = 0.9, schedule = "cosine", lr = 0.05, seed = 0, threads = 1 }}
"""
LOCAL: Final = {"per_class": 600, "test_per_class": 270, "seed": 1}  # 6,000 and 2,700 of ten classes
SPARSE: Final = {"kind": "dgc", "sparsity": 0.95, "warmup_epochs": 0}
DATA: Final = ("fashion-mnist", "digits")
Settings = dict[str, Any]

# `epochs` are of one local sample, or of the data set, over all tasks: the schedule goes by them.
WHOLE: Final[dict[str, Settings]] = {
    "sync, synSGD": {
        "strategy": {"kind": "grid", "workers": 5, "rounds": 18, "quorum": 0.8, "local_steps": 94},
        "epochs": 90,
        "data.samples.sample": LOCAL,
    },
    "async, SGD": {
        "strategy": {"kind": "grid", "mode": "async", "workers": 6, "rounds": 50, "ageing": 1.0, "local_steps": 94},
        "epochs": 6,
    },
}
FEW: Final[dict[str, Settings]] = {
    "sync, synSGD": {"strategy": {"kind": "grid", "workers": 2, "rounds": 3, "quorum": 0.8, "local_steps": 20}, "epochs": 6},
    "async, SGD": {"strategy": {"kind": "grid", "mode": "async", "workers": 2, "rounds": 6, "ageing": 1.0, "local_steps": 20}, "epochs": 6},
}


def ready(ask: Ask) -> Ready:
    data = ask.data or ("digits" if ask.quick else "fashion-mnist")
    if data not in DATA:
        raise LaminarError(
            "L008", f"--data {data}: there is no set-up of the grid for it; {did_you_mean(data, DATA)}", hint="--data digits"
        )
    found = dict(FEW if data == "digits" else WHOLE)
    alone = found["async, SGD"]
    found["async, DGC"] = alone | {"strategy": alone["strategy"] | {"compress": SPARSE}}
    if ask.quick:
        del found["async, SGD"]
    others = "The paper had 12 Kylberg textures and 3 of its own (sync) and CIFAR (async)."
    fragments = (
        f"Its {tables.GRID_IMAGES} images give {tables.GRID_FRAGMENTS} fragments each at 50 % overlap, {tables.GRID_TURNED:,} turned in "
        f"steps of 5 degrees, {tables.GRID_ALL:,} in all; {tables.GRID_FRAGMENTS} x 72 would be {tables.GRID_FRAGMENTS * 72:,}. "
        f"Counted here, {counted_here()}."
    )
    small = "Digits of 8x8 pixels, 2 nodes and a few rounds, instead of the paper's 5 or 6 nodes and 18 or 50 iterations."
    return Ready(
        name="grid",
        title="Training on a desktop grid",
        question="How accurate is what machines nobody controls have trained, synchronously and not, with and without compression?",
        choices=tuple(
            Choice(label=label, settings=settings, published={"accuracy": tables.GRID[label]}) for label, settings in found.items()
        ),
        measures=("accuracy", "seconds", "bytes", "staleness"),
        statements=(
            at_least(
                "Synchronous training on 5 nodes reaches 0.792 in 18 iterations.", "accuracy", "sync, synSGD", tables.GRID["sync, synSGD"]
            ),
            *(
                []
                if ask.quick
                else [above("DGC costs 1.5 points of accuracy at most.", "accuracy", "async, DGC", "async, SGD", 98.5, claim="5.c")]
            ),
        ),
        study=GRID,
        percent=False,
        repeats=4 if ask.quick else 1,  # against a figure
        timed=False,
        stack=STACK.format(source=data),
        notes=(others, fragments, *([small] if data == "digits" else [])),
    )


def counted_here() -> str:
    """How many fragments the paper's images give by our own rules."""
    size = (2272, 1704)
    upright = per_image(*size, FragmentSpec(size=256, overlap=0.5, last="drop"))
    turned = per_image(*size, FragmentSpec(size=256, overlap=0.5, rotate=5, edge="inside", last="drop"))
    return (
        f"squares of 256 pixels whose last row and column are left out (last = 'drop') are {upright}; turned about their own centres, "
        f"without those that would need a pixel from outside of the image (edge = 'inside'), {turned:,} in each image and "
        f"{turned * tables.GRID_IMAGES:,} in all"
    )

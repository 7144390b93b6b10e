"""How long until a changed top layer is as good again?

    LAMINAR_DATA=… python benchmarks/retrain.py [--limit N] [--json FILE]

A stack of three layers on Fashion-MNIST: `edges` trains a convolutional network on everything, `shapes` freezes its bottom and trains
the middle anew, `top` freezes bottom and middle and trains a new head. Then only the head is changed. Timed, in one process, each
until the test split reaches the accuracy that the first `top` had (less half a percent):

    zero       the same network, nothing frozen, from random weights; same optimizer and batch, constant rate
    plain      laminar build of the changed top, keep_features = "never": frozen modules run at every step
    first      the same, with the features not kept yet: computed once, then trained on
    kept       the same, with the features that the earlier build of `top` kept: what happens when only the top's recipe changed

Everything a build does is in the time: reading data, keys, the probe, exporting the graph, writing the store.
Wanted: kept <= zero / 20 and kept <= plain / 5; and equal weights of plain, first and kept, to 1e-6.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import torch
from torch import nn

import laminar
from laminar.stack.build import Built

MODELS = """
from torch import Tensor, nn


def block(before: int, after: int) -> list[nn.Module]:
    return [nn.Conv2d(before, after, 3, padding=1), nn.BatchNorm2d(after), nn.ReLU()]


class Net(nn.Module):
    def __init__(self, classes: int) -> None:
        super().__init__()
        self.bottom = nn.Sequential(*block(1, 16), *block(16, 32), nn.MaxPool2d(2))
        self.middle = make_middle()
        self.head = nn.Linear(64, classes)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.middle(self.bottom(x)))


def make_middle() -> nn.Module:
    return nn.Sequential(*block(32, 64), nn.MaxPool2d(2), *block(64, 64), nn.AdaptiveAvgPool2d(1), nn.Flatten())


def net(classes: int) -> nn.Module:
    return Net(classes)


def middle() -> nn.Module:
    return make_middle()


def head(classes: int, hidden: int) -> nn.Module:
    return nn.Sequential(nn.Linear(64, hidden), nn.ReLU(), nn.Linear(hidden, classes))
"""

STACK = """
[stack]
name = "retrain"

[data.all]
source = "fashion-mnist"
{limit}

[[layer]]
name = "edges"
model = "models:net"
data = "all"
train = {{ epochs = {epochs}, batch = 64, optimizer = "adam", lr = 0.001, schedule = "cosine", seed = 0 }}

[[layer]]
name = "shapes"
from = "edges"
freeze = ["bottom"]
replace = {{ middle = "models:middle" }}
data = "all"
train = {{ epochs = {epochs}, batch = 64, optimizer = "adam", lr = 0.001, schedule = "cosine", seed = 0 }}

[[layer]]
name = "top"
from = "shapes"
freeze = ["bottom", "middle"]
replace = {{ head = {{ model = "models:head", args = {{ hidden = {hidden} }} }} }}
data = "all"
train = {{ epochs = 40, batch = 64, lr = 0.002, seed = {seed}, target = {{ accuracy = {target} }}, keep_features = "{keep}" }}
"""

ZERO = """
[stack]
name = "zero"

[data.all]
source = "fashion-mnist"
{limit}

[[layer]]
name = "all"
model = "models:net"
data = "all"
train = {{ epochs = 40, batch = 64, optimizer = "adam", lr = 0.001, seed = 0, target = {{ accuracy = {target} }} }}
"""


def build(root: Path, stack: str, *layers: str, force: bool = False) -> tuple[float, Built]:
    """Wall seconds of a build, and its last layer."""
    (root / "models.py").write_text(MODELS)
    (root / "laminar.toml").write_text(stack)
    start = time.perf_counter()
    report = laminar.Stack.load(root / "laminar.toml").build(*layers, force=force)
    return time.perf_counter() - start, report.layers[-1]


def weights(root: Path, layer: Built) -> dict[str, torch.Tensor]:
    model: nn.Module = laminar.load(layer.id, root / "laminar.toml")
    return {name: tensor.clone() for name, tensor in model.state_dict().items()}


def apart(a: dict[str, torch.Tensor], b: dict[str, torch.Tensor]) -> float:
    return max(float((a[name].double() - b[name].double()).abs().max()) for name in a)


def measure(root: Path, limit: int | None, epochs: int) -> dict[str, Any]:
    lines = f"limit = {limit}" if limit else ""

    def stack(**changes: Any) -> str:
        return STACK.format(**{"limit": lines, "epochs": epochs, "hidden": 64, "seed": 0, "target": 0.999, "keep": "auto", **changes})

    # the target is what a top layer of five epochs reaches; its build also warms up torch, and keeps the features
    seconds, before = build(root, stack().replace("epochs = 40", "epochs = 5"))
    target = round(before.metrics["accuracy"] - 0.005, 4)
    print(f"first build of all three layers: {seconds:.0f} s, accuracy {before.metrics['accuracy']:.4f}; target {target:.4f}", flush=True)
    print(f"  {before.features}", flush=True)

    changed = {"hidden": 96, "seed": 1, "target": target}
    rows: dict[str, tuple[float, Built]] = {}
    rows["kept"] = build(root, stack(**changed))
    found = {"kept": weights(root, rows["kept"][1])}
    rows["plain"] = build(root, stack(**changed, keep="never"), "top", force=True)
    found["plain"] = weights(root, rows["plain"][1])
    shutil.rmtree(root / ".laminar" / "features")
    rows["first"] = build(root, stack(**changed), "top", force=True)
    found["first"] = weights(root, rows["first"][1])
    for name in ("kept", "first", "plain"):
        print(f"{name:6} {rows[name][0]:8.2f} s   accuracy {rows[name][1].metrics['accuracy']:.4f}   {rows[name][1].features}", flush=True)
    (root / "zero").mkdir()
    rows["zero"] = build(root / "zero", ZERO.format(limit=lines, target=target))
    print(f"zero   {rows['zero'][0]:8.2f} s   accuracy {rows['zero'][1].metrics['accuracy']:.4f}", flush=True)
    return {
        "target": target,
        "seconds": {name: seconds for name, (seconds, _) in rows.items()},
        "accuracy": {name: built.metrics["accuracy"] for name, (_, built) in rows.items()},
        "features": {name: built.features for name, (_, built) in rows.items()},
        "largest difference of weights": {name: apart(found["plain"], found[name]) for name in ("kept", "first")},
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--limit", type=int, default=None, help="training samples; default: all 60,000")
    parser.add_argument("--epochs", type=int, default=4, help="of the two lower layers")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--json", type=Path, default=None)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    folder = Path(tempfile.mkdtemp(prefix="retrain-"))
    try:
        found = measure(folder, args.limit, args.epochs)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    seconds = found["seconds"]
    found["ratios"] = {f"{name} / kept": seconds[name] / seconds["kept"] for name in ("zero", "plain", "first")}
    found["ratios"]["zero / first"] = seconds["zero"] / seconds["first"]
    for name, ratio in found["ratios"].items():
        print(f"{name}: {ratio:.1f}")
    print("largest difference of weights from plain:", {k: f"{v:.1e}" for k, v in found["largest difference of weights"].items()})
    if args.json:
        args.json.write_text(json.dumps(found, indent=2) + "\n")
    good = found["ratios"]["zero / kept"] >= 20 and found["ratios"]["plain / kept"] >= 5
    good = good and max(found["largest difference of weights"].values()) <= 1e-6
    print("reached" if good else "MISSED", ": zero / kept >= 20, plain / kept >= 5, weights equal to 1e-6")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())

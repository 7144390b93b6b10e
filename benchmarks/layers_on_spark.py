"""Do layers pay? Time against accuracy, of classic and of layered development, on a Spark cluster of four nodes.

    LAMINAR_DATA=… python benchmarks/layers_on_spark.py [--limit 60000] [--epochs 5] [--workers 4] [--strategy sync] [--into FOLDER]

The experiment of Varykhanov et al., "Methods for Speeding Up the Retraining of Neural Networks": MNIST, data parallelism on a Spark
cluster of four equal nodes (a master and four workers of one core each, started by this script on this machine).

    classic    one network, all ten digits, everything trained from zero
    layered    strokes: the same network on digits 0 to 4; shapes: on 0 to 7, bottom frozen, new head; digits: on all ten, bottom and
               middle frozen, new head. Each stands on the one before
    change     a mistake in the last part is mended (another head): classic trains all again, layered the last layer

Claims of the paper: classic is slower than each layer; every next layer is faster than the one before; retraining the last costs less
than all; the first training in layers may take longer in all. Written: epochs.csv, layers.csv, table.md, plot.png. Seconds are those of a
layer's build without the start of the engine, which all builds share.
"""

from __future__ import annotations

import argparse
import csv
import os
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from laminar.launch.on_cluster import OnCluster
from laminar.launch.spark import SparkLauncher
from laminar.launch.spark_session import open_session
from laminar.stack.build import build
from laminar.stack.choose_strategy import with_strategy
from laminar.stack.project import open_project
from laminar.testing.spark_cluster import SparkCluster

MODELS = """\
from torch import nn


def block(before, after):
    return [nn.Conv2d(before, after, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)]


class Net(nn.Module):
    def __init__(self, classes, hidden):
        super().__init__()
        self.bottom = nn.Sequential(*block(1, 16), *block(16, 32))
        self.middle = nn.Sequential(nn.Flatten(), nn.Linear(32 * 7 * 7, 128), nn.ReLU())
        self.head = head(None, classes, hidden)

    def forward(self, x):
        return self.head(self.middle(self.bottom(x)))


def net(classes, hidden=32):
    return Net(classes, hidden)


def head(old, classes, hidden=32):
    return nn.Sequential(nn.Linear(128, hidden), nn.ReLU(), nn.Linear(hidden, classes))
"""
STACK = """\
[stack]
name = "{name}"

{data}
{layers}
"""
DATA = """\
[data.{name}]
source = "mnist"
classes = {classes}
limit = {limit}
"""
LAYER = """\
[[layer]]
name = "{name}"
{base}
data = "{data}"
train = {{ epochs = {epochs}, batch = 256, optimizer = "adam", lr = 0.001, seed = 0, threads = 1 }}
"""
DIGITS = {"five": 5, "eight": 8, "ten": 10}


@dataclass
class Heard:
    """When each epoch of each layer was over, and how good it was."""

    way: str
    epochs: list[dict[str, Any]] = field(default_factory=list)
    _layer: str = ""
    _began: float = 0.0
    _started: bool = False

    def __call__(self, event: dict[str, Any]) -> None:
        if event["event"] == "layer":
            self._layer, self._started = event["layer"], False
        elif event["event"] in ("start", "resume") and not self._started:
            self._began, self._started = event["t"], True  # of the run itself: workers are there
        elif event["event"] == "epoch":
            row = {"way": self.way, "layer": self._layer, "epoch": event["epoch"] + 1}
            self.epochs.append(row | {"seconds": round(event["t"] - self._began, 3), "accuracy": event["test"]["accuracy"]})


def stack(name: str, args: argparse.Namespace, hidden: int) -> str:
    def layer(name: str, data: str, base: str) -> str:
        return LAYER.format(name=name, data=data, base=base, epochs=args.epochs)

    def data(*names: str) -> str:
        return "\n".join(DATA.format(name=one, classes=list(range(DIGITS[one])), limit=args.limit * DIGITS[one] // 10) for one in names)

    top = f'replace = {{ head = {{ model = "models:head", args = {{ hidden = {hidden} }} }} }}'
    if name == "classic":
        whole = f'model = "models:net"\nargs = {{ hidden = {hidden} }}'
        return STACK.format(name=name, data=data("ten"), layers=layer("classic", "ten", whole))
    layers = [
        layer("strokes", "five", 'model = "models:net"'),
        layer("shapes", "eight", 'from = "strokes"\nfreeze = ["bottom"]\nreplace = { head = "models:head" }'),
        layer("digits", "ten", f'from = "shapes"\nfreeze = ["bottom", "middle"]\n{top}'),
    ]
    return STACK.format(name=name, data=data("five", "eight", "ten"), layers="\n".join(layers))


def develop(name: str, args: argparse.Namespace, on: OnCluster, folder: Path) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Built once, then with another head. Epochs, and layers."""
    epochs, layers = [], []
    folder.mkdir()
    (folder / "models.py").write_text(MODELS)
    for hidden, way in ((32, name), (48, f"{name}, change")):
        (folder / "laminar.toml").write_text(stack(name, args, hidden))
        project = open_project(folder)
        heard = Heard(way)
        report = build(with_strategy(project.need_file(), args.strategy, args.workers), project.open_store(), emit=heard, how=on)
        epochs += heard.epochs
        for built in report.layers:
            if built.action == "built":
                row = {"way": way, "layer": built.name, "seconds": round(built.seconds, 2)}
                trained = round(built.spent.get("training", 0.0), 2)
                layers.append(row | {"training": trained, "accuracy": built.metrics["accuracy"]})
                print(f"{way:20}{built.name:10}{built.seconds:8.1f} s{built.metrics['accuracy']:10.4f}", flush=True)
    return epochs, layers


def warm_up(args: argparse.Namespace, on: OnCluster, folder: Path) -> None:
    """Agents and processes are started for the first layer of all: that is the engine's time, not the layer's."""
    folder.mkdir()
    (folder / "models.py").write_text(MODELS)
    small = argparse.Namespace(limit=1000, epochs=1)
    (folder / "laminar.toml").write_text(stack("classic", small, 32))
    project = open_project(folder)
    build(with_strategy(project.need_file(), args.strategy, args.workers), project.open_store(), how=on)


def write(folder: Path, epochs: list[dict[str, Any]], layers: list[dict[str, Any]], about: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, rows in (("epochs", epochs), ("layers", layers)):
        with open(folder / f"{name}.csv", "w", newline="") as file:
            writer = csv.DictWriter(file, fieldnames=list(rows[0]))
            writer.writeheader()
            writer.writerows(rows)
    lines = [about, "", "| way | layer | build, s | training, s | accuracy |", "|---|---|---|---|---|"]
    lines += [f"| {row['way']} | {row['layer']} | {row['seconds']} | {row['training']} | {row['accuracy']:.4f} |" for row in layers]
    ways = list(dict.fromkeys(row["way"] for row in layers))
    lines += ["", "| way | all layers that were built, s |", "|---|---|"]
    lines += [f"| {way} | {sum(row['seconds'] for row in layers if row['way'] == way):.1f} |" for way in ways]
    (folder / "table.md").write_text("\n".join(lines) + "\n")
    plot(folder / "plot.png", epochs)


def plot(path: Path, epochs: list[dict[str, Any]]) -> None:
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(figsize=(7, 4.5), layout="constrained")
    for way, layer in dict.fromkeys((row["way"], row["layer"]) for row in epochs):
        rows = [row for row in epochs if (row["way"], row["layer"]) == (way, layer)]
        style = "--" if way.endswith("change") else "-"
        colour = "C3" if way.startswith("classic") else None
        name = way if way.startswith("classic") else f"{way}: {layer}"
        axes.plot([row["seconds"] for row in rows], [row["accuracy"] for row in rows], style, marker="o", color=colour, label=name)
    axes.set(xlabel="seconds of training and testing", ylabel="accuracy on the layer's own test data", title="MNIST, Spark")
    axes.grid(alpha=0.3)
    axes.legend()
    figure.savefig(path, dpi=150)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--limit", type=int, default=60000)
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--strategy", default="sync")
    parser.add_argument("--into", type=Path, default=Path("layers-on-spark"))
    args = parser.parse_args()
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    began = time.monotonic()
    with SparkCluster(args.workers) as cluster, tempfile.TemporaryDirectory() as name:
        session = open_session(cluster.master, args.workers)
        try:
            with OnCluster(SparkLauncher(), starting=300.0) as on:
                warm_up(args, on, Path(name) / "warm")
                print(f"cluster, session and workers: {time.monotonic() - began:.1f} s", flush=True)
                found = [develop(way, args, on, Path(name) / way) for way in ("classic", "layered")]
        finally:
            session.close()
    epochs, layers = ([row for part in parts for row in part] for parts in zip(*found, strict=True))
    about = (
        f"MNIST, {args.limit:,} samples, {args.epochs} epochs, {args.strategy}, {args.workers} workers on {args.workers} nodes of Spark."
    )
    write(args.into, epochs, layers, about)
    print((args.into / "table.md").read_text())


if __name__ == "__main__":
    main()

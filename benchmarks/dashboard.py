"""How soon the dashboard shows something, in real Chromium: a store with 1,000 layers and runs with 1,000,000 events.

    python benchmarks/dashboard.py [--folder FOLDER] [--layers 1000] [--events 1000000]

Goal: the first view, from the click to layers on the screen, within 1 s. The peer, in the same run: TensorBoard's own reader
(EventAccumulator), given the same training losses as event files, against what the dashboard does before it draws them. Needs Debian's
chromium and chromium-driver, selenium, tensorboard; the store is made once and kept where --folder says.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

from laminar.dashboard.curves import curves
from laminar.dashboard.history import History
from laminar.stack.key import inputs_of, key_of
from laminar.stack.plan import fingerprint_folder
from laminar.stack.read import StackFile, parent_of, read
from laminar.store import runs as finished
from laminar.store.manifest import BuildRecord, Graph, Manifest, identity
from laminar.store.raw import RawTensor
from laminar.store.store import Store

VIEWS = 7
LARGEST = 0.4  # of all events are of one run
HEAD = '[stack]\nname = "many"\n[data.digits]\nsource = "digits"\nlimit = 64\n'
TRAIN = "train = {{ epochs = 10, batch = 64, seed = {i} }}\n"


def make(folder: Path, layers: int, events: int) -> None:
    """A project whose layers are all up to date, as far as stack/plan.py can tell: real keys, real objects, no training."""
    folder.mkdir(parents=True, exist_ok=True)
    text = [HEAD]
    for i in range(layers):
        below = f'from = "layer{max(0, i - 1 - i % 7)}"\n' if i else 'model = "laminar:mlp"\nargs = { hidden = [16] }\n'
        text.append(f'[[layer]]\nname = "layer{i}"\n{below}data = "digits"\n' + TRAIN.format(i=i))
    (folder / "laminar.toml").write_text("\n".join(text))
    file = read(folder / "laminar.toml")
    store = Store.open(folder / ".laminar")
    ids: dict[str, str] = {}
    each = int(events * (1 - LARGEST)) // layers
    for i, layer in enumerate(file.spec.layer):
        parent = ids.get(parent_of(file.spec, layer) or "")
        inputs = inputs_of(file, layer, parent, fingerprint_folder(store))
        run = write_run(store, key_of(inputs), layer.name, each if i < layers - 1 else int(events * LARGEST), i)
        ids[layer.name] = keep(store, file, layer.name, inputs, parent, run, i)


def keep(store: Store, file: StackFile, name: str, inputs: dict[str, Any], parent: str | None, run: str, i: int) -> str:
    below = store.layer(parent) if parent else None
    own = {f"head.{part}": np.full(shape, i, "<f4") for part, shape in (("weight", (10, 16)), ("bias", (10,)))}
    first = {f"body.{n}.weight": np.full((16, 16), n, "<f4") for n in range(10)} if below is None else {}
    raw = {k: RawTensor.of("F32", v.shape, v.tobytes()) for k, v in {**first, **own}.items()}
    tensors = {**(below.tensors if below else {}), **store.put_tensors(raw, below)}
    shape = {"classes": None, "input": {"shape": [1, 8, 8]}, "task": "classification", "aliases": {}, "structure": "bench"}
    metrics = {"accuracy": 1 - 0.5 / (i + 1), "loss": 1 / (i + 1)}
    about: dict[str, Any] = {"stack": "many", "name": name, "key": key_of(inputs), "run": run, "seconds": 10.0, "provenance": {}}
    manifest = Manifest(
        id=identity(tensors, **shape),
        parent=parent,
        tensors=tensors,
        graph=Graph(),
        model={},
        frozen=[],
        metrics=metrics,
        created=1.7e9 + i,
        **shape,
        **about,
    )
    spec = file.raw["layer"][file.layer_index(name)]
    record = BuildRecord(id=manifest.id, inputs=inputs, spec=spec, data=None, metrics=metrics, created=1.7e9 + i, **about)
    store.commit(manifest, record, f"many/{name}", why="build")
    finished.finish(store, record)
    return manifest.id


def write_run(store: Store, key: str, layer: str, events: int, seed: int) -> str:
    run = key[:16]
    folder = store.run_folder(run)
    (folder / "run.json").write_text(json.dumps({"stack": "many", "layer": layer, "key": key}))
    random = np.random.default_rng(seed)
    per_epoch = max(events // 10, 1)
    losses = np.exp(-np.arange(events) / events * 3) + random.normal(0, 0.05, events)
    start, t = 1.7e9 + seed * 100, 0.0
    with open(folder / "events.jsonl", "w") as file:
        told = {"event": "start", "step": 0, "steps": events, "epoch": 0, "epochs": 10, "samples": per_epoch * 64, "t": start}
        file.write(json.dumps(told) + "\n")
        for step, loss in enumerate(losses.tolist()):
            t = start + step * 0.01
            file.write(f'{{"event":"step","step":{step},"epoch":{step // per_epoch},"loss":{loss},"lr":0.001,"t":{t}}}\n')
            if step % per_epoch == per_epoch - 1:
                figures = {"train": {"loss": loss, "accuracy": 0.9}, "test": {"loss": loss, "accuracy": 0.9 - loss / 10}}
                epoch = {"event": "epoch", "epoch": step // per_epoch, "epochs": 10, "step": step + 1, **figures, "seconds": 1.0}
                file.write(json.dumps({**epoch, "samples_per_second": 6400.0, "t": t}) + "\n")
    return run


def views(folder: Path) -> dict[str, list[float]]:
    """Milliseconds from the click, in Chromium, of the first visit of a dashboard that was just started and of later ones."""
    from tests.e2e.chromium import Browser

    found: dict[str, list[float]] = {}
    browser = Browser()
    try:
        browser.look()
        for visit in range(VIEWS):
            server = subprocess.Popen(
                [sys.executable, "-m", "laminar", "ui", "--port", "0", "--no-open", "--json"],
                cwd=folder,
                stdout=subprocess.PIPE,
                text=True,
                env=os.environ | {"OMP_NUM_THREADS": "1"},
            )
            try:
                assert server.stdout is not None
                url = json.loads(server.stdout.readline())["url"]
                for name, place, wanted in (
                    ("stack, layers on the screen", "#/stack", ".layer:nth-child(20)"),
                    ("stack, states of all layers", "#/stack", ".layer:last-child .badge"),
                    ("runs, the list", "#/runs", ".run:nth-child(8)"),
                    ("runs, curves of the largest one", "#/runs", ".chart path.curve"),
                    ("stack again", "#/stack", ".layer:nth-child(20)"),
                ):
                    script = f"""
                        const done = arguments[arguments.length - 1], wanted = {json.dumps(wanted)};
                        const seen = () => requestAnimationFrame(() => done(performance.now()));
                        const look = () => document.querySelector(wanted) ? seen() : setTimeout(look, 4);
                        look();
                    """
                    if name not in ("stack, states of all layers", "runs, curves of the largest one"):  # the same visit
                        browser.driver.get("about:blank")
                        browser.driver.get(url + place)
                    found.setdefault(name, []).append(float(browser.driver.execute_async_script(script)))
                if visit == VIEWS - 1:
                    memory = Path(f"/proc/{server.pid}/status").read_text().split("VmRSS:")[1].split()[0]
                    print(f"memory of the server at the end: {int(memory) / 1000:.0f} MB")
            finally:
                server.terminate()
                server.wait(20)
    finally:
        browser.close()
    return found


def against_tensorboard(folder: Path) -> tuple[float, float, int]:
    """Seconds to read and thin the largest run, ours and TensorBoard's (its reader keeps 1,000 points, as its page asks for)."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    from torch.utils.tensorboard import SummaryWriter

    path = max((folder / ".laminar" / "runs").glob("*/events.jsonl"), key=lambda p: p.stat().st_size)
    ours = []
    for _ in range(3):
        start = time.perf_counter()
        history = History(path)
        history.refresh()
        curves(history, "step", 600)
        ours.append(time.perf_counter() - start)
    with tempfile.TemporaryDirectory() as board:
        writer = SummaryWriter(board)
        for step, loss in enumerate(history.column("loss").tolist()):
            writer.add_scalar("loss", loss, step)
        writer.close()
        theirs = []
        for _ in range(3):
            start = time.perf_counter()
            reader = EventAccumulator(board, size_guidance={"scalars": 1000})
            reader.Reload()
            reader.Scalars("loss")
            theirs.append(time.perf_counter() - start)
    return min(ours), min(theirs), history.steps


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()) / "laminar-dashboard-benchmark")
    parser.add_argument("--layers", type=int, default=1000)
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--no-peer", action="store_true")
    parser.add_argument("--make-only", action="store_true")
    asked = parser.parse_args()
    if not (asked.folder / "made").exists():
        make(asked.folder, asked.layers, asked.events)
        (asked.folder / "made").touch()
    if asked.make_only:
        return
    for name, times in views(asked.folder).items():
        print(f"{name:44} median {statistics.median(times):6.0f} ms, worst {max(times):6.0f} ms of {len(times)}")
    if not asked.no_peer:
        ours, theirs, steps = against_tensorboard(asked.folder)
        print(f"reading {steps:,} steps to a curve: {ours:.2f} s; TensorBoard's EventAccumulator {theirs:.2f} s: {theirs / ours:.1f} x")


if __name__ == "__main__":
    main()

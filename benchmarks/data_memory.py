"""Does peak memory stay under budget + 200 MB for data ten times larger than the budget?

    python benchmarks/data_memory.py [--budget 100MB] [--times 10] [--sources npy,npz,…] [--json]

For every source a data set of budget x times is written; a process of its own fingerprints it, opens it (with split), goes through an
epoch of shuffled batches, evaluates a linear model on both splits and digests every sample. Its peak resident memory is printed above
that of a process which does the same with a thousandth of the data. The peer is the same process without a budget.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import resource
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

SHAPE = (3, 64, 64)
ALL = "folder,idx,idx-gz,npy,npz,npz-zipped,safetensors,csv,parquet,hf"


def samples(rows: int) -> np.ndarray:
    """Bytes with some repetition, so that what is zipped is zipped fast; never all in memory at once."""
    noise = np.random.default_rng(0).integers(0, 256, (64, *SHAPE), dtype=np.uint8)
    x = np.lib.format.open_memmap(tempfile.mktemp(suffix=".npy"), mode="w+", dtype=np.uint8, shape=(rows, *SHAPE))
    os.unlink(str(x.filename))
    for start in range(0, rows, 64):
        x[start : start + 64] = noise[: min(64, rows - start)] ^ np.uint8(start // 64 % 256)
    return x


def write(source: str, folder: Path, size: int) -> str:
    """A data set of about `size` stored bytes; returns what to write as source."""
    rows = max(40, size // int(np.prod(SHAPE)))
    y = (np.arange(rows) % 4).astype(np.int64)
    if source == "csv":
        return write_csv(folder, size)
    x = samples(rows)
    if source == "folder":
        from PIL import Image

        for name in range(4):
            (folder / "images" / str(name)).mkdir(parents=True)
        for i in range(rows):
            Image.fromarray(x[i].transpose(1, 2, 0)).save(folder / "images" / str(i % 4) / f"{i}.png", compress_level=0)
        return "folder:images"
    if source.startswith("idx"):
        for name, array in (("images", x), ("labels", y.astype(np.uint8))):
            with gzip.open(folder / name, "wb", 1) if source == "idx-gz" else open(folder / name, "wb") as file:
                file.write(struct.pack(">HBB", 0, 8, array.ndim) + struct.pack(f">{array.ndim}I", *array.shape))
                for start in range(0, rows, 64):
                    file.write(array[start : start + 64].tobytes())
        return "idx:images,labels"
    if source == "npy":
        np.save(folder / "x.npy", x)
        np.save(folder / "y.npy", y)
        return "npy:x.npy,y.npy"
    if source.startswith("npz"):
        (np.savez if source == "npz" else np.savez_compressed)(folder / "d.npz", x=x, y=y)
        return "npz:d.npz"
    if source == "safetensors":
        from safetensors.numpy import save_file

        save_file({"x": x, "y": y}, folder / "d.safetensors")
        return "safetensors:d.safetensors"
    return write_arrow(source, folder, x, y)


def write_csv(folder: Path, size: int) -> str:
    columns = 1000  # float32 in memory: 4 bytes a cell
    lines = [",".join(str(n) for n in row) for row in np.random.default_rng(0).integers(0, 100, (50, columns))]
    with open(folder / "d.csv", "w") as file:
        file.write(",".join(f"c{i}" for i in range(columns)) + ",label\n")
        for i in range(max(40, size // (4 * columns))):
            file.write(f"{lines[i % 50]},{i % 4}\n")
    return "csv:d.csv"


def write_arrow(source: str, folder: Path, x: np.ndarray, y: np.ndarray) -> str:
    import pyarrow as pa
    import pyarrow.parquet as pq

    width = int(np.prod(SHAPE))
    schema = pa.schema({"x": pa.list_(pa.uint8(), width), "label": pa.int64()})

    def batches() -> list[pa.RecordBatch]:
        for start in range(0, len(x), 512):
            flat = pa.array(x[start : start + 512].reshape(-1))
            yield pa.record_batch([pa.FixedSizeListArray.from_arrays(flat, width), pa.array(y[start : start + 512])], schema=schema)

    if source == "parquet":
        with pq.ParquetWriter(folder / "d.parquet", schema) as writer:
            for batch in batches():
                writer.write_batch(batch)
        return "parquet:d.parquet"
    (folder / "saved").mkdir()
    with pa.OSFile(str(folder / "saved" / "data-00000-of-00001.arrow"), "wb") as file, pa.ipc.new_stream(file, schema) as stream:
        for batch in batches():
            stream.write_batch(batch)
    (folder / "saved" / "state.json").write_text(json.dumps({"_data_files": [{"filename": "data-00000-of-00001.arrow"}]}))
    return "hf:saved"


def go_through(source: str, root: Path, memory: str | None) -> None:
    """What is done with a data set, from its key to the last evaluation; prints the peak of this process."""
    import torch
    from torch import nn

    from laminar.data.batches import Batches
    from laminar.data.fingerprint import fingerprint
    from laminar.data.open import open_data
    from laminar.data.samples import sample_digests
    from laminar.data.spec import DataSpec
    from laminar.train.evaluate import evaluate

    torch.set_num_threads(1)
    spec = DataSpec(source=source, memory=memory)
    fingerprint(spec, root, root / "cache")
    keyed = peak()
    data = open_data(spec, root, cache=root / "cache")
    opened = peak()
    with Batches(data.train.x, data.train.y, batch=64, seed=0, epochs=1) as batches:
        total = sum(float(block.x[0].sum()) for block in batches.epoch(0))
    shuffled = peak()
    model = nn.Sequential(nn.Flatten(), nn.Linear(int(np.prod(data.sample_shape)), 4))
    for split in (data.train, data.test):
        evaluate(model, [split.x], split.y, task=data.task, batch=256)
        sample_digests(split.x)
    print(json.dumps({"fingerprint": keyed, "open": opened, "epoch": shuffled, "whole": peak(), "sum": total}))


def peak() -> int:
    """Bytes. Not ru_maxrss where there is better: a child begins with its parent's."""
    status = Path("/proc/self/status")
    if status.is_file():
        return next(int(line.split()[1]) * 1024 for line in status.read_text().splitlines() if line.startswith("VmHWM"))
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def measured(source: str, size: int, memory: int | None) -> dict[str, float]:
    with tempfile.TemporaryDirectory(prefix="laminar-bench-", dir="/var/tmp") as folder:
        what = write(source, Path(folder), size)
        words = [sys.executable, __file__, "--child", what, folder] + ([] if memory is None else ["--budget", str(memory)])
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        if done.returncode:
            raise SystemExit(f"{source}: {done.stderr}")
        return json.loads(done.stdout)


def main() -> None:
    from laminar.core.sizes import parse_bytes

    parser = argparse.ArgumentParser()
    parser.add_argument("--budget")
    parser.add_argument("--times", type=int, default=10)
    parser.add_argument("--sources", default=ALL)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--no-peer", action="store_true")
    parser.add_argument("--child", nargs=2)
    args = parser.parse_args()
    if args.child:
        go_through(args.child[0], Path(args.child[1]), args.budget)
        return
    budget = parse_bytes(args.budget or "100MB")
    assert budget is not None
    report = {}
    if not args.json:
        print(f"budget {budget / 1e6:.0f} MB, data {budget * args.times / 1e6:.0f} MB; peak above the libraries, in MB")
        print(f"{'source':13}{'key':>8}{'open':>8}{'epoch':>8}{'all':>8}{'wanted':>9}{'no budget':>11}")
    for source in args.sources.split(","):
        bare = measured(source, budget * args.times // 1000, budget)
        found = measured(source, budget * args.times, budget)
        peer = None if args.no_peer else measured(source, budget * args.times, 1 << 50)
        report[source] = {name: found[name] - bare["whole"] for name in ("fingerprint", "open", "epoch", "whole")}
        if peer is not None:
            assert peer["sum"] == found["sum"], "the budget changed the data"
            report[source]["no budget"] = peer["whole"] - bare["whole"]
        if not args.json:
            shown = [report[source][name] / 1e6 for name in ("fingerprint", "open", "epoch", "whole")]
            print(f"{source:13}" + "".join(f"{n:8.0f}" for n in shown) + f"{budget / 1e6 + 200:9.0f}", end="")
            print(f"{report[source]['no budget'] / 1e6:11.0f}" if peer else "", flush=True)
    if args.json:
        print(json.dumps(report))


if __name__ == "__main__":
    main()

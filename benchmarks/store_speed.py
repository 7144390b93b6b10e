"""Store against raw safetensors: saving, loading, and what a child adds. Ratios of one run on one machine.

    python benchmarks/store_speed.py [--mb 100] [--repeat 7]

Saving: the same 100 MB as 100 tensors, and as one. The store hashes every byte, writes one file a tensor and syncs file and folder before
it returns; safetensors' save_file writes one file and does neither. So there are two rows: the peer as it is, and the peer made durable
(fsync of file and folder after the save). Loading: both map or read their files and sum every element, as training will.
Files are in the page cache in both cases. The first round is not timed. After each save its files are cut to
nothing, which gives their memory and blocks back, and deleted at the end: ext4 avoids inodes that were deleted within the last seconds,
and would spend more time on finding others than on writing.
"""

from __future__ import annotations

import argparse
import gc
import os
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import safetensors.numpy
import safetensors.torch
import torch

from laminar.store.manifest import Graph, Manifest, TensorRef, identity
from laminar.store.raw import RawTensor
from laminar.store.store import Store

Arrays = dict[str, np.ndarray]


def raw(arrays: Arrays) -> dict[str, RawTensor]:
    return {name: RawTensor.of("F32", a.shape, memoryview(a).cast("B")) for name, a in arrays.items()}


def manifest(tensors: dict[str, TensorRef]) -> Manifest:
    id = identity(tensors, aliases={}, structure="", classes=None, input={}, task="regression")
    return Manifest(
        id=id, name="b", stack="b", parent=None, tensors=tensors, aliases={}, graph=Graph(), structure="", model={}, classes=None,
        task="regression", input={}, frozen=[], metrics={}, key="0" * 64, run="", created=0.0, seconds=0.0, provenance={},
    )  # fmt: skip


def sync(path: Path) -> None:
    for place in (path, path.parent):
        fd = os.open(place, os.O_RDONLY)
        os.fsync(fd)
        os.close(fd)


def empty(folder: Path) -> None:
    for path in folder.rglob("*"):
        if path.is_file():
            os.truncate(path, 0)


def interleaved(repeat: int, *calls: Callable[[], float]) -> list[float]:
    """Median seconds of each, run in turns so that a busy moment of the machine hits all alike."""
    times: list[list[float]] = [[] for _ in calls]
    for _ in range(repeat + 1):
        for i, call in enumerate(calls):
            gc.collect()
            times[i].append(call())
    return [statistics.median(t[1:]) for t in times]


def speed(label: str, arrays: Arrays, folder: Path, repeat: int) -> None:
    folder = folder / label.strip().replace(" ", "-")
    folder.mkdir()
    count = iter(range(10**6))
    tensors = raw(arrays)
    as_torch = {name: torch.from_numpy(a) for name, a in arrays.items()}
    mb = sum(a.nbytes for a in arrays.values()) / 1e6

    def ours() -> float:
        root = folder / f"s{next(count)}"
        store = Store.open(root)
        start = time.perf_counter()
        store.put_tensors(tensors, None)
        seconds = time.perf_counter() - start
        empty(root / "objects")
        return seconds

    def peer(durable: bool, numpy: bool) -> float:
        path = folder / f"p{next(count)}" / "a.safetensors"
        path.parent.mkdir()
        start = time.perf_counter()
        if numpy:
            safetensors.numpy.save_file(arrays, path)
        else:
            safetensors.torch.save_file(as_torch, path)
        if durable:
            sync(path)
        seconds = time.perf_counter() - start
        empty(path.parent)
        return seconds

    mine, torch_plain, torch_durable, np_plain, np_durable = interleaved(
        repeat, ours, lambda: peer(False, False), lambda: peer(True, False), lambda: peer(False, True), lambda: peer(True, True)
    )
    print(f"save {label}: store {mine * 1e3:6.1f} ms, {mb / mine:5.0f} MB/s (hashed, durable)")
    for name, seconds in (
        ("safetensors.torch, not durable", torch_plain), ("safetensors.torch, durable", torch_durable),
        ("safetensors.numpy, not durable", np_plain), ("safetensors.numpy, durable", np_durable),
    ):  # fmt: skip
        print(f"     against {name:31} {seconds * 1e3:6.1f} ms   ratio {seconds / mine:.2f}")

    store = Store.open(folder / f"s{next(count)}")
    layer = manifest(store.put_tensors(tensors, None))
    file = folder / f"p{next(count)}.safetensors"
    safetensors.numpy.save_file(arrays, file)

    def load() -> float:
        start = time.perf_counter()
        total = 0.0
        for tensor in store.get_tensors(layer).values():
            total += float(torch.frombuffer(tensor.data, dtype=torch.float32).sum())
        return time.perf_counter() - start

    def load_peer(numpy: bool) -> float:
        start = time.perf_counter()
        if numpy:
            total = sum(float(a.sum()) for a in safetensors.numpy.load_file(file).values())
        else:
            total = sum(float(t.sum()) for t in safetensors.torch.load_file(file).values())
        assert total == total
        return time.perf_counter() - start

    mine, by_torch, by_numpy = interleaved(2 * repeat, load, lambda: load_peer(False), lambda: load_peer(True))
    print(f"load {label}: store {mine * 1e3:6.1f} ms, {mb / mine:5.0f} MB/s (with the sum of every element)")
    print(f"     against safetensors.torch               {by_torch * 1e3:6.1f} ms   ratio {by_torch / mine:.2f}")
    print(f"     against safetensors.numpy               {by_numpy * 1e3:6.1f} ms   ratio {by_numpy / mine:.2f}")


def added(store: Store, base: Manifest, arrays: Arrays) -> float:
    before = size(store)
    child = store.put_tensors(raw(arrays), base)
    got = store.get_tensors(manifest(child))
    for name, a in arrays.items():
        assert bytes(got[name].data) == a.tobytes(), name
    return (size(store) - before) / 1e6


def size(store: Store) -> int:
    return sum(path.stat().st_size for path in (store.root / "objects").rglob("*") if path.is_file())


def children(folder: Path, mb: int) -> None:
    rng = np.random.default_rng(1)
    many = {f"t{i}": rng.standard_normal(mb * 2500, dtype=np.float32) for i in range(100)}
    one = {"w": rng.standard_normal((mb * 25, 10_000), dtype=np.float32)}
    store = Store.open(folder / "children")
    base_many, base_one = manifest(store.put_tensors(raw(many), None)), manifest(store.put_tensors(raw(one), None))
    cases: list[tuple[str, Manifest, Arrays]] = [("one tensor of a hundred", base_many, many | {"t7": many["t7"] + 1})]
    flat = one["w"].copy()
    at = rng.choice(flat.size, flat.size // 100, replace=False)
    flat.reshape(-1)[at] += 1
    cases.append(("1 % of the elements of one tensor, scattered", base_one, {"w": flat}))
    rows = one["w"].copy()
    rows[100 : 100 + len(rows) // 100] += 1
    cases.append(("1 % of the rows of one tensor, contiguous", base_one, {"w": rows}))
    spread = {name: a.copy() for name, a in many.items()}
    for a in spread.values():
        a[rng.choice(a.size, a.size // 100, replace=False)] += 1
    cases.append(("1 % of the elements of each of a hundred tensors", base_many, spread))
    for label, base, child in cases:
        print(f"child that changes {label}: adds {added(store, base, child):.2f} MB to {mb} MB")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mb", type=int, default=100)
    parser.add_argument("--repeat", type=int, default=7)
    args = parser.parse_args()
    rng = np.random.default_rng(0)
    torch.set_num_threads(1)
    folder = Path(tempfile.mkdtemp(prefix="store-speed-"))
    try:
        print(f"{args.mb} MB of float32; {os.cpu_count()} cores; medians of {args.repeat} runs in turns; ratio > 1: the store is quicker")
        speed("100 tensors", {f"t{i}": rng.standard_normal(args.mb * 2500, dtype=np.float32) for i in range(100)}, folder, args.repeat)
        speed("1 tensor   ", {"w": rng.standard_normal(args.mb * 250_000, dtype=np.float32)}, folder, args.repeat)
        children(folder, args.mb)
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()

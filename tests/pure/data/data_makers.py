"""Small data sets on disk, written without the code under test."""

from __future__ import annotations

import gzip
import struct
from pathlib import Path

import numpy as np
from PIL import Image

CODES = {"uint8": 0x08, "int32": 0x0C, "float32": 0x0D}


def idx_bytes(array: np.ndarray) -> bytes:
    header = struct.pack(">HBB", 0, CODES[str(array.dtype)], array.ndim) + struct.pack(f">{array.ndim}I", *array.shape)
    return header + array.astype(array.dtype.newbyteorder(">")).tobytes()


def digits_like(count: int = 40, classes: int = 4, seed: int = 0, size: int = 6) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    return rng.integers(0, 256, (count, size, size), dtype=np.uint8), (np.arange(count) % classes).astype(np.uint8)


def write_idx_folder(folder: Path, *, zipped: bool = True, test: bool = True, count: int = 40) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for side, n, seed in (("train", count, 0), ("t10k", count // 2, 1))[: 2 if test else 1]:
        x, y = digits_like(n, seed=seed)
        for role, rank, array in (("images", 3, x), ("labels", 1, y)):
            data = idx_bytes(array)
            path = folder / f"{side}-{role}-idx{rank}-ubyte"
            if zipped:
                path.with_name(path.name + ".gz").write_bytes(gzip.compress(data, mtime=7))
            else:
                path.write_bytes(data)


def write_images(
    folder: Path, *, classes: tuple[str, ...] = ("cat", "dog", "eel"), each: int = 5, size: int = 6, mode: str = "RGB"
) -> None:
    rng = np.random.default_rng(3)
    for name in classes:
        (folder / name).mkdir(parents=True, exist_ok=True)
        for i in range(each):
            shape = (size, size, 3) if mode == "RGB" else (size, size)
            Image.fromarray(rng.integers(0, 256, shape, dtype=np.uint8)).save(folder / name / f"{i}.png")

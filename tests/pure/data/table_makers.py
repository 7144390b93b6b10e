"""Small tables on disk, written without the code under test."""

from __future__ import annotations

import io
import json
import tarfile
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

CLASSES = ["cat", "dog", "eel"]


def write_csv(path: Path, rows: int = 30, *, bump: int = 0) -> None:
    """Two numbers and a class by name."""
    lines = [f"{i},{i * i % 7 + bump * (i == 5)},{CLASSES[i % 3]}" for i in range(rows)]
    path.write_text("\n".join(["width,height,kind", *lines]) + "\n")


def png(level: int, *, size: int = 6, grey: bool = False) -> bytes:
    file = io.BytesIO()
    Image.fromarray(np.full((size, size) if grey else (size, size, 3), level, dtype=np.uint8)).save(file, "PNG")
    return file.getvalue()


def pictures(rows: int = 30, *, bump: int = 0, grey: bool = False) -> dict[str, Any]:
    """Columns as Hugging Face writes them."""
    return {
        "image": [{"bytes": png(3 * i + bump * (i == 2), grey=grey), "path": f"{i}.png"} for i in range(rows)],
        "label": [i % 3 for i in range(rows)],
    }


def declared(table: Any) -> Any:
    """With the names of the classes in the metadata, as `datasets` puts them there."""
    features = {"image": {"_type": "Image"}, "label": {"names": CLASSES, "_type": "ClassLabel"}}
    return table.replace_schema_metadata({"huggingface": json.dumps({"info": {"features": features}})})


def write_parquet(path: Path, columns: dict[str, Any], **options: Any) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    path.parent.mkdir(parents=True, exist_ok=True)
    table = pa.table(columns)
    pq.write_table(declared(table) if "image" in columns else table, path, **options)


def save_to_disk(folder: Path, columns: dict[str, Any]) -> None:
    """The files that `datasets` would write."""
    import pyarrow as pa

    folder.mkdir(parents=True, exist_ok=True)
    table = declared(pa.table(columns))
    with pa.OSFile(str(folder / "data-00000-of-00001.arrow"), "wb") as file, pa.ipc.new_stream(file, table.schema) as stream:
        stream.write_table(table, max_chunksize=7)
    (folder / "state.json").write_text(json.dumps({"_data_files": [{"filename": "data-00000-of-00001.arrow"}], "_fingerprint": "0"}))
    (folder / "dataset_info.json").write_text("{}")


def cifar_files(rows: int = 4, *, bump: int = 0) -> dict[str, bytes]:
    """Six files of the binary form, `rows` records each."""
    rng = np.random.default_rng(0)
    files = {}
    for name in (*(f"data_batch_{i}.bin" for i in range(1, 6)), "test_batch.bin"):
        records = rng.integers(0, 256, (rows, 3073), dtype=np.uint8)
        records[:, 0] = np.arange(rows) % 10
        files[name] = records.tobytes()
    files["test_batch.bin"] = files["test_batch.bin"][:-1] + bytes([files["test_batch.bin"][-1] ^ bump])
    files["batches.meta.txt"] = b"\n".join(f"thing{i}".encode() for i in range(10)) + b"\n\n"
    return files


def tar_bytes(files: dict[str, bytes], top: str, *extra: tarfile.TarInfo) -> bytes:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w:gz") as tar:
        for name, data in files.items():
            info = tarfile.TarInfo(f"{top}/{name}")
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
        for info in extra:
            tar.addfile(info)
    return file.getvalue()

"""Parquet and Arrow files through pyarrow, a few rows at a time. Nothing of them is ever unpickled or run.

An Arrow file here is a stream as Hugging Face's `datasets` writes with save_to_disk; both kinds carry the names of classes in the
schema's metadata.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, final

import msgspec

from laminar.core.errors import LaminarError

_ROWS = 16384  # at once; fewer where rows are large
_BYTES = 1 << 20  # of a file that are decoded at once; numbers in lists take up to sixteen times as much meanwhile
_HINT = "the file is damaged or incomplete: fetch or write it again"


def need_pyarrow(kind: str) -> Any:
    """The library, or L011."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        raise LaminarError("L011", f"{kind}: needs pyarrow, which is not installed", hint="pip install 'laminar-train[parquet]'") from error
    return pyarrow


@final
class ArrowFile:
    """A file of either kind: its schema, how many rows it has, and batches of some columns."""

    def __init__(self, path: Path, kind: str) -> None:
        self.path, self._pa = path, need_pyarrow(kind)
        self._parquet = kind == "parquet"
        try:
            if self._parquet:
                with self._pa.parquet.ParquetFile(path) as file:
                    self.schema, self.rows = file.schema_arrow, file.metadata.num_rows
            else:
                # The format does not say how many rows there are. Not mapped: its pages would pile up.
                with self._pa.OSFile(str(path)) as source, self._pa.ipc.open_stream(source) as stream:
                    self.schema, self.rows = stream.schema, sum(batch.num_rows for batch in stream)
        except (self._pa.ArrowException, OSError) as error:
            raise self._unreadable(error) from error

    def batches(self, columns: list[str]) -> Iterator[Any]:
        """Record batches of those columns, in their order. Batches of one file may differ in length."""
        try:
            if self._parquet:
                # With a buffer the pages of a row group are read one by one; without, a whole column of it at once.
                with self._pa.parquet.ParquetFile(self.path, buffer_size=1 << 20, pre_buffer=False) as file:
                    yield from file.iter_batches(batch_size=self._step(file), columns=columns, use_threads=False)
            else:
                with self._pa.OSFile(str(self.path)) as source, self._pa.ipc.open_stream(source) as stream:
                    for batch in stream:
                        yield batch.select(columns)
        except (self._pa.ArrowException, OSError) as error:
            raise self._unreadable(error) from error

    def _step(self, file: Any) -> int:
        whole = sum(file.metadata.row_group(i).total_byte_size for i in range(file.metadata.num_row_groups))
        return int(max(1, min(_ROWS, _BYTES // max(1, whole // max(1, self.rows)))))

    def features(self) -> dict[str, Any]:
        """What `datasets` says of the columns: {"label": {"_type": "ClassLabel", "names": [...]}, ...}; else nothing."""
        text = (self.schema.metadata or {}).get(b"huggingface")
        try:
            about = msgspec.json.decode(text) if text else {}
        except msgspec.MsgspecError:
            return {}
        found = about.get("info", {}).get("features", {}) if isinstance(about, dict) else {}
        return found if isinstance(found, dict) else {}

    def _unreadable(self, error: Exception) -> LaminarError:
        size = self.path.stat().st_size if self.path.is_file() else 0
        what = "Parquet" if self._parquet else "Arrow stream"
        why = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        return LaminarError("L102", f"{self.path} cannot be read as a {what} file ({size:,} bytes): {why}", hint=_HINT)

"""Native readers: library functions that open files in C, C++ or Rust, where audit hooks do not notice it.

They are wrapped so that their paths are recorded. A module is wrapped as soon as it is imported, before other code can take a function
from it; modules that are already imported are wrapped in place. Users declare files of other readers with `reads` in the stack file.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any, Final

Told = Callable[[tuple[Any, ...], dict[str, Any]], None]

READERS: Final[dict[str, tuple[str, ...]]] = {
    "safetensors": ("safe_open",),
    "safetensors.torch": ("safe_open",),
    "safetensors.numpy": ("safe_open",),
    "pyarrow": ("memory_map", "OSFile", "input_stream"),
    "pyarrow.parquet": ("read_table", "read_pandas", "read_schema", "read_metadata", "ParquetFile", "ParquetDataset"),
    "pyarrow.parquet.core": ("read_table", "read_pandas", "read_schema", "read_metadata", "ParquetFile", "ParquetDataset"),
    "pyarrow.dataset": ("dataset", "parquet_dataset"),
    "pyarrow.csv": ("read_csv", "open_csv"),
    "pyarrow.json": ("read_json", "open_json"),
    "pyarrow.feather": ("read_table", "read_feather"),
    "pyarrow.orc": ("read_table", "ORCFile"),
    "torch": ("from_file",),
    "torch.storage": ("UntypedStorage.from_file", "TypedStorage.from_file"),
    "torchvision.io": ("read_file", "read_image", "read_video", "VideoReader"),
    "torchaudio": ("load", "info"),
    "cv2": ("imread", "imreadmulti", "VideoCapture", "FileStorage"),
    "h5py": ("File",),
    "netCDF4": ("Dataset", "MFDataset"),
    "polars": ("read_csv", "read_parquet", "read_ipc", "read_json", "read_ndjson", "scan_csv", "scan_parquet", "scan_ipc", "scan_ndjson"),
    "soundfile": ("read", "SoundFile", "info"),
    "faiss": ("read_index",),
    "onnxruntime": ("InferenceSession",),
    "zarr": ("open", "open_group", "open_array", "load"),
    "tensorstore": ("open",),
    "duckdb": ("connect", "read_csv", "read_parquet", "read_json"),
}
_MARK: Final = "_laminar_wrapped"
_told: list[Told] = []


def wrap(told: Told) -> None:
    """Have `told` called with the arguments of readers: those of modules that are there, and of modules that come."""
    if not _told:
        sys.meta_path.insert(0, _Finder)
        _told.append(told)
    for name in READERS:
        if (module := sys.modules.get(name)) is not None:
            _wrap_module(name, module)


def _wrap_module(name: str, module: ModuleType) -> None:
    for path in READERS[name]:
        owner: Any = module
        *through, last = path.split(".")
        for part in through:
            owner = vars(owner).get(part)
            if owner is None:
                break
        if owner is None or last not in vars(owner):
            continue
        plain = getattr(owner, last)
        if getattr(plain, _MARK, False) or not callable(plain):
            continue
        kind = type(owner) is not type(module)
        try:
            if isinstance(plain, type):
                _wrap_class(owner, last, plain)
            else:
                setattr(owner, last, staticmethod(_wrapped(plain)) if kind else _wrapped(plain))
        except (AttributeError, TypeError):
            continue  # of a kind that cannot be changed


def _wrapped(plain: Any) -> Any:
    @functools.wraps(plain)
    def reader(*values: Any, **names: Any) -> Any:
        _told[0](values, names)
        return plain(*values, **names)

    setattr(reader, _MARK, True)
    return reader


def _wrap_class(owner: Any, name: str, plain: type) -> None:
    """A class of Python is told of where it is made; one of another language is replaced by a function that makes it."""
    begin = vars(plain).get("__init__")
    if plain.__flags__ & (1 << 9) and begin is not None and hasattr(begin, "__code__"):  # Py_TPFLAGS_HEAPTYPE
        if not getattr(begin, _MARK, False):

            @functools.wraps(begin)
            def watched(self: Any, *values: Any, **names: Any) -> None:
                _told[0](values, names)
                begin(self, *values, **names)

            setattr(watched, _MARK, True)
            plain.__init__ = watched  # type: ignore[misc]
        return
    setattr(owner, name, _wrapped(plain))


class _Finder:
    """Wraps the readers of a module when it has been imported. Finds nothing by itself."""

    _asking: Final[set[str]] = set()

    @classmethod
    def find_spec(cls, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None) -> ModuleSpec | None:
        if fullname not in READERS or fullname in cls._asking:
            return None
        cls._asking.add(fullname)
        try:
            for finder in sys.meta_path:
                find = getattr(finder, "find_spec", None)
                spec = find(fullname, path, target) if find is not None and finder is not cls else None
                if spec is not None:
                    break
            else:
                return None
        finally:
            cls._asking.discard(fullname)
        execute = getattr(spec.loader, "exec_module", None)
        if execute is None:
            return spec  # type: ignore[no-any-return]

        def executed(module: ModuleType) -> None:
            execute(module)
            _wrap_module(fullname, module)

        spec.loader.exec_module = executed
        return spec  # type: ignore[no-any-return]

"""Doctor: what of the machine, the libraries, the store and the stack is as it should be, and what to do about the rest."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import platform
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, Literal

from laminar import __version__
from laminar.core.errors import LaminarError
from laminar.core.permission import allow
from laminar.stack.plan import plan
from laminar.stack.project import Project

State = Literal["ok", "note", "bad"]
LOW_DISK: Final = 1_000_000_000

# what each optional library is for, and the extra that brings it
OPTIONAL: Final = {
    "aiohttp": ("http remotes", "http"),
    "s3fs": ("s3 remotes", "s3"),
    "paramiko": ("ssh remotes", "ssh"),
    "onnxscript": ("export to .onnx", "onnx"),
    "plotly": ("laminar report", "report"),
    "pyarrow": ("parquet: and hf: data", "parquet"),
    "tensorboard": ("TensorBoard files", "tensorboard"),
}


@dataclass(frozen=True)
class Check:
    name: str
    state: State
    said: str
    fix: str = ""

    def to_json(self) -> dict[str, Any]:
        return {"name": self.name, "state": self.state, "said": self.said, "fix": self.fix}


def examine(project: Project) -> list[Check]:
    return [*_machine(), *_libraries(), *_store(project), *_stack(project)]


def _machine() -> Iterator[Check]:
    yield Check("laminar", "ok", __version__)
    good = sys.version_info >= (3, 11)
    yield Check(
        "python",
        "ok" if good else "bad",
        f"{platform.python_version()} on {platform.platform()}",
        "" if good else "install Python 3.11 or newer",
    )
    yield Check("processor", "ok", f"{os.cpu_count()} cores")
    try:
        version = importlib.metadata.version("torch")
    except importlib.metadata.PackageNotFoundError:
        yield Check("torch", "bad", "not installed", "pip install 'torch>=2.13,<2.14'")
        return
    fits = version.startswith("2.13")
    yield Check("torch", "ok" if fits else "bad", version, "" if fits else "pip install 'torch>=2.13,<2.14'")
    from laminar.train.dtype import probe

    for dtype in ("float16", "bfloat16"):
        try:
            probe(dtype)
            yield Check(dtype, "ok", "this processor computes in it")
        except LaminarError as error:
            yield Check(dtype, "note", error.message, error.hint)


def _libraries() -> Iterator[Check]:
    for module, (purpose, extra) in OPTIONAL.items():
        there = importlib.util.find_spec(module) is not None
        yield Check(
            module,
            "ok" if there else "note",
            f"{purpose}{'' if there else ': not installed'}",
            "" if there else f"pip install 'laminar-train[{extra}]'",
        )


def _store(project: Project) -> Iterator[Check]:
    path = project.store_path
    around = next(p for p in (path, *path.parents) if p.exists())
    free = shutil.disk_usage(around).free
    yield Check(
        "disk",
        "ok" if free > LOW_DISK else "bad",
        f"{free / 1e9:.1f} GB free at {around}",
        "" if free > LOW_DISK else "laminar gc, or free some space",
    )
    if not os.access(around, os.W_OK):
        fix = f"{allow(around, 'w')}, or set LAMINAR_STORE to a folder of your own"
        yield Check("store", "bad", f"{around} may not be written: what is there can be used, but nothing can be built", fix)
    elif not path.exists():
        yield Check("store", "note", f"none yet at {path}: the first build makes it")
    else:
        try:
            store = project.look_at_store()
            broken = [id for id in store.layers() if not store.complete(id)]
            said = f"{len(store.layers())} layers at {path}"
            yield Check(
                "store",
                "bad" if broken else "ok",
                f"{said}, {len(broken)} damaged" if broken else said,
                "laminar verify --repair" if broken else "",
            )
        except LaminarError as error:
            yield Check("store", "bad", error.message, error.hint)


def _stack(project: Project) -> Iterator[Check]:
    if project.file is None:
        yield Check("stack", "note", f"no laminar.toml in {project.root}", "laminar init my-stack")
        return
    try:
        steps = plan(project.file, project.look_at_store())
    except LaminarError as error:
        yield Check("stack", "bad", error.message, error.hint)
        return
    todo = [s.layer.name for s in steps if s.action == "build"]
    yield Check("stack", "ok", f"{project.stack}: {len(steps)} layers, " + (f"to build: {', '.join(todo)}" if todo else "all built"))

"""The child that runs a foreign graph: `python -m laminar.stack.foreign_process`, frames in, frames out (foreign_frames.py).

    {"store", "id", "root"} or {"file", "root"}, "memory", "threads"    {"held": ["files", "memory", "network", "writes"]}
    {"form": "eval", "dtype", "shape"} + a batch                        {"dtype", "shape"} + the outputs
    {"form": "once", …} + a batch                                       the same; L204 says where the model does not take it
    {"form": "train", …} + a batch                                      {}: it went forwards and backwards
    {"form": "graph", …} + a batch like its own                         {"note", "train"} + its two archives; "train": bytes of the first
    {"form": "file", "name", "metadata", …} + a batch like its own      {}: it is exported to that file in the folder "writes"
Whatever goes wrong is {"error": {"code", "message", "hint"}}. It ends with its standard input, or with its parent.
"""

from __future__ import annotations

import io
import json
import math
import os
import signal
import sys
from pathlib import Path
from typing import Any

from laminar.core.confine import confine
from laminar.core.errors import LaminarError

_INPUT = io.FileIO(0, closefd=False)


def main() -> None:
    out = os.dup(1)
    os.dup2(2, 1)  # what libraries print is no answer
    brief = json.loads(_read(int.from_bytes(_read(8), "little")))
    _die_with(brief["parent"])
    import torch

    from laminar.stack.foreign_frames import pack

    places = [Path(brief[name]) for name in ("store", "file", "root") if brief.get(name)]
    writable = [Path(brief["writes"])] if brief.get("writes") else []
    held = confine(memory=brief["memory"], files=places, writable=writable)  # before torch has threads
    torch.set_num_threads(brief["threads"])
    try:
        model = _model(brief)
        confine(files=[], writable=writable)  # it is in memory now
    except Exception as error:
        _write(out, pack(_error(error)))
        return
    _write(out, pack({"held": sorted(held)}))
    while True:
        try:
            head, x = _batch()
        except EOFError:
            return
        try:
            answer = _answer(model, head, x, writable)
        except Exception as error:
            answer = pack(_error(error))
        _write(out, answer)


def _model(brief: dict[str, Any]) -> Any:
    if "file" in brief:
        from laminar.model.graph import load_forms
        from laminar.model.portable import import_file
        from laminar.stack.kernels import kernels_from

        with kernels_from(Path(brief["root"])):
            found = import_file(Path(brief["file"]))
            assert found.forms is not None
            return load_forms(found.forms.train, found.forms.eval, found.tensors, found.aliases)
    from laminar.stack.make import from_graph
    from laminar.store.store import Store

    store = Store.open(Path(brief["store"]), create=False)
    return from_graph(store, store.layer(brief["id"]), Path(brief["root"]) if brief["root"] else None)


def _answer(model: Any, head: dict[str, Any], x: Any, writable: list[Path]) -> list[bytes | memoryview]:
    import torch

    from laminar.model.graph import export_forms
    from laminar.model.portable import export_file
    from laminar.stack.foreign_frames import pack

    if head["form"] == "graph":
        forms = export_forms(model, x)
        archives = bytearray((forms.train or b"") + (forms.eval or b""))
        told = torch.frombuffer(archives, dtype=torch.uint8) if archives else torch.empty(0, dtype=torch.uint8)
        return pack({"note": forms.note, "train": len(forms.train or b"")}, told)
    if head["form"] == "file":
        export_file(model.eval(), writable[0] / head["name"], example=x, metadata=head["metadata"])
        return pack({})
    return pack({}, _run(model, head["form"], x))


def _run(model: Any, form: str, x: Any) -> Any:
    import torch

    from laminar.model.fit import run_once

    if form in ("eval", "once"):
        with torch.no_grad():
            made = model.eval()(x) if form == "eval" else run_once(model, x)
        if not isinstance(made, torch.Tensor):
            raise LaminarError("L204", f"the model gives a {type(made).__name__}, expected a tensor", hint="export one that gives a tensor")
        return made
    made = model.train()(x)
    if isinstance(made, torch.Tensor) and made.requires_grad:
        made.float().sum().backward()  # type: ignore[no-untyped-call]
    model.zero_grad()
    return None


def _batch() -> tuple[dict[str, Any], Any]:
    import torch

    from laminar.stack.foreign_frames import DTYPES

    head = json.loads(_read(int.from_bytes(_read(8), "little")))
    dtype = DTYPES[head["dtype"]]
    size = math.prod(head["shape"]) * dtype.itemsize
    flat = torch.frombuffer(_read(size), dtype=dtype) if size else torch.empty(0, dtype=dtype)
    return head, flat.view(head["shape"])


def _error(error: Exception) -> dict[str, Any]:
    if isinstance(error, LaminarError):
        return {"error": {"code": error.code, "message": error.message, "hint": error.hint}}
    lines = str(error).strip().splitlines()
    return {"error": {"code": "L210", "message": f"it failed: {type(error).__name__}: {lines[0][:300] if lines else ''}", "hint": ""}}


def _read(size: int) -> bytearray:
    data = bytearray(size)
    rest = memoryview(data)
    while rest:
        count = _INPUT.readinto(rest)
        if not count:
            raise EOFError
        rest = rest[count:]
    return data


def _write(out: int, parts: list[bytes | memoryview]) -> None:
    for part in parts:
        rest = memoryview(part)
        while rest:
            rest = rest[os.write(out, rest) :]


def _die_with(parent: int) -> None:
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
    if os.getppid() != parent:
        os._exit(0)


if __name__ == "__main__":
    main()

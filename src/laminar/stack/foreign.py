"""Foreign: graphs that others made run in a child process (foreign_process.py), which first gives up files, network and programs.

The table of operators (model/graph_operators.py) is what keeps a graph from doing harm. Here is what holds when the table is wrong: the
child has limits for its memory and for the time of each answer, it can write no file, and where the system offers a way it can open no
file and no socket. Its death, or a limit, ends as L210 and names the layer.

A layer is foreign unless its graph was made in this store from code (store/own.py): pulled, imported with its graph, or standing on such
a layer without code of its own. Evaluating and predicting run it in the child; a build on one, and an import, first try it there.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import signal
import stat
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Literal

import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from laminar.core import digest
from laminar.core.atomic import explaining_os_errors
from laminar.core.confine import few_variables
from laminar.core.errors import CATALOGUE, LaminarError
from laminar.core.memory import total
from laminar.data.dataset import Dataset, as_float
from laminar.model.graph import Forms, load_forms, structure_of
from laminar.stack.foreign_frames import DTYPES, HEAD, Frame, pack, unpack_head
from laminar.stack.kernels import kernels_from
from laminar.stack.make import Made, from_code
from laminar.store.manifest import Manifest
from laminar.store.own import is_own
from laminar.store.store import Store

SECONDS: Final = 600.0  # for one answer of the child: a batch, or loading the graph
SHARE: Final = 0.75  # of the memory of the machine, or of the container, that the child may have
STACK: Final = 8 << 20  # bytes of a thread's stack
MAX_ANSWER: Final = 8 << 30
TRIED: Final = 2  # batches


def is_foreign(store: Store, manifest: Manifest) -> bool:
    """A layer without a graph can only be used with the project's own code."""
    return manifest.graph.eval is not None and not is_own(store, manifest)


@contextlib.contextmanager
def confined(store: Store, id: str, root: Path | None) -> Iterator[nn.Module]:
    """The model of a foreign layer in evaluation form, in a child that ends with the block."""
    manifest = store.layer(id)
    try:
        module = ForeignModel(_called(manifest), {"store": str(store.root), "id": id, "root": str(root) if root else None})
    except LaminarError as error:
        model = from_code(store, manifest, root) if error.code == "L706" else None
        if model is None:
            raise
        yield model.eval()  # a kernel that lies elsewhere, or has no file, and the layer's code is here
        return
    try:
        yield module
    finally:
        module.close()


def stands_on_foreign(store: Store, parent: str | None, made: Made, root: Path, data: Dataset, batch: int) -> bool:
    """Does a layer that is to run here stand on the graph of a foreign one? Then that is tried first: L210."""
    below = store.layer(parent) if parent and made.route == "graph" else None
    if below is None or not is_foreign(store, below):
        return False
    try_out(store, below.id, root, data.train.x, batch)
    return True


def try_out(store: Store, id: str, root: Path, samples: NDArray[Any], batch: int) -> None:
    """Run two batches through a foreign layer in a child, as evaluation and as training do, forwards and backwards. L210 when that ends it.

    What only goes wrong is said where it goes wrong again: when the layer is used."""
    manifest = store.layer(id)
    batches = [torch.from_numpy(as_float(part).copy()) for i in range(TRIED) if len(part := samples[i * batch : (i + 1) * batch])]
    _try(_called(manifest), {"store": str(store.root), "id": id, "root": str(root)}, batches)


def import_graph(
    path: Path, root: Path, example: Tensor, tensors: Mapping[str, Tensor], aliases: Mapping[str, str]
) -> tuple[Tensor, Forms]:
    """What the model of a file that is to be imported makes of a batch, and its graph as a store keeps it: all of it comes from a child.

    L210 where that ends it, L204 where the model does not take the batch. `tensors` are those of the file."""
    with tempfile.TemporaryDirectory(prefix="laminar-") as folder:  # torch's exporter wants one
        module = ForeignModel(path.name, {"file": str(path.absolute()), "root": str(root), "writes": folder})
        try:
            outputs = module.ask(example, "once")
            if outputs is None:
                raise module.broken("it gave no tensor")
            train, evaluation, note = module.graph(example)
            forms = Forms(None, None, "", note)
            if train:
                try:
                    with kernels_from(root):
                        load_forms(train, evaluation, tensors, aliases)  # read, not run
                    forms = Forms(train, evaluation, structure_of(train, evaluation))
                except LaminarError as error:
                    raise module.broken(f"it gave a graph that is none ({error.message[:80]})") from None
            try:
                module.ask(example, "train")  # last: it changes buffers
            except LaminarError:  # what only goes wrong in training is said when it is trained
                if module.ended:
                    raise
            return outputs, forms
        finally:
            module.close()


def export_foreign(store: Store, id: str, root: Path | None, path: Path, example: Tensor, metadata: Mapping[str, str]) -> None:
    """As model/portable.py: export_file, of a foreign layer, in a child that can write into a folder of its own and nowhere else."""
    with explaining_os_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=path.parent, prefix=".laminar-") as folder:
            brief = {"store": str(store.root), "id": id, "root": str(root) if root else None, "writes": folder}
            module = ForeignModel(_called(store.layer(id)), brief)
            made = Path(folder, f"model{path.suffix}")
            try:
                module.export(example, made.name, metadata)
                if not stat.S_ISREG(os.lstat(made).st_mode):
                    raise module.broken("it gave something else than a file")
            finally:
                module.close()
            os.replace(made, path)


def _try(called: str, brief: Mapping[str, Any], batches: Sequence[Tensor]) -> None:
    try:
        module = ForeignModel(called, brief)
    except LaminarError as error:
        if error.code == "L210":
            raise
        return
    try:
        for form in ("eval", "train"):
            for batch in batches:
                try:
                    module.ask(batch, form)
                except LaminarError as error:
                    if error.code == "L210" and module.ended:
                        raise
    finally:
        module.close()


def allowed(memory: int | None, threads: int) -> int | None:
    """Bytes that the child may map for writing. Stacks of threads are mapped as a whole and hardly used; torch has two sets of threads."""
    return None if memory is None else int(memory * SHARE) + 2 * threads * STACK


def _called(manifest: Manifest) -> str:
    return f"layer {manifest.name} ({digest.short(manifest.id)})"


class ForeignModel(nn.Module):
    """A model in a child process: batches go there, outputs come back. Only for evaluation, and without gradients."""

    def __init__(self, called: str, brief: Mapping[str, Any]) -> None:
        """`brief` says where its graph is, and `called` what it is in messages."""
        super().__init__()
        self.called, self.ended = called, False
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", "laminar.stack.foreign_process"],  # -P: a random.py of the folder we are in is no library
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=few_variables() | ({"TMPDIR": str(brief["writes"])} if "writes" in brief else {}),
            bufsize=0,
        )
        memory = total()
        threads = torch.get_num_threads()
        limits = {"memory": allowed(memory, threads), "threads": threads}
        try:
            ready = self._exchange(pack({**brief, **limits, "parent": os.getpid()}))
        except BaseException:
            self.close()
            raise
        self.held: set[str] = {str(word) for word in ready.head.get("held", [])}

    def forward(self, x: Tensor) -> Tensor:
        made = self.ask(x, "eval")
        if made is None or made.dim() < 1 or len(made) != len(x):
            raise self.broken(f"it gave {'no tensor' if made is None else f'shape {list(made.shape)}'} for {len(x)} samples")
        return made

    def ask(self, x: Tensor, form: Literal["eval", "train"] | str) -> Tensor | None:
        """The outputs of a batch in evaluation; in training nothing comes back."""
        return self._exchange(pack({"form": form}, x)).tensor

    def graph(self, example: Tensor) -> tuple[bytes, bytes, str]:
        """The archives of its two forms, as they came. Of a model that cannot be exported they are empty, and a note says why."""
        told = self._exchange(pack({"form": "graph"}, example))
        archives = b"" if told.tensor is None else told.tensor.view(torch.uint8).numpy().tobytes()
        size = told.head.get("train")
        if type(size) is not int or not 0 <= size <= len(archives):
            raise self.broken("it gave an answer that is none (archives)")
        return archives[:size], archives[size:], _plain(str(told.head.get("note")))

    def export(self, example: Tensor, name: str, metadata: Mapping[str, str]) -> None:
        self._exchange(pack({"form": "file", "name": name, "metadata": dict(metadata)}, example))

    def close(self) -> None:
        process = self._process
        assert process.stdin is not None
        assert process.stdout is not None
        with contextlib.suppress(OSError):
            process.stdin.close()
        process.kill()
        process.wait()
        process.stdout.close()

    def _exchange(self, question: Sequence[bytes | memoryview]) -> Frame:
        began = time.monotonic()
        clock = threading.Timer(SECONDS, self._process.kill)
        clock.daemon = True
        clock.start()
        try:
            self._write(question)
            return self._answer(self._read(unpack_head(bytes(self._read(HEAD)))))
        except (OSError, EOFError):
            late = time.monotonic() - began >= SECONDS
            raise self.broken(f"it took more than {SECONDS:.0f} s for one batch" if late else self._death()) from None
        finally:
            clock.cancel()

    def _answer(self, text: bytes | bytearray) -> Frame:
        """Whatever the child says is only a claim: it may be in the hands of the graph's author."""
        try:
            head: dict[str, Any] = json.loads(text)
            error = head.get("error")
            if error is not None:
                raise self._reported(str(error["code"]), _plain(str(error["message"])), _plain(str(error["hint"])))
            if head.get("dtype") is None:
                return Frame(head, None)
            dtype, shape = DTYPES[head["dtype"]], [int(size) for size in head["shape"]]
            size = math.prod(shape) * dtype.itemsize
            if any(n < 0 for n in shape) or size > MAX_ANSWER:
                raise ValueError(f"an answer of shape {shape}")
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError, OverflowError) as error:
            raise self.broken(f"it gave an answer that is none ({str(error)[:80]})") from None
        data = self._read(size)
        flat = torch.frombuffer(data, dtype=dtype) if size else torch.empty(0, dtype=dtype)
        return Frame(head, flat.view(shape))

    def _write(self, parts: Sequence[bytes | memoryview]) -> None:
        assert self._process.stdin is not None
        for part in parts:
            rest = memoryview(part)
            while rest:
                rest = rest[self._process.stdin.write(rest) :]

    def _read(self, size: int) -> bytearray:
        assert self._process.stdout is not None
        data = bytearray(size)
        rest = memoryview(data)
        while rest:
            count = self._process.stdout.readinto(rest)  # type: ignore[attr-defined]  # not buffered
            if not count:
                raise EOFError
            rest = rest[count:]
        return data

    def _reported(self, code: str, message: str, hint: str) -> LaminarError:
        """An error of the child's, which is still there."""
        if code in CATALOGUE and code not in ("L210", "L900"):
            return LaminarError(code, message if self.called in message else f"{self.called}: {message}", hint=hint)
        return _broken_off(self.called, message)

    def broken(self, how: str) -> LaminarError:
        self.ended = True
        return _broken_off(self.called, how)

    def _death(self) -> str:
        code = self._process.wait()
        if code < 0:
            return f"it ended its process by {signal.Signals(-code).name}"
        return f"its process ended with exit code {code}"


def _broken_off(called: str, how: str) -> LaminarError:
    return LaminarError(
        "L210",
        f"{called} was made elsewhere and runs in a process of its own, and there {how}",
        hint="do not use it, or build it where its source code is",
    )


def _plain(text: str) -> str:
    """Words of the child as one line without control characters."""
    return "".join(c if c.isprintable() else " " for c in text)[:500]

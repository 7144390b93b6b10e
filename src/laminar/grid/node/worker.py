"""Worker: does tasks and writes their answers on the disk, with what compression keeps back.

The answer is written first, then the residual that belongs to it, tagged with the answer's number. If the machine stops in between, tag
and answer do not fit together, the answer is thrown away and the task done again: nothing is sent twice or lost.

A verdict is settled once, however often it is told: as long as the answer is on the disk it is not settled. The residual is written with
the numbers of the answers that went back into it, then these are deleted; if the machine stops in between, those are deleted first that
the residual names.
"""

from __future__ import annotations

import contextlib
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, Final, final

import msgspec
import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor

from laminar.core import atomic
from laminar.core.errors import LaminarError
from laminar.data.dataset import Dataset
from laminar.grid.compressor import compressor_of
from laminar.grid.node import data_files
from laminar.grid.node.halfway import Halfway
from laminar.grid.node.home import TAG, Home
from laminar.grid.node.sources import data_of
from laminar.grid.node.trainer import Trainer
from laminar.grid.wire import answer as answers
from laminar.grid.wire.messages import About, Task
from laminar.grid.wire.sketch import SPARSE, Sketcher
from laminar.parallel.compress.packet import BadPacket, Packet
from laminar.parallel.compress.protocol import Compressor
from laminar.stack.kernels import kernels_from

DATA_SETS: Final = 4  # that stay open
SETTLED: Final = "settled"  # answers that are in it again


@final
class Worker:
    def __init__(self, home: Home, kernels: Path | None = None) -> None:
        """`kernels`: the folder with those that its owner lets servers use."""
        self._home, self._kernels = home, kernels
        self._trainers: dict[str, Trainer] = {}
        self._sketchers: dict[str, Sketcher] = {}
        self._data: OrderedDict[tuple[str, int | None], Dataset] = OrderedDict()
        self._compressors: dict[str, Compressor] = {}
        self._tags: dict[str, int] = {}  # of residuals

    def do(self, task: Task, pause: Callable[[], None] = lambda: None) -> dict[str, Any]:
        """The answer is on the disk when this returns; figures for the keeper."""
        trainer = self._trainer(task.about)
        data = self._opened(task, trainer.about)
        version = self._home.version_path(task.run, task.version.number).read_bytes()
        halfway = Halfway(self._home.halfway_path(task.result), task)
        done = trainer.do(task, version, data, pause, halfway)
        # of a dense packet the server sees all by itself
        sketch = self._sketchers[task.about].of(done.change.numpy()) if trainer.about.compress.get("kind") in SPARSE else np.zeros(0, "<f4")
        compressor, fresh = self._compressor(task.run, trainer)
        with self._unless_kept(task.run):
            packet = compressor.encode(done.change, epoch_progress=task.progress, weights=trainer.row)
            head = answers.Head(
                result=task.result,
                version=task.version.number,
                packet=packet.nbytes,
                buffers=done.buffers.nbytes,
                samples=done.samples,
                steps=task.steps,
                loss=done.loss,
                seconds=done.seconds,
                fresh=fresh,
                threads=torch.get_num_threads(),
            )
            _write(self._home.answer_path(task.result), answers.write(head, packet.data, done.buffers, sketch))
            self._tags[task.run] = task.result
            self._keep_residual(task.run, compressor)
        halfway.forget()
        return {"result": task.result, "samples": done.samples, "seconds": done.seconds, "loss": done.loss}

    def put_back(self, run: str, about: str, results: list[int]) -> None:
        """Answers that were not used: what they took out of the residual goes back into it."""
        compressor, _ = self._compressor(run, self._trainer(about))
        row = _residual_row(compressor)
        with self._unless_kept(run):
            for result in results:
                packet = _packet_in(self._home.answer_path(result))
                if packet is not None and row is not None:
                    with contextlib.suppress(BadPacket):
                        compressor.decode(packet, row)
            self._keep_residual(run, compressor, settled=results)
        self._delete_answers(results)

    def forget(self, run: str, results: list[int]) -> None:
        """What was kept back: these answers were refused, and the server has forgotten it, too."""
        if not any(self._home.answer_path(result).exists() for result in results):
            return  # they are settled
        self._compressors.pop(run, None)
        path = self._home.residual_path(run)
        atomic.write_bytes(path, save({SETTLED: torch.tensor(results)}))
        self._delete_answers(results)
        path.unlink()

    def _delete_answers(self, results: Iterable[int]) -> None:
        for result in results:
            self._home.answer_path(result).unlink(missing_ok=True)

    @contextlib.contextmanager
    def _unless_kept(self, run: str) -> Iterator[None]:
        """A residual that was changed and could not be written: that on the disk counts."""
        try:
            yield
        except BaseException:
            self._compressors.pop(run, None)
            raise

    def _trainer(self, about: str) -> Trainer:
        if about not in self._trainers:
            self._trainers.clear()  # one model at a time: memory is the owner's
            described = msgspec.json.decode(self._home.file(about), type=About)
            with kernels_from(self._kernels):
                trainer = Trainer(described, self._home.file)
            self._trainers[about] = trainer
            self._sketchers = {about: Sketcher(trainer.layout.numel, described.sketch)}
        return self._trainers[about]

    def _opened(self, task: Task, about: About) -> Dataset:
        """What was opened for it is on the disk (computers.py)."""
        key = (task.about, task.sample)
        if key not in self._data:
            while len(self._data) >= DATA_SETS:
                self._data.popitem(last=False)
            self._data[key] = data_files.read(self._home.opened_path(data_files.name_of(data_of(about, task.sample))))
        self._data.move_to_end(key)
        return self._data[key]

    # Residuals

    def _compressor(self, run: str, trainer: Trainer) -> tuple[Compressor, bool]:
        """And whether it begins anew."""
        if run not in self._compressors:
            made = compressor_of(trainer.recipe, trainer.layout, gradients=trainer.about.gradients)
            path = self._home.residual_path(run)
            try:
                saved = load(path.read_bytes()) if path.exists() else {}
                self._tags[run] = int(saved.pop(TAG, torch.tensor(-1)))
                self._delete_answers(saved.pop(SETTLED, torch.zeros(0)).long().tolist())
                if saved:
                    made.load(saved)
            except (SafetensorError, OSError, LaminarError, ValueError):  # damaged, or of another kind: begin anew
                path.unlink(missing_ok=True)
                made = compressor_of(trainer.recipe, trainer.layout, gradients=trainer.about.gradients)
            self._compressors[run] = made
        return self._compressors[run], not self._compressors[run].state()

    def _keep_residual(self, run: str, compressor: Compressor, settled: list[int] | None = None) -> None:
        """`settled`: answers that went back into it. That is written down for good before the server is told."""
        state = {name: tensor.contiguous() for name, tensor in compressor.state().items()}
        if not state:
            return
        state[TAG] = torch.tensor(self._tags.get(run, -1))
        if settled:
            atomic.write_bytes(self._home.residual_path(run), save({**state, SETTLED: torch.tensor(settled)}))
        else:
            _write(self._home.residual_path(run), save(state))

    def whole(self, task: Task) -> bool:
        return self._home.whole(task)


def _packet_in(path: Path) -> Packet | None:
    """Of an answer on the disk; None where it is gone, or damaged."""
    try:
        return Packet.parse(bytes(answers.parse(path.read_bytes()).packet))
    except (OSError, answers.BadAnswer, BadPacket):
        return None


def _residual_row(compressor: Compressor) -> Tensor | None:
    """What is kept back, where there is one."""
    state = compressor.state()
    return state.get("v", state.get("error"))


def _write(path: Path, data: bytes) -> None:
    """Whole or not at all. Flushed where it is large enough to be worth the work that it holds."""
    write = atomic.write_bytes if len(data) > 1 << 20 else atomic.write_unflushed
    write(path, data)

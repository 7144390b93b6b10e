"""Own: daemons of other packages at work, each in a process of its own, so that one that hangs or dies takes nothing along.

Whatever goes wrong is an OwnFailed with the daemon's name: the transaction in which it was asked is undone, and its run is paused
(office.py). Answers stay where they were, and are looked at again when somebody has resumed the run.
"""

from __future__ import annotations

import atexit
import contextlib
import queue
import struct
import subprocess
import sys
import tempfile
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import IO, Any, Final, final

import msgspec
import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load, save

from laminar.core.errors import LaminarError
from laminar.grid.db import nodes, uploads
from laminar.grid.db.book import Tx
from laminar.grid.db.runs import Run
from laminar.grid.own_daemon import Answer, Judged
from laminar.grid.settings import Settings
from laminar.grid.wire import answer as answers
from laminar.parallel.compress.packet import Packet
from laminar.parallel.compress.values import read_values
from laminar.train.own_daemons import OwnDaemon, installed

LONGEST: Final = 60.0  # seconds that a daemon may take; the server writes nothing meanwhile
LINES: Final = 3  # of what a process that died said last
Arrays = dict[str, NDArray[Any]]
_LENGTHS: Final = struct.Struct("<II")


class OwnFailed(LaminarError):
    """A daemon of another package did not do what it should, for this run."""

    def __init__(self, run: int, daemon: OwnDaemon, why: str) -> None:
        super().__init__("L507", f"{daemon} {why}", hint="mend it, then: laminar grid resume")
        self.run = run


# Frames: the lengths of two parts, a JSON object, arrays as safetensors


@dataclass(frozen=True)
class Frame:
    head: dict[str, Any]
    arrays: Arrays


def write_frame(out: IO[bytes], frame: Frame) -> None:
    head = msgspec.json.encode(frame.head)
    arrays = save({name: np.ascontiguousarray(array) for name, array in frame.arrays.items()})
    out.write(_LENGTHS.pack(len(head), len(arrays)) + head + arrays)


def read_frame(source: IO[bytes]) -> Frame | None:
    """None at the end."""
    lengths = source.read(_LENGTHS.size)
    if len(lengths) < _LENGTHS.size:
        return None
    head, arrays = _LENGTHS.unpack(lengths)
    return Frame(msgspec.json.decode(source.read(head)), load(source.read(arrays)))


@final
class _Process:
    def __init__(self, daemon: OwnDaemon) -> None:
        words = [sys.executable, "-m", "laminar.grid.daemons.own_process", daemon.kind, daemon.name]
        words.append(msgspec.json.encode(daemon.settings).decode())
        self._said = tempfile.TemporaryFile()  # noqa: SIM115
        self._process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._said)
        self._frames: queue.SimpleQueue[Frame | None] = queue.SimpleQueue()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        try:
            while (frame := read_frame(self._process.stdout)) is not None:
                self._frames.put(frame)
        except (ValueError, OSError, msgspec.DecodeError, SafetensorError):
            pass
        self._frames.put(None)

    def ask(self, frame: Frame, longest: float) -> Frame:
        """ValueError with what went wrong."""
        assert self._process.stdin is not None
        try:
            with contextlib.suppress(BrokenPipeError):
                write_frame(self._process.stdin, frame)
                self._process.stdin.flush()
            found = self._frames.get(timeout=longest)
        except queue.Empty:
            raise ValueError(f"did not return within {longest:g} s") from None
        if found is None:
            code = self._process.wait()
            self._said.seek(0)
            last = " ".join(self._said.read().decode(errors="replace").split("\n")[-LINES - 1 :]).strip()
            raise ValueError(f"ended its process with {code}" + (f": {last}" if last else ""))
        if "error" in found.head:
            raise ValueError(f"failed: {found.head['error']}")
        return found

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    def end(self) -> None:
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout, self._said):
            with contextlib.suppress(OSError, ValueError):
                if pipe is not None:
                    pipe.close()


_PROCESSES: Final[dict[bytes, _Process]] = {}  # of daemons, which are asked by one thread


def _ask(run: Run, daemon: OwnDaemon, frame: Frame) -> Frame:
    try:
        here = installed(daemon.kind, {"name": daemon.name, **daemon.settings})
    except LaminarError as error:
        raise OwnFailed(run.id, daemon, f"is not here: {error.message}") from None
    if here != daemon:
        raise OwnFailed(run.id, daemon, f"is not here: {here.package} {here.version} is")
    key = msgspec.json.encode(daemon)
    process = _PROCESSES.get(key)
    if process is None or not process.alive:
        process = _PROCESSES[key] = _Process(daemon)
    try:
        return process.ask(frame, LONGEST)
    except ValueError as error:
        raise _failed(run, daemon, str(error)) from None


def _failed(run: Run, daemon: OwnDaemon, why: str) -> OwnFailed:
    """Its process ends: a daemon that was mended is loaded anew."""
    if (process := _PROCESSES.pop(msgspec.json.encode(daemon), None)) is not None:
        process.end()
    return OwnFailed(run.id, daemon, why)


@atexit.register
def end_all() -> None:
    """Of this process."""
    while _PROCESSES:
        _PROCESSES.popitem()[1].end()


def must_be_here(daemons: Sequence[OwnDaemon]) -> None:
    """L507 unless these are installed here, in these versions."""
    for one in daemons:
        here = installed(one.kind, {"name": one.name, **one.settings})
        if here != one:
            raise LaminarError(
                "L507", f"{one} is asked for, but {here.package} {here.version} is installed", hint="install the same version"
            )


# What they are asked


def judge(tx: Tx, run: Run, daemon: OwnDaemon, rows: Sequence[Any], needs: int) -> Judged:
    """Of the answers to a task."""
    data = uploads.read_all(tx, [row.id for row in rows])
    found = [_answer(tx, run.settings, row, data[row.id]) for row in rows]
    told = [
        {"result": a.result, "node": a.node, "trusted": a.trusted, "steps": a.steps, "samples": a.samples, "loss": a.loss} for a in found
    ]
    arrays: Arrays = {f"change {i}": a.change for i, a in enumerate(found)} | {f"buffers {i}": a.buffers for i, a in enumerate(found)}
    head = _ask(run, daemon, Frame({"answers": told, "needs": needs}, arrays)).head
    good, wrong = tuple(head["good"]), tuple(head["wrong"])
    known = {row.id for row in rows}
    if odd := [one for one in (*good, *wrong) if one not in known] or [one for one in good if one in wrong]:
        raise _failed(run, daemon, f"judges result {odd[0]}, which is none of {sorted(known)} or good and wrong at once")
    return Judged(good, wrong)


def _answer(tx: Tx, settings: Settings, row: Any, data: bytes) -> Answer:
    answer, change = _read(settings, data)
    head = answer.head
    return Answer(row.id, row.node, nodes.trusted(tx, row.node), change, answer.buffers, head.steps, head.samples, head.loss)


def _read(settings: Settings, data: bytes) -> tuple[answers.Answer, NDArray[np.float32]]:
    answer = answers.parse(data)
    positions, values = read_values(Packet.parse(answer.packet), settings.layout, settings.grid.compression)
    change = np.zeros(settings.layout.numel, np.float32)
    change[slice(None) if positions is None else positions] = values
    return answer, change


def step(run: Run, daemon: OwnDaemon, version: bytes, kept: bytes, parts: Sequence[tuple[float, Sequence[bytes]]]) -> tuple[bytes, bytes]:
    """The next version, and what the daemon keeps. As Learner.step (assimilator.py)."""
    settings, numel = run.settings, run.settings.layout.numel
    arrays: Arrays = {
        "values": np.frombuffer(version, "<f4", count=numel),
        "buffers": np.frombuffer(version, "<f8", offset=4 * numel),
        **{f"state {name}": array for name, array in load(kept).items()},
    }
    for i, (_, some) in enumerate(parts):
        read = [_read(settings, data) for data in some]
        arrays[f"change {i}"] = np.stack([change for _, change in read]).mean(axis=0)
        arrays[f"buffers {i}"] = np.stack([answer.buffers for answer, _ in read]).mean(axis=0)
    found = _ask(run, daemon, Frame({"weights": [weight for weight, _ in parts]}, arrays)).arrays
    values, buffers = found["values"], found["buffers"]
    if values.dtype != np.float32 or values.shape != (numel,) or not np.isfinite(values).all():
        raise _failed(run, daemon, f"returned no version: {numel} finite numbers of float32 were expected")
    if buffers.dtype != np.float64 or buffers.shape != (settings.buffers,) or not np.isfinite(buffers).all():
        raise _failed(run, daemon, f"returned no version: {settings.buffers} finite numbers of float64 were expected as buffers")
    state = {name.removeprefix("state "): array for name, array in found.items() if name.startswith("state ")}
    return values.tobytes() + buffers.tobytes(), save(state)


NOTHING: Final = save({})  # that a daemon keeps at first

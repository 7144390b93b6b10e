"""Files of an experiment: written by one process at a time, read by any. A trial is on disk before the next one begins."""

from __future__ import annotations

import contextlib
import math
import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec

from laminar.core import atomic
from laminar.core.errors import LaminarError
from laminar.core.nearest import did_you_mean
from laminar.experiments.record import Description, Trial
from laminar.store.records import corrupt
from laminar.store.store import Store
from laminar.store.trial_layers import TRIALS

EXPERIMENT: Final = "experiment.json"
NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}")


def folder_of(store: Store, name: str) -> Path:
    if not NAME.fullmatch(name):
        raise LaminarError(
            "L016",
            f"'{name}' is no usable name of an experiment: letters, digits, '_', '-' and '.' only, a letter or digit first, 100 at most",
            hint="choose another name",
        )
    return store.layout.experiments / name


def names(store: Store) -> list[str]:
    """Of every experiment, the newest last."""
    found = [path.parent for path in store.layout.experiments.glob(f"*/{EXPERIMENT}")]
    return [path.name for path in sorted(found, key=lambda path: ((path / EXPERIMENT).stat().st_mtime, path.name))]


def exists(store: Store, name: str) -> bool:
    return (folder_of(store, name) / EXPERIMENT).exists()


def read_description(store: Store, name: str) -> Description:
    """L018 when there is none of this name."""
    path = folder_of(store, name) / EXPERIMENT
    try:
        return msgspec.json.decode(_read(path, name), type=Description)
    except FileNotFoundError:
        raise _unknown(store, name) from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise _damaged(path, name, str(error)) from None


def _read(path: Path, name: str) -> bytes:
    try:
        return atomic.read_bytes(path)
    except FileNotFoundError:
        raise
    except OSError as error:  # a folder in its place, a disk that fails
        raise _damaged(path, name, error.strerror or str(error)) from None


def write_description(store: Store, description: Description) -> None:
    path = folder_of(store, description.name) / EXPERIMENT
    text = msgspec.json.format(msgspec.json.encode(description), indent=1)
    atomic.write_bytes(path, text + b"\n", tmp=store.layout.tmp)


def read_trials(store: Store, name: str) -> list[Trial]:
    """In the order in which they ended. A torn last line is left out."""
    path = folder_of(store, name) / TRIALS
    try:
        lines = _read(path, name).split(b"\n")[:-1]
    except FileNotFoundError:
        return []
    trials = []
    for number, line in enumerate(lines):
        try:
            trials.append(msgspec.json.decode(line, type=Trial))
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise _damaged(path, name, f"line {number + 1}: {error}") from None
    return trials


def _without_nan(trial: Trial) -> Trial:
    """JSON has no NaN and no infinity: what is no number is not known. Points of a curve have None for it."""
    return msgspec.structs.replace(
        trial,
        metrics={name: value for name, value in trial.metrics.items() if math.isfinite(value)},
        series={name: tuple(value for value in values if math.isfinite(value)) for name, values in trial.series.items()},
    )


def append_trial(store: Store, name: str, trial: Trial) -> None:
    """On disk when this returns. What a killed writer left of a line is cut off first."""
    path = folder_of(store, name) / TRIALS
    line = msgspec.json.encode(_without_nan(trial)) + b"\n"
    with atomic.explaining_os_errors(path):
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o666)  # no buffer, which would try again what a full disk refused
        try:
            whole = _whole(file, os.fstat(file).st_size)
            os.ftruncate(file, whole)
            try:
                written = 0
                while written < len(line):
                    written += os.write(file, line[written:])
                os.fsync(file)
            except BaseException:
                with contextlib.suppress(OSError):
                    os.ftruncate(file, whole)
                raise
        finally:
            os.close(file)


def _whole(descriptor: int, end: int) -> int:
    """Where the last whole line ends."""
    size = 1 << 16
    while end > 0:
        start = max(0, end - size)
        found = os.pread(descriptor, end - start, start).rfind(b"\n")
        if found >= 0:
            return start + found + 1
        end = start
    return 0


@contextlib.contextmanager
def running(store: Store, name: str) -> Iterator[None]:
    """Only one process at a time runs an experiment: L307 at once when another does."""
    with contextlib.ExitStack() as held:
        try:
            held.enter_context(store.lock(f"experiment-{name}", timeout=0.0))
        except LaminarError as error:
            if error.code != "L307":
                raise
            raise LaminarError(
                "L307",
                f"another process is running the experiment '{name}' just now",
                hint=f"wait for it, or look at it: laminar experiment show {name}",
            ) from None
        yield


def remove(store: Store, name: str) -> int:
    """The experiment is no more; how many layers gc may now take, unless something else needs them."""
    folder = folder_of(store, name)
    if not folder.is_dir():
        raise _unknown(store, name)
    with running(store, name):
        layers = {trial.layer for trial in _readable(store, name) if trial.layer}
        aside = store.layout.tmp / f".{name}.{os.getpid()}.removed.tmp"
        with atomic.explaining_os_errors(folder):
            os.replace(folder, aside)  # at once: a kill half-way leaves it in tmp, where gc clears up
            shutil.rmtree(aside)
    return len(layers)


def _readable(store: Store, name: str) -> list[Trial]:
    try:
        return read_trials(store, name)
    except LaminarError:
        return []


def _unknown(store: Store, name: str) -> LaminarError:
    return LaminarError(
        "L018",
        f"there is no experiment '{name}' in {store.root}; {did_you_mean(name, names(store))}",
        hint="laminar experiment list",
    )


def _damaged(path: Path, name: str, why: str) -> LaminarError:
    error = corrupt(path, why)
    return LaminarError(error.code, error.message, hint=f"mend that line by hand, or laminar experiment rm {name} and run it again")

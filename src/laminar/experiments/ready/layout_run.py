"""Fetching batches of the same data in several forms, as trials (run.py): in this process, since nothing is trained."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Final, final

import numpy as np
from numpy.typing import NDArray

from laminar.core import digest
from laminar.core.errors import LaminarError
from laminar.core.events import Emit
from laminar.data.batches import Batches
from laminar.data.dataset import Array, Split, as_float
from laminar.data.open import open_data
from laminar.data.order import permutation
from laminar.experiments.order import Next
from laminar.experiments.ready.form import Ask, Ready, own_wishes
from laminar.experiments.ready.layout import BATCH, BYTES, FEATURE, IN_TURN, LAMINAR
from laminar.experiments.record import Axis, Description, Trial, Variant
from laminar.experiments.run import run as run_trials
from laminar.experiments.spec import Budget, Sweep
from laminar.experiments.trial_process import Answer
from laminar.experiments.variants import QUICK, QUICK_SAMPLES, QUICK_SECONDS, variant_of
from laminar.stack.plan import fingerprint_folder
from laminar.stack.read import StackFile
from laminar.store.store import Store

LINE: Final = 64  # bytes of a cache line
SECONDS, QUICK_LOOK = 1.0, 0.2  # that a trial fetches for, at least


def describe(ready: Ready, ask: Ask, file: StackFile, machine: dict[str, Any], now: float) -> Description:
    variants = tuple(variant_of(one.settings, one.label) for one in ready.choices)
    names = ("form", "by", "order")
    asked = digest.of_json({"stack": file.text, "samples": ask.samples, "batch": ask.batch, "quick": ask.quick})
    quick = (f"a quick look: {QUICK_SAMPLES:,} samples, {QUICK_SECONDS:.0f} seconds at most",) if ask.quick else ()
    return Description(
        name=(ask.name or ready.name) + (QUICK if ask.quick else ""),
        title=ready.title,
        question=ready.question,
        stack=file.spec.stack.name,
        layer=file.spec.layer[-1].name,
        axes=tuple(
            Axis(name=name, values=tuple(dict.fromkeys(one.settings[name] for one in variants if name in one.settings))) for name in names
        ),
        variants=variants,
        benchmark=variants[0].id,
        measures=ready.measures,
        repeats=ask.repeats or ready.repeats,
        warm_up=ready.warm_up or 0,
        quick=ask.quick,
        statements=tuple(ready.sweep(ask).statement),
        machine=machine,
        created=now,
        inputs={one.id: asked for one in variants},
        notes=(*ready.notes, *own_wishes(ask), *quick),
        study=ready.study,
        command=ask.command,
    )


def run(
    description: Description, ask: Ask, budget: Budget, file: StackFile, store: Store, emit: Emit, begun: float | None = None
) -> list[Trial]:
    """Trials of earlier goes included."""
    fill = ask.quick and ask.repeats is None
    if ask.quick:
        budget = Budget(hours=min(budget.hours or 1.0, QUICK_SECONDS / 3600), trials=budget.trials)
    sweep = Sweep(name=description.name, even_if_busy=ask.quick or ask.even_if_busy, budget=budget)
    fetcher = _Fetcher(description, ask, file, store)
    return run_trials(description, sweep, file, store, emit, trainer=lambda: fetcher, stack_of=fetcher.stack_of, fill=fill, begun=begun)


@final
class _Fetcher:
    """One thread asks for the stack of a trial, and then has it fetched."""

    def __init__(self, description: Description, ask: Ask, file: StackFile, store: Store) -> None:
        spec = next(iter(file.spec.data.values()))
        data = open_data(spec, file.root, cache=fingerprint_folder(store)).train
        if data.x.dtype != np.uint8:
            raise LaminarError("L008", f"{spec.source} has samples of {data.x.dtype}, not of bytes", hint="--data fashion-mnist")
        most = min(len(data), ask.samples or len(data), QUICK_SAMPLES if ask.quick else len(data))
        self._data = Split(np.ascontiguousarray(data.x[:most]), data.y[:most])
        self._layer, self._file = description.layer, file
        self._batch, self._seconds = min(ask.batch or BATCH, most), QUICK_LOOK if ask.quick else SECONDS
        self._settings: dict[str, Any] = {}
        self._left = False

    def stack_of(self, variant: Variant, what: Next) -> tuple[StackFile, str]:  # noqa: ARG002
        self._settings = variant.settings
        return self._file, self._layer

    def ask(self, asked: dict[str, Any], emit: Emit, *, on_ready: Callable[[], None] | None = None) -> Answer:  # noqa: ARG002
        began, started = time.perf_counter(), time.time()
        fetch, touched = fetching(self._data, self._batch, **self._settings)
        if on_ready is not None:
            on_ready()
        batches, seconds, epoch = 0, 0.0, 0
        while seconds < self._seconds and not self._left:
            start = time.perf_counter()
            batches += fetch(epoch)
            seconds += time.perf_counter() - start
            epoch += 1
        if self._left:
            return {"interrupted": True}
        metrics = {"batches_per_second": batches / seconds, "bytes_touched": touched}
        return {"done": {"started": started, "wall": time.perf_counter() - began, "seconds": seconds, "metrics": metrics}}

    def interrupt(self) -> None:
        self._left = True

    def close(self) -> None:
        """Nothing was started."""


def fetching(data: Split, batch: int, form: str, by: str = "", order: str = "") -> tuple[Callable[[int], int], float]:
    """What makes all batches of an epoch, and says how many; and the bytes that one touches of the data, on average."""
    if form == LAMINAR:
        return _by_laminar(data, batch), _lines_of_rows(data.x, batch, in_turn=False)
    x = data.x.reshape(len(data), -1) if form == BYTES else as_float(data.x).reshape(len(data), -1)
    out, in_turn = np.empty((batch, x.shape[1]), dtype=np.float32), order == IN_TURN
    if by == FEATURE:
        x = np.ascontiguousarray(x.T)
        return _fetcher(x, 1, batch, out, in_turn=in_turn), _lines_of_columns(x, batch, in_turn=in_turn)
    return _fetcher(x, 0, batch, out, in_turn=in_turn), _lines_of_rows(x, batch, in_turn=in_turn)


def _fetcher(x: Array, axis: int, batch: int, out: Array, *, in_turn: bool) -> Callable[[int], int]:
    """`axis`: along which samples lie. Only whole batches are made, so that all of them take as long."""
    samples = x.shape[axis]
    raw = np.empty((batch, *x.shape[1:]) if axis == 0 else (x.shape[0], batch), dtype=x.dtype)

    def fetch(epoch: int) -> int:
        order = None if in_turn else permutation(samples, 0, "layout", epoch)
        for first in range(0, samples - batch + 1, batch):
            if order is None:
                taken = x[first : first + batch] if axis == 0 else x[:, first : first + batch]
            else:
                taken = np.take(x, order[first : first + batch], axis=axis, out=raw, mode="clip")  # no copy of what is taken
            as_float(taken if axis == 0 else taken.T, out=out)
        return int(samples // batch)

    return fetch


def _by_laminar(data: Split, batch: int) -> Callable[[int], int]:
    batches = Batches(data.x, data.y, batch=batch, seed=0, background=False)
    return lambda epoch: sum(len(block.slices) for block in batches.epoch(epoch))


def _lines_of_rows(x: Array, batch: int, *, in_turn: bool) -> float:
    """Of the samples of a batch, one after the other or alone: those that share a line with a neighbour of another batch count it, too."""
    size = x[:1].nbytes
    if in_turn:
        return _lines(np.arange(0, len(x) - batch + 1, batch) * size, batch * size)
    return float(batch * _lines(np.arange(len(x)) * size, size))


def _lines_of_columns(x: Array, batch: int, *, in_turn: bool) -> float:
    """Of every feature the samples of a batch, which lie side by side or all over."""
    samples, width = x.shape[1], x.dtype.itemsize
    if in_turn:
        return float(x.shape[0] * _lines(np.arange(0, samples - batch + 1, batch) * width, batch * width))
    order = permutation(samples, 0, "layout", 0)[:batch]
    return float(x.shape[0] * LINE * len(np.unique(order * width // LINE)))


def _lines(begins: NDArray[np.intp], size: int) -> float:
    """Bytes of the cache lines that so many bytes lie in, which begin at these places: the mean."""
    return float(LINE * ((begins + size - 1) // LINE - begins // LINE + 1).mean())

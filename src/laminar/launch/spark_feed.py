"""Feeding: a DataFrame or an RDD of (features, label) as data that a stack can name.

    from laminar.launch import spark_feed

    spark_feed.feed(frame, "cells.npz", features="features", label="label")
    report = spark_feed.build("project", frame, data="cells", workers=4, strategy="averaging")

Rows are gathered once, partition by partition, into an npz of the project; training reads that, and no row passes through Spark while it
runs. Their order is that of their digests, whatever the partitions were, so the same rows are the same data: nothing is trained again.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

import numpy as np

from laminar.core import atomic
from laminar.core.errors import LaminarError
from laminar.core.events import Emit, nowhere
from laminar.core.memory import available
from laminar.core.nearest import did_you_mean
from laminar.data.dataset import Array
from laminar.data.formats.content import arrays_digest
from laminar.data.formats.npz import read_npz
from laminar.launch.fed_rows import Rows, Wrong, different, pack
from laminar.launch.on_cluster import OnCluster
from laminar.launch.shipment import MOST
from laminar.launch.spark import SparkLauncher
from laminar.stack.build import BuildReport
from laminar.stack.build import build as build_stack
from laminar.stack.choose_strategy import with_strategy
from laminar.stack.project import open_project
from laminar.stack.read import StackFile

Labels = Literal["auto", "classes", "numbers"]
NPZ: Final = "npz:"


@dataclass(frozen=True)
class Fed:
    path: Path
    rows: int
    digest: str  # of the arrays
    changed: bool  # False: the file had these rows already


def feed(
    rows: Any,
    into: str | Path,
    *,
    features: str | Sequence[str] = "features",
    label: str = "label",
    labels: Labels = "auto",
    limit: int | None = None,
) -> Fed:
    """Write a DataFrame (columns `features`, several of which become one vector, and `label`) or an RDD of pairs to the npz `into`.

    `labels`: whole numbers are classes also where the column holds doubles, as Spark ML has them ("auto"); "numbers" means regression.
    `limit`: bytes; default: half of the free memory, at most what is sent to workers.
    L106, L110: rows that will not do. L408: too many. L103: none.
    """
    names = [features] if isinstance(features, str) else list(features)
    chosen, columns = _rdd(rows, names, label)
    parts = chosen.mapPartitions(functools.partial(_packed, features=columns, label=label if columns else None))
    most = limit if limit is not None else min(MOST, (available() or 2 * MOST) // 2)
    arrays = gathered(parts.toLocalIterator(prefetchPartitions=True), ", ".join(names), labels, most)
    path, found = Path(into), arrays_digest(arrays)
    changed = not path.exists() or _digest_of(path) != found
    if changed:
        with atomic.writing(path) as file:
            np.savez(file, allow_pickle=False, **arrays)
    return Fed(path, len(arrays["y"]), found, changed)


def build(
    folder: str | Path,
    rows: Any,
    *,
    data: str,
    workers: int,
    strategy: str | None = None,
    features: str | Sequence[str] = "features",
    label: str = "label",
    labels: Labels = "auto",
    elastic: bool = False,
    targets: list[str] | None = None,
    force: bool = False,
    emit: Emit = nowhere,
) -> BuildReport:
    """Feed the stack in `folder` with `rows` as its data set `data`, and build it on the cluster of the active session."""
    project = open_project(Path(folder))
    file = project.need_file()
    feed(rows, _file_of(file, data), features=features, label=label, labels=labels)
    file = with_strategy(file, strategy, workers, elastic=elastic)
    with OnCluster(SparkLauncher()) as how:
        return build_stack(file, project.open_store(), targets=targets, force=force, emit=emit, how=how)


def gathered(parts: Iterable[Rows | Wrong], names: str, labels: Labels, limit: int) -> dict[str, Array]:
    """`x` and `y` of all parts, in the order of their rows' digests."""
    xs: list[Array] = []
    ys: list[Array] = []
    size = 0
    for part in parts:
        if isinstance(part, Wrong):
            raise part.error()
        size += part.x.nbytes + part.y.nbytes
        if size > limit:
            raise LaminarError(
                "L408",
                f"the frame has more than {limit / 1e6:,.0f} MB of features, which is as much as is gathered and sent to workers",
                hint="write it where workers can read it: frame.write.parquet(…) and source = 'parquet:…', or pass limit=",
            )
        if xs and part.x.shape[1:] != xs[0].shape[1:]:
            raise Wrong(*different(names, part.x.shape[1:], xs[0].shape[1:])).error()
        xs.append(part.x)
        ys.append(part.y)
    if not xs:
        raise LaminarError("L103", "the frame has no rows", hint="look at frame.count(), and at what filters it")
    if len({part.dtype.kind in "US" for part in ys}) > 1:
        raise LaminarError("L110", "labels are partly words and partly numbers", hint="make them one or the other")
    x = np.concatenate(xs)  # uint8 only where all are
    y = _labels(np.concatenate(ys), labels)
    order = np.argsort(_digests(x, y), kind="stable")
    return {"x": x[order], "y": y[order]}


def _labels(y: Array, labels: Labels) -> Array:
    if y.dtype.kind in "US":
        if labels == "numbers":
            raise LaminarError("L110", f"labels are words ('{y[0]}'), expected numbers", hint='labels="classes"')
        return y
    whole = bool((y == np.floor(y)).all() and (y >= 0).all())
    if labels == "classes" and not whole:
        raise LaminarError("L110", "labels are not all whole numbers from 0", hint='number classes from 0, or labels="numbers"')
    return y.astype(np.int64) if labels == "classes" or (labels == "auto" and (whole or y.dtype.kind != "f")) else y.astype(np.float32)


def _digests(x: Array, y: Array) -> Array:
    flat = np.ascontiguousarray(x).reshape(len(x), -1)
    words = y.dtype.kind in "US"
    return np.array(
        [hashlib.sha256(row.tobytes() + (str(at).encode() if words else at.tobytes())).digest() for row, at in zip(flat, y, strict=True)]
    )


def _packed(rows: Iterable[Any], features: list[str] | None, label: str | None) -> Iterable[Rows | Wrong]:
    return pack(rows, features, label)


def _rdd(rows: Any, names: list[str], label: str) -> tuple[Any, list[str] | None]:
    """What to gather, and its columns if they have names."""
    if not hasattr(rows, "columns"):
        if not hasattr(rows, "mapPartitions"):
            raise LaminarError("L110", f"rows are a {type(rows).__name__}, expected a DataFrame or an RDD of Spark", hint="feed(frame, …)")
        return rows, None
    for name in [*names, label]:
        if name not in rows.columns:
            raise LaminarError(
                "L110", f"the frame has no column '{name}'; {did_you_mean(name, rows.columns)}", hint='features="…", label="…"'
            )
    try:
        return rows.select(*names, label).rdd, names
    except Exception as error:  # Spark Connect has no RDDs, and says so by an error of its own
        raise LaminarError("L407", f"the frame's session gives no RDD: {error}", hint="use a session without Spark Connect") from error


def _file_of(file: StackFile, data: str) -> Path:
    if data not in file.spec.data:
        raise LaminarError(
            "L006", f"there is no data set '{data}' in {file.path.name}; {did_you_mean(data, file.spec.data)}", hint=f"add [data.{data}]"
        )
    source = file.spec.data[data].where
    if not source.startswith(NPZ):
        raise LaminarError(
            "L109", f"data.{data} is read from '{source}', expected a file that rows can be fed into", hint=f'source = "npz:{data}.npz"'
        )
    return file.root / source.removeprefix(NPZ)


def _digest_of(path: Path) -> str:
    try:
        return arrays_digest(read_npz(path))
    except LaminarError:
        return ""  # not what feed wrote


__all__ = ["Fed", "build", "feed"]

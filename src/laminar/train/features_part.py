"""Parts: the rows of one prefix, the splits of a data set that need them, and the samples whose rows are missing."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from laminar.core import digest
from laminar.data.dataset import Dataset, as_float
from laminar.data.samples import sample_digests
from laminar.model.prefix import Cut
from laminar.model.prefix_split import close
from laminar.model.weights import raw_bytes
from laminar.train.features_probe import TOLERANCE, features
from laminar.train.features_rows import KeptRows
from laminar.train.features_view import view

if TYPE_CHECKING:
    from laminar.store.store import Store

COMMIT_BYTES = 64 << 20  # so much is computed again after a kill, at most
SMALL_BATCH: Final = 16  # kernels for batches below this round differently, so their features are kept apart


@final
class Part:
    """Rows of one prefix, and the splits that need them. Both splits, unless training and eval form differ before the cut."""

    rows: KeptRows

    def __init__(self, cut: Cut, x: dict[str, NDArray[Any]], fkey: str) -> None:
        self.cut, self.x, self.fkey = cut, x, fkey
        self.digests = {name: sample_digests(array) for name, array in x.items()}
        self.missing: list[tuple[str, int]] = []
        self.computed = self.reused = 0

    def open(self, store: Store) -> None:
        about = {"modules": list(self.cut.modules), "torch": torch_minor()}
        self.rows = KeptRows(store.features_folder(self.fkey), [self.cut.shapes[i] for i in self.cut.kept], about, clock=store.clock)

    def look(self, batch: int) -> None:
        """What is missing: the first place of each sample without a row, in the order of the data."""
        if self._is_wrong(batch):
            self.rows.forget()
        found: dict[bytes, tuple[str, int]] = {}
        for name, digests in self.digests.items():
            for at in np.flatnonzero(self.rows.find(digests) < 0):
                found.setdefault(digests[at].tobytes(), (name, int(at)))
        self.missing = list(found.values())

    def _is_wrong(self, batch: int) -> bool:
        """Compare a few kept rows with the prefix of today. They are equal unless a key failed to tell two prefixes apart."""
        for name, digests in self.digests.items():
            rows = self.rows.find(digests[:256])
            known = np.flatnonzero(rows >= 0)[: min(batch, 8)]
            if len(known):
                fresh = self._compute(self.x[name][known], batch)
                kept = [np.array(array[rows[known]]) for array in self.rows.arrays()]
                return not all(close(torch.from_numpy(a), torch.from_numpy(b), TOLERANCE) for a, b in zip(fresh, kept, strict=True))
        return False

    def fill(self, batch: int, progress: Callable[[int], None]) -> None:
        self.reused = sum(len(d) for d in self.digests.values()) - len(self.missing)
        uncommitted = 0
        for first in range(0, len(self.missing), batch):
            chunk = self.missing[first : first + batch]
            samples = np.stack([self.x[name][at] for name, at in chunk])
            self.rows.append(np.stack([self.digests[name][at] for name, at in chunk]), self._compute(samples, batch))
            self.computed += len(chunk)
            uncommitted += len(chunk) * self.rows.row_bytes
            if uncommitted >= COMMIT_BYTES:
                self.rows.commit()
                uncommitted = 0
            progress(len(chunk))
        self.rows.commit()

    def _compute(self, samples: NDArray[Any], batch: int) -> list[NDArray[np.float32]]:
        """Features to be kept of up to `batch` samples. A short chunk is filled up: the same batch size takes the same kernels."""
        count = len(samples)
        whole = samples if count == batch else np.concatenate([samples, np.repeat(samples[-1:], batch - count, axis=0)])
        values = features(self.cut, torch.from_numpy(np.array(as_float(whole), copy=True)))
        return [values[i].numpy()[:count] for i in self.cut.kept]

    def inputs(self, name: str) -> list[Any]:
        """The arrays that the suffix is fed with: kept rows in the order of the split, and the samples where it wants those."""
        rows = iter([view(array, self.rows.find(self.digests[name])) for array in self.rows.arrays()])
        return [self.x[name] if i == self.cut.input_at else next(rows) for i in range(len(self.cut.shapes))]


def parts_of(fit: Cut, test: Cut, data: Dataset, batch: int) -> list[Part]:
    keys = [key_of(cut, data, batch) for cut in (fit, test)]
    if keys[0] == keys[1]:
        return [Part(fit, {"fit": data.train.x, "test": data.test.x}, keys[0])]
    return [Part(fit, {"fit": data.train.x}, keys[0]), Part(test, {"test": data.test.x}, keys[1])]


def key_of(cut: Cut, data: Dataset, batch: int) -> str:
    """What the kept rows are a function of, besides the sample: tensors, graph, how samples are scaled, and torch."""
    return digest.of_json(
        {
            "format": 1,
            "graph": cut.graph,
            "tensors": [tensor_digest(t) for t in cut.tensors],
            "kept": [list(cut.shapes[i]) for i in cut.kept],
            "input": {"shape": list(data.sample_shape), "dtype": str(data.train.x.dtype), "scale": data.scale},
            "torch": torch_minor(),
            "batch": batch if batch < SMALL_BATCH else None,
        }
    )


def tensor_digest(tensor: Tensor) -> str:
    found = hashlib.sha256(f"{tensor.dtype}{tuple(tensor.shape)}".encode())
    found.update(raw_bytes(tensor))
    return found.hexdigest()


def torch_minor() -> str:
    return ".".join(torch.__version__.split(".")[:2])

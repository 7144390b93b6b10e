"""Borrowed: what training changes in the whole process, and gives back as it was found.

Threads and deterministic kernels (settings), the three random streams that a model's code may draw from (seeded), and Ctrl-C (Interrupts).
"""

from __future__ import annotations

import contextlib
import random
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor

from laminar.core.seeds import derive


@contextlib.contextmanager
def settings(threads: int | None) -> Iterator[None]:
    """Deterministic kernels, and so many threads (None: as found)."""
    found = torch.get_num_threads()
    mode = torch.get_deterministic_debug_mode()
    compiler: Any = sys.modules.get("torch._inductor.config")  # there where a model is compiled
    compiled = compiler is not None and compiler.deterministic
    memory: Any = torch.utils.deterministic
    fill = memory.fill_uninitialized_memory
    try:
        if threads is not None:
            torch.set_num_threads(threads)
        # Without this some CPU kernels add up in the order in which threads come. What has no such form warns and goes on.
        # Not use_deterministic_algorithms: it loads the compiler to tell it so, for more than a second in every process.
        torch.set_deterministic_debug_mode("warn")
        if compiler is not None:
            compiler.deterministic = True
        memory.fill_uninitialized_memory = False  # costs time, and nothing here reads such memory
        yield
    finally:
        memory.fill_uninitialized_memory = fill
        torch.set_deterministic_debug_mode(mode)
        if compiler is not None:
            compiler.deterministic = compiled
        torch.set_num_threads(found)


@contextlib.contextmanager
def seeded(seed: int) -> Iterator[None]:
    """torch's, numpy's and Python's global random streams, started from the seed."""
    words, numbers, python = torch.get_rng_state(), np.random.get_state(legacy=True), random.getstate()
    try:
        # not torch.manual_seed: for every kind of accelerator that is not in use it keeps a stack trace, which takes milliseconds each time
        torch.default_generator.manual_seed(derive(seed, "train", "torch"))
        if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
            torch.cuda.manual_seed_all(derive(seed, "train", "torch"))
        np.random.seed(derive(seed, "train", "numpy") % 2**32)
        random.seed(derive(seed, "train", "python"))
        yield
    finally:
        torch.set_rng_state(words)
        np.random.set_state(numbers)
        random.setstate(python)


def rng_state() -> tuple[Tensor, dict[str, Any]]:
    """All three streams: torch's as a tensor, the others as JSON."""
    kind, words, position, has_gauss, gauss = np.random.get_state(legacy=True)
    version, numbers, spare = random.getstate()
    return torch.get_rng_state(), {
        "numpy": [str(kind), [int(word) for word in words], int(position), int(has_gauss), float(gauss)],
        "python": [version, list(numbers), spare],
    }


def load_rng(words: Tensor, others: dict[str, Any]) -> None:
    torch.set_rng_state(words)
    kind, numbers, *rest = others["numpy"]
    np.random.set_state((kind, np.array(numbers, dtype=np.uint32), *rest))
    version, python, spare = others["python"]
    random.setstate((version, tuple(python), spare))

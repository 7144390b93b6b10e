"""Four jobs on Fashion-MNIST that different strategies suit, for the benchmarks of plans. No claim."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator
from pathlib import Path

from one_build import STACK
from stages import MODELS

# model, arguments, batch, optimizer and rate
JOBS = {
    "mlp": ("laminar:mlp", "{ hidden = [128] }", 256, 'optimizer = "adam", lr = 0.001'),
    "wide": ("laminar:mlp", "{ hidden = [2048, 2048] }", 64, 'optimizer = "sgd", lr = 0.01'),
    "cnn": ("models:deep", "{ }", 128, 'optimizer = "sgd", lr = 0.01'),
    "branches": ("models:wide", "{ }", 32, 'optimizer = "sgd", lr = 0.01'),
}


@contextlib.contextmanager
def project(job: str, *, epochs: int = 5, samples: int | None = None) -> Iterator[Path]:
    """A folder with a stack of one layer, `base`."""
    model, args, batch, optimizer = JOBS[job]
    train = f"epochs = {epochs}, batch = {batch}, {optimizer}, seed = 0, threads = 1"
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        text = STACK.format(source="fashion-mnist", model=model, args=args, train=train)
        if samples is not None:
            text = text.replace('source = "fashion-mnist"', f'source = "fashion-mnist"\nlimit = {samples}')
        (folder / "laminar.toml").write_text(text)
        (folder / "models.py").write_text(MODELS)
        yield folder

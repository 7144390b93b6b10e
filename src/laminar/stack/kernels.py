"""Kernels of graphs, for whoever loads a layer: from files of the project's folder, if they have the digest that the graph names."""

from __future__ import annotations

from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path

from laminar.core.kernel_files import KernelName
from laminar.model.graph_kernels import kernels_by


def kernels_from(*folders: Path | None) -> AbstractContextManager[None]:
    """Graphs that are read in the block find their kernels in these folders, or where the process has them from."""
    return kernels_by(partial(_provided, [folder for folder in folders if folder is not None]))


def _provided(folders: list[Path], kernel: KernelName, operator: str) -> str:
    from laminar.kernels.operator.provide import provide  # most layers have no kernels

    return provide(folders, kernel, operator)

"""Keep: a server's snapshot, one safetensors file with JSON in its header, replaced as a whole.

It survives the server at any moment. Only what is asked to be durable also survives the machine: that takes as long as the disk does.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import safetensors
import safetensors.torch
from torch import Tensor

from laminar.core import atomic
from laminar.core.errors import LaminarError


def file_of(folder: Path, shard: int) -> Path:
    return folder / f"server-{shard}.safetensors"


def write(path: Path, tensors: Mapping[str, Tensor], state: Mapping[str, Any], *, durable: bool) -> None:
    data = safetensors.torch.save(dict(tensors), metadata={"laminar": json.dumps(state)})
    if durable:
        atomic.write_bytes(path, data)
        return
    beside = path.with_suffix(".part")
    beside.write_bytes(data)
    os.replace(beside, path)


def read(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """L604 if it is no snapshot."""
    try:
        with safetensors.safe_open(path, framework="pt") as file:
            state: dict[str, Any] = json.loads(file.metadata()["laminar"])
            return {name: file.get_tensor(name) for name in file.keys()}, state  # noqa: SIM118 - not a dict
    except (OSError, ValueError, KeyError, TypeError, safetensors.SafetensorError) as error:
        raise LaminarError(
            "L604", f"{path} cannot be read: {error}", hint="laminar build --force trains this layer from its start"
        ) from error

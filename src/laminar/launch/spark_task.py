"""What runs in a task of Spark: an agent. Its workspace lies where Spark removes what an executor leaves behind, however it ended."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Iterator

from laminar.launch import agent
from laminar.launch.spark_session import task_number


def be_agent(address: str, token: str, slot: int, _rows: Iterable[object]) -> Iterator[int]:
    """An agent that is turned away fails its task, so that Spark starts another."""
    if folder := os.environ.get("SPARK_LOCAL_DIRS", "").split(",")[0]:
        os.makedirs(folder, exist_ok=True)
        tempfile.tempdir = folder
    if why := agent.serve(address, token, slot, life=task_number()):
        raise RuntimeError(why)
    return iter([slot])

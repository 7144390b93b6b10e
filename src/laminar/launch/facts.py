"""Facts: what a machine says of itself. Standard library only, so that an agent starts at once."""

from __future__ import annotations

import os
import platform
import socket
import sys
import time
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from laminar import __version__
from laminar.core.memory import available


def facts() -> dict[str, Any]:
    return {
        "host": socket.gethostname(),
        "pid": os.getpid(),
        "laminar": __version__,
        "python": platform.python_version(),
        "torch": version_of("torch"),
        "executable": sys.executable,
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1,
        "memory": available(),
        "time": time.time(),
    }


def version_of(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None

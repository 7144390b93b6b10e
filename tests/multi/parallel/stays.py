"""A member that says what it finds, and stays until it is told to leave."""

from __future__ import annotations

import os
import signal
import sys
import threading

import numpy as np

from laminar.parallel.crew import read_brief


def main() -> int:
    brief = read_brief()
    over = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: over.set())
    brief.say(
        {
            "ours": os.environ.get("LAMINAR_OURS"),
            "folder": os.getcwd(),
            "session": os.getsid(0),
            "threads": len(os.listdir("/proc/self/task")),
            "chance": int(np.random.randint(1 << 30)),
        }
    )
    over.wait()
    return 7


if __name__ == "__main__":
    sys.exit(main())

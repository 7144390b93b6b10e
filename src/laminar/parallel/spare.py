"""A spare process: loads what workers need before it is known what it is to do, and becomes whatever its brief says.

Loading torch takes seconds, in which somebody else has other things to do: a chief opens data and model, an engine starts its nodes.
"""

from __future__ import annotations

import gc
import importlib
import os
import sys
from typing import Any, Final

from laminar.parallel import crew

MODULE: Final = "laminar.parallel.spare"
LOADED: Final = ("laminar.parallel.sync.member", "laminar.parallel.apart.worker_process")


def main() -> int:
    crew.die_with(int(sys.argv[1]))
    gc.disable()  # there is no garbage yet, and looking for it takes a tenth of the time
    for name in LOADED:
        importlib.import_module(name)
    gc.freeze()
    gc.enable()
    given = sys.stdin.buffer.read()
    if not given:
        return 0  # nobody needed it
    told = crew.brief_from(given)
    os.environ.update(told.pop("environment"))
    return become(told, told.pop("module"))


def become(brief: dict[str, Any], module: str) -> int:
    crew.GIVEN.append(brief)
    code: int = importlib.import_module(module).main()
    return code


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    os._exit(code)

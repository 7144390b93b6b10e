"""A process that reads, judges and emulates one kernel, so that neither its loops nor its arrays are a burden to the dashboard.

python -m laminar.dashboard.kernel_process < request.json
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import msgspec

from laminar.core.errors import LaminarError
from laminar.kernels.arguments import parameters
from laminar.kernels.open_file import kernel_of, need_extra, read_text
from laminar.parallel.crew import die_with

STEPS: Final = 1_000_000  # rounds of loops that an instance may take
FINDINGS: Final = 100
PAIRS: Final = 300  # of functions, with the verdict on each


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    path: str
    entry: str = "kernel"
    values: dict[str, bool | int | float] = {}
    instances: int | None = None


def main() -> int:
    die_with(os.getppid())
    asked = msgspec.json.decode(sys.stdin.buffer.read(), type=Asked)
    sys.stdout.buffer.write(msgspec.json.encode(look(asked)) + b"\n")
    return 0


def look(asked: Asked) -> dict[str, Any]:
    """All that can be said of the kernel; where something cannot be, why. Raises nothing that a kernel's text can bring about."""
    found: dict[str, Any] = {"text": "", "entry": asked.entry, "entries": [], "parameters": [], "error": None}
    try:
        need_extra()
        from laminar.kernels.language.kernel import entries

        path = Path(asked.path)
        found["text"] = text = read_text(path)
        found["entries"] = [one for one in entries(text, path.name) if one == "kernel" or one.startswith("kernel_")]
        kernel = kernel_of(text, path.name, asked.entry)
    except LaminarError as error:
        return found | {"error": _told(error)}
    from laminar.kernels.analyse.verdicts import verdicts

    found["parameters"] = parameters(kernel)
    found["verdicts"] = _or_error(lambda: [one.to_json() | {"text": one.text} for one in verdicts(kernel, path.name)])
    found["circuit"] = _or_error(lambda: _circuit(kernel))
    found["run"] = _or_error(lambda: _emulated(kernel, asked, path.name))
    return found


def _circuit(kernel: Any) -> dict[str, Any]:
    from laminar.kernels.circuit.picture import rows
    from laminar.kernels.circuit.report import report

    made = report(kernel, 0.0)
    told: dict[str, Any] = made.to_json()
    told["pairs"] = told["pairs"][:PAIRS]
    placed = rows(made.circuit, [one for one in made.edges if not one.next_round])
    return told | {"rows": [[one.number for one in row] for row in placed]}


def _emulated(kernel: Any, asked: Asked, name: str) -> dict[str, Any]:
    from laminar.kernels.emulate.run import emulate
    from laminar.kernels.samples import sample_arguments

    called = sample_arguments(kernel, asked.values, asked.instances, file=name)
    begin = time.perf_counter()
    made = emulate(kernel, called.arrays, called.values, called.count, steps=STEPS, file=name)
    told: dict[str, Any] = made.to_json()
    told["findings"] = told["findings"][:FINDINGS]
    shapes = {one: list(array.shape) for one, array in called.arrays.items()}
    return told | {"values": called.values, "shapes": shapes, "seconds": time.perf_counter() - begin}


def _or_error(work: Callable[[], Any]) -> Any:
    try:
        return work()
    except LaminarError as error:
        return {"error": _told(error)}


def _told(error: LaminarError) -> dict[str, Any]:
    at = getattr(error, "at", None)
    return {"code": error.code, "message": error.message, "hint": error.hint, "line": at.line if at else None}


if __name__ == "__main__":
    sys.exit(main())

"""The process of a daemon of another package: `python -m laminar.grid.daemons.own_process KIND NAME SETTINGS`.

A frame in, a frame out (own.py: `frame`); it ends with whoever asks. What it prints goes to its standard error. A failure is
{"error": text}, and the process goes on.
"""

from __future__ import annotations

import os
import sys
from typing import IO, Any, cast

import msgspec
import numpy as np

from laminar.core.errors import LaminarError
from laminar.grid.daemons.own import Frame, read_frame, write_frame
from laminar.grid.own_daemon import Answer, Judged, Model, Part
from laminar.train.own_daemons import Kind, entry_point


def main() -> None:
    kind, name, settings = cast(Kind, sys.argv[1]), sys.argv[2], msgspec.json.decode(sys.argv[3], type=dict[str, Any])
    out = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    made: Any = None
    while (asked := read_frame(sys.stdin.buffer)) is not None:
        try:
            if made is None:
                made = entry_point(kind, name).load()(**settings)
            answer = _judge(made, asked) if kind == "validator" else _step(made, asked)
        except LaminarError as error:
            answer = Frame({"error": error.message}, {})
        except Exception as error:
            answer = Frame({"error": f"{type(error).__name__}: {error}"}, {})
        _say(out, answer)


def _say(out: IO[bytes], answer: Frame) -> None:
    write_frame(out, answer)
    out.flush()


def _judge(validator: Any, asked: Frame) -> Frame:
    answers = [
        Answer(**told, change=asked.arrays[f"change {i}"], buffers=asked.arrays[f"buffers {i}"])
        for i, told in enumerate(asked.head["answers"])
    ]
    found: Judged = validator.judge(answers, asked.head["needs"])
    return Frame({"good": [int(one) for one in found.good], "wrong": [int(one) for one in found.wrong]}, {})


def _step(assimilator: Any, asked: Frame) -> Frame:
    arrays = asked.arrays
    state = {name.removeprefix("state "): array for name, array in arrays.items() if name.startswith("state ")}
    parts = [Part(arrays[f"change {i}"], arrays[f"buffers {i}"], weight) for i, weight in enumerate(asked.head["weights"])]
    found: Model = assimilator.step(Model(arrays["values"], arrays["buffers"], state), parts)
    kept = {f"state {name}": np.asarray(array) for name, array in found.state.items()}
    return Frame({}, {"values": np.asarray(found.values), "buffers": np.asarray(found.buffers), **kept})


if __name__ == "__main__":
    main()

"""Figures that a benchmark hands to `by_turns.py`. No claim.

    record("mlp-256, two workers", 41_000)                 # samples/s: more is better
    record("laminar --help", 0.038, better="lower")        # seconds

Without `by_turns.py` nobody asks for them, and nothing is written.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Literal

VARIABLE = "LAMINAR_FIGURES"


def record(name: str, value: float, better: Literal["higher", "lower"] = "higher") -> None:
    if VARIABLE in os.environ:
        with Path(os.environ[VARIABLE]).open("a") as file:
            file.write(json.dumps({"name": name, "value": value, "better": better}) + "\n")

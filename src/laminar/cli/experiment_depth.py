"""Hidden layers, 1, 4 and 8: loss, accuracy and time in per cent of one.

A deeper model has as many more hidden modules as wide as its last.
"""

from __future__ import annotations

from laminar.cli.experiment_ready import verb_of

run = verb_of("depth")

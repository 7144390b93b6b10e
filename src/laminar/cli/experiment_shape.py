"""Wide or deep: 1, 2, 4 and 8 hidden modules with as many parameters in all, against time, accuracy and loss."""

from __future__ import annotations

from laminar.cli.experiment_ready import verb_of

run = verb_of("shape")

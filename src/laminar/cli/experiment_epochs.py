"""Epochs, 1 to 20: loss, accuracy and time in per cent of one epoch.

The loss in training stands beside the one on data held out, so that over-fitting is seen.
"""

from __future__ import annotations

from laminar.cli.experiment_ready import verb_of

run = verb_of("epochs")

"""Batches of 32 to 8192 against steps and time to a target accuracy, with plain optimizers and with LARS and LAMB.

The critical batch is fitted for each optimizer. For a stack of your own, --target says which accuracy is waited for.
"""

from __future__ import annotations

from laminar.cli.experiment_ready import verb_of

run = verb_of("batch")

"""Flowers: one process, a single node that saves checkpoints, and a master with 6 workers and 3 parameter servers, for 1 and 3 epochs.

A fifth of the photographs is held out and tested after every epoch, so that over-fitting is seen. The slow store shows what checkpoints
cost. --single and --cluster say where nodes are, if not on this machine.
"""

from __future__ import annotations

from laminar.cli.experiment_ready import verb_of

run = verb_of("flowers")

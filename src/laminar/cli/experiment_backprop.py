"""Back-propagation in parallel: pipelines (GPipe, 1F1B, zero bubble) and a mesh on two workers, against one process.

A layer of your own has to be one that can be cut and split; where it is not, those trials fail with the reason.
"""

from __future__ import annotations

from laminar.cli.experiment_ready import verb_of

run = verb_of("backprop")

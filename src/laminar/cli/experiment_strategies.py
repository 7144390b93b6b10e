"""Strategies against each other, to a target accuracy: solo, sync, averaging, downpour, quorum, mesh and pipeline.

Of a model that cannot be split, the trials of mesh and pipeline fail with the reason, and the others go on.
"""

from __future__ import annotations

from laminar.cli.experiment_ready import verb_of

run = verb_of("strategies")

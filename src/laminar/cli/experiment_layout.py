"""Training data in memory: batches per second and bytes touched, by the form and the order of samples. Nothing is trained.

Bytes or float32, by sample or by feature, shuffled or in turn, and as Laminar fetches them.
"""

from __future__ import annotations

from laminar.cli.experiment_ready import verb_of

run = verb_of("layout")

"""Strong and weak scaling: the same batch on more workers, and a batch that grows with them.

Efficiency is the rate against that of one worker, divided by the workers.
"""

from __future__ import annotations

from laminar.cli.experiment_ready import verb_of

run = verb_of("scaling")

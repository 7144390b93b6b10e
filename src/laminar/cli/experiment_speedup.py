"""Speed-up and batch size: one worker, two and (on four cores) four, for batches of 32 to 8192.

Each batch is held against one worker with the same batch.
"""

from __future__ import annotations

from laminar.cli.experiment_ready import verb_of

run = verb_of("speedup")

"""Cores 1 to 4, as `sync` workers and as threads: loss, accuracy and time in per cent of one core.

In the published study two cores were slower than one. More of either than this machine has cores are said to be so.
"""

from __future__ import annotations

from laminar.cli.experiment_ready import verb_of

run = verb_of("cores")

"""A desktop grid on this machine: synchronous training, and asynchronous with SGD and with Deep Gradient Compression.

A server and 5 or 6 nodes, each a process of its own; needs the extra `grid`.
"""

from __future__ import annotations

from laminar.cli.experiment_ready import verb_of

run = verb_of("grid")

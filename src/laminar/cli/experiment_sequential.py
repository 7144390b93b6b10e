"""One process, one hidden layer of 128, five epochs of Fashion-MNIST: accuracy and time of each epoch.

Beside the accuracy and time that were published. `--quick` takes a minute at most.
"""

from __future__ import annotations

from laminar.cli.experiment_ready import verb_of

run = verb_of("sequential")

"""Width of the hidden layer, 32 to 512: loss, accuracy and time in per cent of 32 neurons.

Of the layer that varies, every hidden module becomes as wide.
"""

from __future__ import annotations

from laminar.cli.experiment_ready import verb_of

run = verb_of("neurons")

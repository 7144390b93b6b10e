"""Classic development against development in layers, at first and after a mistake in the last part: time and accuracy.

MNIST; --on spark for nodes of a Spark cluster. Each repeat builds everything anew, in a store of its own.
"""

from __future__ import annotations

from laminar.cli.experiment_ready import verb_of

run = verb_of("layers")

"""The command line: one file per verb, which reads arguments, calls one function of the packages below, and prints.

Read in this order: verbs.py (the list, and how a verb is loaded only when it is called), output.py (tables, JSON, errors),
progress.py (bars of a build), then any verb. Not here: anything that decides.
"""

from __future__ import annotations

from laminar.cli.verbs import main

__all__ = ["main"]

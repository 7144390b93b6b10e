"""Aggregate: what an arriving gradient does. One machine for every strategy in which workers do not march in step.

Read in this order: rules.py (what may be set, and which settings make sync, quorum, downpour and the grid), messages.py (what goes in and
comes out), aggregator.py (the machine), weights.py (how much a gradient counts), own.py (what a worker knows already), seen.py (nothing
twice), state.py (what is kept over a restart, and the figures).
Pure: no torch, no clock, no I/O. A gradient is a name here (`payload`); who calls holds the numbers and does what the actions say.
Not here: how gradients travel, how they are summed, which optimizer takes them (the strategies beside this package).
"""

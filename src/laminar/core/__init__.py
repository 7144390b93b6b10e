"""Core: what every other package stands on. Standard library only.

Read in this order: errors.py (the catalogue of what can go wrong), digest.py (canonical JSON and sha256), atomic.py (temp + fsync +
rename), places.py (reading and writing at one), permission.py (what may not be read or written, and what to do), clock.py, seeds.py,
events.py (one JSON line per event), interrupts.py (Ctrl-C and processes that load), nearest.py (did you mean), sizes.py ("2GB" in bytes),
figures.py (numbers for people), closure.py (which source a factory reaches), project_code.py (importing a project's own modules, kept
apart from all others).
Not here: anything that knows of tensors, stacks or stores.
"""

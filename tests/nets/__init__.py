"""Nets: fuzzers that hold a promise of the whole product. Each is a module of this package.

    make fuzz NET=kernels MINUTES=30          # goes on where the last run of this net stopped
    make fuzz NET=kernels SEED=4711 MINUTES=0 # one case again

A net has one function, `check(seed)`. It makes one case from the seed alone, tries it, raises AssertionError where the promise does not
hold, and returns a word for what it tried ("native", "refused"), which the runner counts. What is expensive to start (a child process, a
server) is started once, kept by the module, and ended by its `close()`, if it has one. `make test` runs a few hundred fixed seeds of
each net; `run.py` runs as many as there is time for.
"""

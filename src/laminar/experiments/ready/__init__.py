"""Ready experiments: questions that can be asked with one command, beside the figures that papers published about them.

Read in this order: form.py (what a ready experiment is), tables.py and studies.py (what was published), judged.py (what is to be confirmed
or refuted), then any experiment: cores.py, neurons.py, depth.py, epochs.py, sequential.py, scaling.py, batch.py, strategies.py,
backprop.py, speedup.py, shape.py, flowers.py. Three are no sweeps of one layer and bring a way of their own to run: layers.py with
layers_run.py, layout.py with layout_run.py, grid.py with grid_run.py. catalogue.py lists them all, stacks.py has what they train where no
stack is at hand, ask.py runs them.
Not here: how trials are run, counted and compared (experiments), how they are drawn (report).
"""

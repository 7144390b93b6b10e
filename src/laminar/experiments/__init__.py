"""Experiments: families of builds, held against a benchmark, with honest statistics, tables and pictures.

Read in this order: record.py (what is kept of an experiment; files.py reads and writes it), spec.py (what may be written in sweep.toml),
axes.py (what a name in it changes), variants.py (the product, and the stack of each trial), order.py (which trial is next; halving),
agenda.py (the same as trials come in; search.py asks Optuna), run.py (trial after trial), trial_process.py and trial_child.py (the
process that trains them), heard.py (curves), measures.py, intervals.py, statistics.py (what the trials say: a Summary of results.py),
statements.py (sentences confirmed or refuted; statement_arguments.py checks what they are given), fit.py (critical batch,
scaling), extras.py (tables of these, and of epochs), speedups.py (trials against those with fewer workers), checkpoints.py (what these
explain), differences.py (what else differs between variants), listing.py (all of them in a line each).
Not here: how a layer is built (stack), how a job is split (parallel), pages that are served (dashboard).
"""

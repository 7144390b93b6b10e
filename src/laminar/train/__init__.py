"""Train: from a model, data and a recipe to trained tensors, in one process.

Read in this order: recipe.py (what may be written under `train`), schedules.py (the learning rate at any step), job.py (what is
trained, and on which inputs), loop.py (the loop, top to bottom), with backward.py and dense.py (gradients of a step), changes.py (how far
weights went in an epoch), saving.py (when a run is kept), astray.py and one_row.py (how one fails), together.py (what a team does at once:
team.py, shares.py) and beside.py (epochs that an evaluator tests).
What the loop stands on: lines.py (where a batch begins), losses.py, optimizers.py (with lars.py and lamb.py), dtype.py, metrics.py,
evaluate.py, misgivings.py (is what came out worth anything), borrowed.py (threads, random streams and Ctrl-C, given back after), history.py
and tensorboard.py (what is told), snapshot.py (a run as tensors and JSON), checkpoint.py (how that reaches the disk and comes back).
features.py begins the part that keeps what a frozen prefix computes.
Not here: what a layer's key is (stack), how a job is split over workers (parallel), where trained tensors are kept (store).
"""

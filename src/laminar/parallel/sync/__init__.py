"""Sync: every worker holds the model, and gradients are averaged at each step. On one machine they meet in shared memory.

Read in this order: layout.py (what lies where in the memory that the workers share), shared_optimizer.py (a step: everybody writes a
gradient, each sums and applies a part of it), shared_team.py (the rest of what a team needs).
Not here: the loop itself (train/loop.py), starting and watching the processes (../local.py).
"""

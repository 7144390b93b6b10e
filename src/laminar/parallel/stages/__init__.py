"""Stages: one layer trained by workers that have different operators of the model: a pipeline, or branches side by side.

    flow.py        what operators need of each other, and where gradients go back (no torch)
    cut.py         a row of operators in stages that take equally long; branches.py: branches found and dealt out (no torch)
    plan.py        stages, and what goes between them (no torch)
    schedules.py   in which order lanes do what; orders.py: for a strategy (no torch); micro.py: rows of micro-batches
    measure.py     how long each operator takes; kept_costs.py: or took, when the run began; mixing.py: which need more than one row
    prepare.py     all of that for a job
    runner.py      follows the orders in one lane, with posts (post.py, posts.py) in shared memory or over gloo
    holders.py     which lanes have which tensors; module.py, team.py: what the loop trains
    chief.py, member.py   the processes

A lane is a worker along the pipeline, or a whole mesh of them: what a stage's operators are and how they are split over a mesh is split/'s.
"""

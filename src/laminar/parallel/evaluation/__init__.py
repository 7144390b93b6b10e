"""Evaluation: the evaluator, a process that tests epochs while workers train on. Its figures are an epoch's; its death is nobody's loss.

Read in this order:

    messages.py            what it and its desk say to each other, over ../wire/
    desk.py                where an evaluator calls for work: in member 0 of a sync training, in the chief of a training apart
    evaluator_process.py   the process
    hire.py                the chief starts one, and another when it dies

Not here: what follows from the figures (train/beside.py, ../apart/judge.py).
"""

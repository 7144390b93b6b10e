"""Parallel: one layer trained by many workers, split by data.

    run.py       the door: a job and its strategy
    sync/        gradients averaged at each step, in shared memory (segment.py, meeting.py)
    crew.py      processes of this machine: started, listened to, ended
    aggregate/   what an arriving gradient does: applied, held, aged or dropped
    compress/    gradients as small packets, the same for every strategy
    outer.py, server_optimizers.py   steps on averages, and on the shards of a parameter server

Only `sync` is a strategy that can be chosen yet; what is in the last three lines is for those to come.
Not here: the loop of one process (train).
"""

"""Parallel: one layer trained by many workers, split by data, or by the model itself.

    run.py       the door: a job and its strategy
    sync/        gradients averaged at each step, in shared memory (segment.py, meeting.py, parking.py) or over torch.distributed
    apart/       averaging, downpour, quorum: servers and workers that speak over wire/
    split/       workers that have parts of the model's tensors each
    stages/      workers that have different operators of the model: a pipeline, branches
    team_chief.py, team_member.py  the processes of those that wait for each other at every step: sync, split, stages
    threads.py   how many threads each process has
    evaluation/  a process that tests epochs while others train
    crew.py      processes of this machine: started, listened to (speech.py), ended; spare.py: started before it is known what for
    nursery.py   forks processes that have loaded torch already; forked.py: those, for whoever asked
    aggregate/   what an arriving gradient does: applied, held, aged or dropped
    compress/    gradients as small packets, the same for every strategy
    outer.py     steps on averages; restore.py: states back into place; waited.py: how long a worker had nothing to do

Not here: the loop of one process (train).
"""

"""Sync: every worker holds the model, and gradients are averaged at each step.

Read in this order: chief.py (starts the workers and goes on when one dies), member.py (one of them), links.py (what lies between them).

In the shared memory of one machine: layout.py (what lies where), parts.py (who updates what), shared_optimizer.py (a step: everybody writes
a gradient, each sums and applies a part of it), shared_team.py (the rest of what a team needs), standing.py with crowding.py and
own_state.py (members that take the rows of others while these have no core, and when they may not).
Over torch.distributed, as between machines: process_group.py (collectives that break and never hang), buckets.py with
bucket_sizes.py (gradients on their way while others are computed), group_team.py (a step, and the rest), sent_bytes.py (what of it
goes over the wire).
Over both: small_gradients.py (compression, and what it keeps back).

What one process learns although each worker has some rows of a batch: row_probe.py (do rows depend on each other in this model? found by
running it) with row_facts.py (what it found, for workers and planner), batch_norms.py (batch norms with the statistics of whole batches),
team_statistics.py (of a team) and statistics_room.py (where its members exchange them, over either link).

Not here: the loop itself (train/loop.py), what a team is (train/team.py), processes (../crew.py), compressors (../compress).
"""

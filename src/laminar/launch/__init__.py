"""Launch: workers on the machines of a cluster that people have. Strategies know nothing of it.

Read in this order:

    protocol.py        what a launcher is: it starts agents. local_agents.py, ray.py, spark.py and environment.py (torchrun, Slurm) are
                       launchers; choose.py finds the one that `--on` names
    agent.py           runs on each worker's machine: starts processes on the chief's order. workspace.py is its folder, facts.py what it
                       says of its machine, measure.py how far it is to another
    messages.py, post.py   what chief and agents say to each other, over parallel/wire/; a line may break, nothing that was said is lost
    switchboard.py     the chief's lines: who is here, who is lost. agents.py is what it knows of them, patience.py how long it waits
    staff.py           makes remote processes look like the chief's own (parallel/crew.py). shipment.py is what they are given,
                       run_files.py keeps what they write
    on_cluster.py      trains the jobs of a build so; check.py looks a cluster over
    spark_feed.py      a DataFrame as data of a stack; fed_rows.py makes arrays of its rows
    kubernetes/        writes manifests; it starts nothing

Not here: how a job is split over workers (parallel).
"""

"""Trials: plans and real training. Here torch is loaded, and strategies are run.

    open_layer.py   a layer of a stack as a job, without building it
    trial.py        a strategy, run for some real steps
    planner.py      a job's plans: what is measured, searched and corrected, together
    calibrate.py    every kind of strategy on small models, once for a machine: what the ledger's first corrections come from
    auto.py         `laminar build --strategy auto`: plan, try the best ones, train with the winner, and write down what was predicted

Not here: what single operators and links take (profile), how a step is simulated and searched (the pure files of plan).
"""

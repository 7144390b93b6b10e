"""Profile: everything that measures, for a planner that only computes. The only part of plan/ that needs torch.

    measure.py      the door: Profile(job) offers what plan/known.py asks for, measured when it is asked for
    meter.py        everything is measured through it: kept.py (SQLite, so once), busy.py (not beside others), timing.py (how)
    this_machine.py what tells one machine from another; model_code.py: one model's code from another's

    traced_job.py   the model, traced once and placed as often as somebody asks
    operators.py    a placed model as one worker runs it; one_operator.py: its operators on made-up tensors, laid out as theirs
                    (patterns.py); copying.py: what it copies for exchanges; dry_line.py: exchanges without others
    passes.py       whole passes; unchanged.py: the job is afterwards what it was; by_modules.py: a model that cannot be traced,
                    by the calls of its modules (module_calls.py)
    stage_costs.py  operators in the stages of a pipeline or of branches
    job_facts.py    gathering, the optimizer; loop_trial.py: the loop; noise.py: the gradient noise scale; packing.py: gradients
                    made small

    links.py        what processes can do together, by real ones: link_member.py, in step (in_step.py) with link_exchanges.py,
                    link_servers.py, link_compute.py

kept.py, busy.py, this_machine.py need no torch. Not here: what a plan costs (the pure files of plan/), trying plans (trials/).
"""

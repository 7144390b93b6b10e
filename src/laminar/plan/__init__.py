"""Plan: which strategy will be fastest for a job on given machines, before anything is trained.

Read in this order:

    plan.py, facts.py, known.py   what comes out; what was measured; what is asked of whoever measures
    budget.py                     the time that there is for all of it
    machine.py, read_machine.py   nodes and links, of this machine or of a file; places.py: workers on them, and what it costs to meet
    tasks.py, simulate.py         a step as tasks that hold resources, on the clock; delta.py with links.py: the same after an edit, without
                                  beginning anew; memory.py, critical.py: what a timeline tells
    price.py                      the door to what strategies take: price_sync.py, price_mesh.py, price_stages.py, price_apart.py
    passes.py                     a whole pass of one worker as tasks, by modules where a model cannot be traced
    apart.py                      the pace of those that do not march in step, simulated with seeds
    desktops.py                   a grid as part of a machine, and what is asked of whoever prices it (grid/pricing, which stands above)
    steps_needed.py               samples to a target, by batch, staleness and period of averages
    candidates.py, search.py      what is tried, and the order it comes out in; search_modules.py, anneal.py, cuts.py: degrees that are many
    explain.py, chrome_trace.py, timeline_svg.py   why; and pictures
    choose.py                     which of some plans is fastest, by trials that differ
    ledger.py, ledger_check.py    what was predicted and measured so far; our_code.py: by which Laminar

profile/ measures, and trials/ runs strategies for some real steps: only these two load torch.
Not here: how strategies run (parallel), which of them a stack asks for (train/strategies.py).
"""

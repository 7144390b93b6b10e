"""Apart: workers that do not march in step. They push what they found to servers, and get parameters from them.

Read in this order:

    plan.py, prepare.py, cut.py   what every process knows; what cannot be trained so; which tensors lie where. brief.py: what it is told
    messages.py                   what they say to each other, over ../wire/
    work.py                       which batches are done by whom
    server.py                     a server: hears its workers and tells them what to do. Its decisions.py ask ../aggregate; its numbers.py
                                  and shard.py hold the parameters; keep.py writes its snapshot, report.py tells the chief
    trainer.py                    gradients of a worker; worker_rounds.py (quorum, averaging), worker_downpour.py with unpushed.py, line.py
                                  and talk.py; calls.py finds its servers again; own_state.py is what it must not lose
    chief.py                      starts all, and ends it; judge.py tests, progress.py tells and remembers, watch.py and deaths.py know
                                  who is silent, and who died too often; after_ctrl_c.py is how it ends then
    invitation.py, join.py        one more worker

server_process.py and worker_process.py are where processes begin.
Not here: sync, whose workers share one copy of everything.
"""

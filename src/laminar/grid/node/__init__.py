"""Node: a desktop that lends its idle time. Three processes: one that talks to the server and minds its owner (no torch), one that computes
(no network), and one that opens data, which is there only while it is needed.

Read in this order: home.py (what a node keeps on its disk), client.py (signed requests) over line.py (a connection), limits.py (what the
owner allows; pure) with owner_words.py (as it was said) and token_given.py, machine.py (what the machine is doing), idle.py and
idle_ways.py (is somebody there?), habits.py (how much it may work), keeper.py (the loop) with supplies.py (what a task needs),
too_large.py (what does not fit), sent.py (answers that may have to be put back), tidy.py (what goes from the disk), computers.py (the other
processes) and computer.py (one of them); there, child.py (what both have in common) with memory_limit.py, worker_process.py, worker.py and
trainer.py (the work) with halfway.py (what a reboot must not cost), data_process.py and data_files.py (data that come over the network)
with sources.py (data that a server may ask for); kernels.py (kernels that the owner has put there); at_login.py (starting
it again).
A node runs no code of the server: it gets a graph of tensor operators, numbers, names of public data, and digests of kernels that it has.
"""

"""Mirrors: files with known digests from several places at once, each place used for what it turns out to be good for.

Read in this order: wanted.py (what is asked for), faults.py (how a mirror can fail); then what decides, which is pure: swarm.py (who
fetches what) with swarm_messages.py (what goes in and out of it), health.py (speed, rest, lies), pending.py (what nobody fetches yet)
and relief.py (who takes over from whom); then the edges: cache.py (where files end up) with cache_leases.py, parts.py (half a file) and
fillings.py (a unit), readers/ (one file a scheme), transfer.py (a thread a connection around the swarm), fetch.py (the two functions
that others call).
Not here: what an index says (data/index.py), being a mirror (data/serve), single downloads by name (data/download.py).
"""

"""Serve: be a mirror. Files of a folder, those that an index names and no others, to be read over http and ftp.

Read in this order: shelf.py (what is served), http_mirror.py, ftp_mirror.py (one server each), troubles.py (what the servers'
libraries say), mirror.py (both, while a block lasts).
Needs the extra `serve`. Not here: fetching from mirrors (data/mirrors), making an index (data/make_index.py).
"""

from laminar.data.serve.mirror import Served, serving

__all__ = ["Served", "serving"]

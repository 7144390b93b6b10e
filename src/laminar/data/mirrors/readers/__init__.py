"""Readers: one connection to a mirror each, by the scheme of its URL.

protocol.py (the seam), places.py (from a URL to a reader), reach.py (which addresses it may have), then one file each: http_reader.py,
ftp_reader.py, folder_reader.py, and fsspec_reader.py for everything else. `laminar.testing.mirror_contract` holds every reader to the same.
"""

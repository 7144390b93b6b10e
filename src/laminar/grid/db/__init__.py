"""Db: all that a grid remembers, in SQLite or PostgreSQL. SQLAlchemy Core; no torch, no network, no decisions.

Read in this order: schema.py (the tables), book.py (opening it, transactions, and where a test can kill them), tx.py (a transaction),
sheets.py (rows that a transaction has read, and writes at its end; bulk.py has the statements for many rows), prepared.py (other
statements), moves.py (the one way in which a result changes its state), then by table: nodes.py (and tokens), runs.py (and rounds and
counts), tasks.py (and results), versions.py (and files and residuals), uploads.py, custody.py.
Times are seconds since 1970 by the server's clock; blobs are what wire/ makes of them.
"""

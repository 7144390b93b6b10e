"""Formats: how the bytes of one file become arrays. idx.py, npy.py, npz.py, safetensors.py, cifar.py, images.py; delimited.py (CSV);
arrow.py and columns.py (Parquet and Arrow); streams.py is under several of them; content.py digests arrays.

Every reader raises L102 with the file's path and what is wrong with it. Not here: which files (sources/).
"""

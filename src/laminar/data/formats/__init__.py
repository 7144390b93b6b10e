"""Formats: how the bytes of one file become arrays. idx.py, npz.py, images.py; content.py digests arrays.

Every reader raises L102 with the file's path and what is wrong with it. Not here: which files (sources/).
"""

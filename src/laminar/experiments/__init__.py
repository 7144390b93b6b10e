"""Experiments: families of builds, held against a benchmark, with honest statistics, tables and pictures.

Read in this order: record.py (what is kept of an experiment, and how it is written).
Not here: how a layer is built (stack), how a job is split (parallel), pages that are served (dashboard).
"""

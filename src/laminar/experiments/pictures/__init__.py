"""Pictures of an experiment: one file for each kind, drawn by matplotlib, which is imported when something is drawn.

Read in this order: choose.py (which pictures an experiment gets), curves.py (accuracy against time, as an example of the others: bars.py,
along.py, speedup.py, batch.py, time_to.py, overfit.py, series.py, tree.py), sheet.py (what they draw on, and what becomes of it),
palette.py (colours that everybody can tell apart), chosen.py (few of many variants), scales.py, svg.py (a drawing as part of a page),
timelines.py (pictures that runs have left).
Each kind gathers its data in pure functions; only `_draw` knows matplotlib.
Not here: what trials say (statistics.py), tables and pages (report).
"""

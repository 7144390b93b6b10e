"""The dashboard: a local web page that shows layers, runs, plans, experiments and the grid. It owns no state.

Not here: what it shows, which is read from the store (store, stack), the run events, the plan ledger, experiments and the grid's server.
"""

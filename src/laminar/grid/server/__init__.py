"""Server: what nodes, commands and browsers can ask for. No torch.

Read in this order: service.py (what is done for a node), batch.py (what many requests have in common), commands.py (what is done for
whoever runs the grid), overview.py (figures for people), then HTTP: door.py (which connections stay when there are too many), patience.py
(those that never come to the point), gate.py (who may come in: signatures, replays, rates, sizes), routes.py, admin_routes.py, pages.py
(status page and metrics), openapi.py, serve.py (the process; listening.py: its socket).
Not here: decisions about tasks and answers (daemons, trust).
"""

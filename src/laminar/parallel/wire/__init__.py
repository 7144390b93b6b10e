"""Wire: messages between processes, over TCP or a Unix socket. A message is a JSON object and bytes.

Read frames.py (how a message is written), addresses.py (`unix:PATH` or `HOST:PORT`), link.py (the side that asks, and waits), hub.py (the
side that serves: it waits for whoever speaks next, and never for one of them), room.py (where bytes lie that need not be sent).
Whoever connects to a hub must first say its token.
Not here: what the messages mean (../apart/messages.py).
"""

"""Wire: what goes between server and nodes, as values and bytes. No torch, no network.

Read in this order: messages.py (every request and answer), signing.py (who said it; ed25519), answer.py (the frame in which numbers come
back), model_bytes.py (a version of the model, whole or as the difference to another), sketch.py (a fingerprint of a change that can be
compared within a tolerance).
"""
